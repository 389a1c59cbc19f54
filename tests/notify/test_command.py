"""`gpumon notify --test TENANT`: a message to each of the tenant's targets, and what each service said."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumon.cli import main
from tests.notify.servers import Robot, serving


def config(folder: Path, url: str) -> str:
    """Write a configuration with one tenant's robot and one without a target."""
    (folder / "robot").write_text(url, "utf-8")
    file = folder / "gpumon.toml"
    target = f'[[notify.target]]\ntenant = "acme"\nkind = "wecom"\nlanguage = "zh"\nurl_file = "{folder}/robot"\n'
    file.write_text(f'[[tenant]]\nid = "acme"\n[[tenant]]\nid = "zeta"\n{target}', "utf-8")
    return str(file)


def test_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message arrives in the tenant's language and the command says so."""
    with serving(Robot(200, {"errcode": 0})) as robot:
        assert main(["notify", "--test", "acme", "--config", config(tmp_path, robot.url)]) == 0
    assert "测试消息" in robot.texts[0]
    assert capsys.readouterr().out == "acme-1 (wecom): sent\n"


def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A refusal with status 200 is exit code 1 and the service's own words, without the address."""
    with serving(Robot(200, {"errcode": 93000, "errmsg": "invalid webhook url"})) as robot:
        assert main(["notify", "--test", "acme", "--config", config(tmp_path, robot.url)]) == 1
    out = capsys.readouterr().out
    assert "93000: invalid webhook url" in out and "s3cret" not in out


@pytest.mark.parametrize(("tenant", "said"), [("zeta", "has no [[notify.target]]"), ("nobody", "known are acme, zeta")])
def test_wrong_tenant(tmp_path: Path, capsys: pytest.CaptureFixture[str], tenant: str, said: str) -> None:
    """A tenant without a target, or an unknown one, is wrong usage in one sentence."""
    assert main(["notify", "--test", tenant, "--config", config(tmp_path, "http://127.0.0.1:9/")]) == 2
    assert said in capsys.readouterr().err
