"""[[notify.target]]: what is taken, and that every mistake is named with its place and what is allowed."""

from __future__ import annotations

from datetime import time
from pathlib import Path

import pytest

from gpumon.config import load
from gpumon.model.errors import ConfigError
from gpumon.notify.target import OPERATOR, Secret

TENANT = '[[tenant]]\nid = "acme"\n'
GOOD = """
[[notify.target]]
tenant = "acme"
kind = "dingtalk"
url_file = "/etc/gpumon/acme.robot"
signature_env = "ACME_SIGN"
keyword = "GPU"
language = "zh"
quiet = "22:00-07:30"
timezone = "Asia/Shanghai"
most_per_hour = 5

[[notify.target]]
owner = "operator"
kind = "webhook"
url_env = "OPERATIONS_HOOK"
"""


def _load(tmp_path: Path, text: str) -> tuple[str, ...]:
    file = tmp_path / "gpumon.toml"
    file.write_text(TENANT + text, "utf-8")
    with pytest.raises(ConfigError) as raised:
        load(str(file), {})
    return raised.value.problems


def test_targets(tmp_path: Path) -> None:
    """Every setting of a target arrives; secrets are named by place, never read here."""
    file = tmp_path / "gpumon.toml"
    file.write_text(f'{TENANT}[notify]\nrepeat = "6h"\n{GOOD}', "utf-8")
    notify = load(str(file), {}).notify
    assert notify.repeat_s == 6 * 3600
    robot, hook = notify.targets
    assert (robot.name, robot.owner, robot.kind, robot.language) == ("acme-1", "acme", "dingtalk", "zh")
    assert robot.url == Secret(file="/etc/gpumon/acme.robot") and robot.signature == Secret(variable="ACME_SIGN")
    assert robot.quiet is not None and (robot.quiet.start, robot.quiet.end) == (time(22), time(7, 30))
    assert (hook.owner, hook.language, hook.most_per_hour, hook.quiet) == (OPERATOR, "en", 20, None)


def test_a_tenant_called_operator_is_not_the_operator(tmp_path: Path) -> None:
    """A tenant may have any id; it never gets what is for the operator."""
    file = tmp_path / "gpumon.toml"
    target = '[[notify.target]]\ntenant = "operator"\nkind = "webhook"\nurl_env = "X"\n'
    file.write_text(f'[[tenant]]\nid = "operator"\n{target}', "utf-8")
    (only,) = load(str(file), {}).notify.targets
    assert only.owner == "operator" != OPERATOR


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('tenant = "acme"', 'tenant = "acne"'), "tenant = 'acne' must be one of acme"),
        (('owner = "operator"', 'owner = "me"'), "owner = 'me' must be one of operator"),
        (('kind = "webhook"', 'kind = "pager"'), "kind = 'pager' must be one of webhook, dingtalk"),
        (('url_env = "OPERATIONS_HOOK"', ""), "give url_file or url_env, for it is a secret"),
        (
            ('url_env = "OPERATIONS_HOOK"', 'url_env = "HOOK"\nurl = "https://x"'),
            "url = 'https://x' is unknown; known are tenant",
        ),
        (('url_env = "OPERATIONS_HOOK"', 'url_env = "https://x"'), "must be the name of an environment variable"),
        (('kind = "dingtalk"', 'kind = "wecom"'), "takes no signature; dingtalk and feishu do"),
        (('quiet = "22:00-07:30"', 'quiet = "night"'), "must be hours of the day like"),
        (('quiet = "22:00-07:30"', ""), "must be hours of the day like"),
        (
            ('timezone = "Asia/Shanghai"', 'timezone = "Beijing"'),
            "must be a name of the time zone database (package tzdata)",
        ),
        (
            ('timezone = "Asia/Shanghai"', 'timezone = "../etc/passwd"'),
            "must be a name of the time zone database (package tzdata)",
        ),
        (("most_per_hour = 5", "most_per_hour = 0"), "must be a whole number from 1 to 600"),
        (('language = "zh"', 'language = "de"'), "language = 'de' must be one of en, zh"),
        (('keyword = "GPU"', "keyword = 3"), "keyword = 3 must be text in quotes"),
    ],
)
def test_mistakes(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    """One mistake is one sentence that names target, key, value and what is allowed."""
    (problem,) = _load(tmp_path, GOOD.replace(*change))
    assert said in problem and "notify.target" in problem


def test_targets_must_be_tables(tmp_path: Path) -> None:
    """A target that is no table is told how to write one."""
    (problem,) = _load(tmp_path, '[notify]\ntarget = "x"\n')
    assert "write [[notify.target]] for each" in problem
