"""The configuration: values, mistakes told together, environment over file, the example file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpumon.config import SETTINGS, load
from gpumon.config.example import example_toml
from gpumon.model.address import split_address
from gpumon.model.errors import ConfigError

PROJECT = Path(__file__).resolve().parents[2]


def _write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "gpumon.toml"
    file.write_text(text, "utf-8")
    return str(file)


def _problems(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        load(_write(tmp_path, text), environ or {})
    return raised.value.problems


def test_defaults_without_a_file() -> None:
    """Without file and variables the defaults hold."""
    config = load(None, {})
    assert config.listen == "127.0.0.1:9836"
    assert config.settings.sampling.process_interval_s == 3.0
    assert config.source == ""


def test_all_mistakes_are_told_together(tmp_path: Path) -> None:
    """Every mistake appears once, with its place, the value, and what is allowed."""
    problems = _problems(
        tmp_path,
        '[sampling]\nprocess_interval = "0.1s"\nintervall = 3\n[http]\nlisten = 5\n[htp]\n',
        {"GPUMON_LOG_LEVEL": "loud"},
    )
    text = "\n".join(problems)
    assert len(problems) == 5
    assert "sampling.process_interval = '0.1s' must be between 1s and 1m" in text
    assert "sampling.intervall is unknown; did you mean process_interval?" in text
    assert "http.listen = 5 must be text" in text
    assert "htp is unknown; did you mean http?" in text
    assert "environment: GPUMON_LOG_LEVEL = 'loud' must be one of debug, info, warning, error" in text


def test_environment_overrides_the_file(tmp_path: Path) -> None:
    """A variable wins over the file's value."""
    file = _write(tmp_path, '[http]\nlisten = "127.0.0.1:1"\n')
    assert load(file, {"GPUMON_HTTP_LISTEN": "[::1]:9836"}).listen == "[::1]:9836"


def test_unknown_variable_is_a_mistake() -> None:
    """A misspelt variable is told, with the name that was meant."""
    with pytest.raises(ConfigError, match="did you mean GPUMON_HTTP_LISTEN"):
        load(None, {"GPUMON_HTTP_LISTN": "x"})


@pytest.mark.parametrize("setting", [row for row in SETTINGS if row.key == "process_interval"])
def test_interval_values_of_the_case_file(setting: object, shared_dir: Path, tmp_path: Path) -> None:
    """Report 140: each odd interval is refused in one sentence or is the documented five seconds."""
    case = json.loads((shared_dir / "cases" / "config-values.json").read_text("utf-8"))
    for value in case["values"]:
        if value is None:
            continue  # TOML has no null
        file = _write(tmp_path, f"[sampling]\nprocess_interval = {_toml(value)}\n")
        if value == "5s":
            assert load(file, {}).settings.sampling.process_interval_s == 5.0
        else:
            with pytest.raises(ConfigError, match=r"sampling\.process_interval = .* (must be|is no duration)"):
                load(file, {})
        if isinstance(value, str) and value != "5s":
            with pytest.raises(ConfigError, match="GPUMON_SAMPLING_PROCESS_INTERVAL"):
                load(None, {"GPUMON_SAMPLING_PROCESS_INTERVAL": value})


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{}"
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0.0.0.0:9836", ("0.0.0.0", 9836)),
        ("[::]:9836", ("::", 9836)),
        ("[::1]:1", ("::1", 1)),
        (":9836", ("", 9836)),
        ("localhost:80", ("localhost", 80)),
        ("[fe80::1%lo]:9", ("fe80::1%lo", 9)),
    ],
)
def test_addresses(text: str, want: tuple[str, int]) -> None:
    """Host and port come apart for names, IPv4 and bracketed IPv6."""
    assert split_address(text) == want


@pytest.mark.parametrize("text", ["9836", "host:", "host:70000", "::1:80", "[zz]:80", "a b:80", "host:８０"])
def test_wrong_addresses(text: str) -> None:
    """What is no address is refused with what is allowed."""
    with pytest.raises(ValueError, match="must be HOST:PORT"):
        split_address(text)


def test_tenants_and_rules(tmp_path: Path) -> None:
    """Rules keep their order and point into the closed list."""
    config = load(
        _write(
            tmp_path,
            '[[tenant]]\nid = "acme"\ntoken_file = "/t"\n[[tenant]]\nid = "beta"\n'
            '[[rule]]\ntenant = "beta"\nunix_user = "b"\n[[rule]]\ntenant = "acme"\ncontainer_label = "team=a=b"\n',
        ),
        {},
    )
    tenants = config.settings.tenants
    assert tenants.tenants == ("acme", "beta")
    assert [rule.tenant for rule in tenants.rules] == ["beta", "acme"]
    assert tenants.rules[1].container_label == ("team", "a=b")
    assert config.token_files == {"acme": "/t"}


def test_wrong_tenants_and_rules(tmp_path: Path) -> None:
    """Each wrong tenant and rule is named by its number."""
    problems = _problems(
        tmp_path,
        '[[tenant]]\nid = "unassigned"\n[[tenant]]\nid = "a"\n[[tenant]]\nid = "a"\n'
        '[[rule]]\ntenant = "nobody"\nunix_user = "x"\n[[rule]]\ntenant = "a"\n[[rule]]\ntenant = "a"\ncgroup = "("\n',
    )
    text = "\n".join(problems)
    assert "tenant 1: id = 'unassigned' must be" in text
    assert "tenant 3: id = 'a' is given twice" in text
    assert "rule 1: tenant = 'nobody' must be one of a" in text
    assert "rule 2: gives no pattern" in text
    assert "rule 3: cgroup = '(' is no regular expression" in text


def test_unreadable_and_broken_files(tmp_path: Path) -> None:
    """A missing file and a broken one are each one sentence."""
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(str(tmp_path / "none.toml"), {})
    assert "is no valid TOML" in _problems(tmp_path, "[http\n")[0]
    file = tmp_path / "bytes.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is no valid TOML"):
        load(str(file), {})


def test_example_is_current_and_valid() -> None:
    """config.example.toml is what the table of settings gives, loads, and equals the defaults."""
    file = PROJECT / "config.example.toml"
    assert file.read_text("utf-8") == example_toml()
    example, defaults = load(str(file), {}), load(None, {})
    assert (example.listen, example.settings) == (defaults.listen, defaults.settings)
