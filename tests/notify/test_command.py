"""`gpumon notify`: a message to each of a tenant's targets and what each service said; the relay as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from gpumon.cli import main
from tests.notify.servers import Robot, serving
from tests.notify.test_relay import body


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


@pytest.mark.realtime
def test_relay_as_a_process(tmp_path: Path) -> None:
    """What Alertmanager posts reaches the tenant's robot once, and SIGTERM ends the relay cleanly."""
    with serving(Robot(200, {"errcode": 0})) as robot:
        file = config(tmp_path, robot.url)
        relay = subprocess.Popen(
            [sys.executable, "-m", "gpumon", "notify", "--relay", "127.0.0.1:0", "--config", file],
            stderr=subprocess.PIPE,
            env={**os.environ, "GPUMON_LOG_LEVEL": "info", "STATE_DIRECTORY": str(tmp_path)},
        )
        assert relay.stderr is not None
        port = json.loads(relay.stderr.readline())["port"]
        for _ in range(3):
            text = body(["f1"], "firing", time.time())
            urllib.request.urlopen(f"http://127.0.0.1:{port}/alertmanager", text, timeout=10).close()
        deadline_s = time.monotonic() + 10
        while not robot.got and time.monotonic() < deadline_s:
            time.sleep(0.05)
        relay.send_signal(signal.SIGTERM)
        assert relay.wait(10) == 0
    assert len(robot.got) == 1 and "任务 f1 卡住了" in robot.texts[0]
    assert (tmp_path / "notify-relay.json").exists()


def test_relay_needs_a_target_and_an_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A relay without targets, or with an address that cannot be, is wrong usage in one sentence."""
    (tmp_path / "empty.toml").write_text("", "utf-8")
    assert main(["notify", "--relay", "127.0.0.1:0", "--config", str(tmp_path / "empty.toml")]) == 2
    assert main(["notify", "--relay", "nowhere", "--config", config(tmp_path, "http://127.0.0.1:9/")]) == 2
    said = capsys.readouterr().err
    assert "there is no [[notify.target]]" in said and "--relay 'nowhere' must be HOST:PORT" in said
