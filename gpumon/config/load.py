"""Read the configuration: file, then environment over it. All mistakes are told together."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpumon.config.notify_targets import parse_targets
from gpumon.config.settings import SETTINGS, Setting
from gpumon.config.tenants import parse_rules, parse_tenants
from gpumon.model.errors import ConfigError
from gpumon.model.settings import HistorySettings, ReportSettings, SamplingSettings, Settings, TenantSettings
from gpumon.notify.target import NotifySettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_PATH = "/etc/gpumon/gpumon.toml"

# Variables with the prefix that are no settings: the config file, the control socket, the trees gpumon reads.
OTHER_VARIABLES = ("GPUMON_CONFIG", "GPUMON_CONTROL", "GPUMON_SYSFS_ROOT", "GPUMON_PROCFS_ROOT")

_TABLES = ("tenant", "rule")
_SUBTABLES = {"notify": ("target",)}


@dataclass(frozen=True, slots=True)
class Config:
    """Everything the daemon was told. `source` is the file read, "" when there was none."""

    source: str
    listen: str
    web_config_file: str
    log_level: str
    log_format: str
    settings: Settings
    token_files: Mapping[str, str]  # tenant -> file with the token that opens its jobs
    history: HistorySettings | None = None  # None: nothing is remembered
    report: ReportSettings = field(default_factory=ReportSettings)
    notify: NotifySettings = field(default_factory=NotifySettings)
    sysfs_root: str = "/sys"
    procfs_root: str = "/proc"


def load(file: str | None, environ: Mapping[str, str]) -> Config:
    """Return the checked configuration.

    Args:
        file: path given by the user, which must exist; None: GPUMON_CONFIG, else the default path if it exists.
        environ: the process's environment.
    Raises: ConfigError holding every mistake, each with its place, the value, and what is allowed.
    """
    path = file or environ.get("GPUMON_CONFIG") or (DEFAULT_PATH if Path(DEFAULT_PATH).exists() else "")
    document = _read(path) if path else {}
    problems: list[str] = []
    values = _values(document, environ, path or "config", problems)
    problems += _unknown(document, path or "config")
    problems += _unknown_variables(environ)
    tenants, token_files = parse_tenants(document.get("tenant", []), path, problems)
    rules = parse_rules(document.get("rule", []), tenants, path, problems)
    notify = document.get("notify")
    raw_targets = notify.get("target", []) if isinstance(notify, dict) else []
    targets = parse_targets(raw_targets, tenants, path, problems)
    if problems:
        raise ConfigError(tuple(problems))
    return Config(
        source=path,
        listen=str(values["http.listen"]),
        web_config_file=str(values["http.web_config_file"]),
        log_level=str(values["log.level"]),
        log_format=str(values["log.format"]),
        settings=Settings(
            sampling=SamplingSettings(
                process_interval_s=_number(values["sampling.process_interval"]),
                driver_budget_ratio=_number(values["sampling.driver_budget_ratio"]),
                cpu_budget_ratio=_number(values["sampling.cpu_budget_ratio"]),
                expected_gpus=int(_number(values["sampling.expected_gpus"])),
                environ=bool(values["sampling.environ"]),
                driver=bool(values["sampling.driver"]),
                exit_after_failures=int(_number(values["sampling.exit_after_failures"])),
            ),
            tenants=TenantSettings(tenants=tenants, rules=rules),
        ),
        token_files=token_files,
        history=_history(values),
        report=ReportSettings(
            socket=str(values["report.socket"]),
            folder=str(values["report.folder"]),
            servers=bool(values["report.servers"]),
        ),
        notify=NotifySettings(
            targets=targets,
            folder=str(values["notify.folder"]),
            repeat_s=_number(values["notify.repeat"]),
        ),
        sysfs_root=environ.get("GPUMON_SYSFS_ROOT", "/sys"),
        procfs_root=environ.get("GPUMON_PROCFS_ROOT", "/proc"),
    )


def _history(values: Mapping[str, object]) -> HistorySettings | None:
    if not values["history.enabled"]:
        return None
    return HistorySettings(
        folder=str(values["history.folder"]),
        retention_s=_number(values["history.retention_days"]) * 86400.0,
        most_bytes=int(_number(values["history.max_size_mib"])) << 20,
    )


def _number(value: object) -> float:
    assert isinstance(value, (int, float))  # the setting's parser made it one
    return float(value)


def _read(path: str) -> dict[str, object]:
    try:
        with Path(path).open("rb") as stream:
            document: dict[str, object] = tomllib.load(stream)
    except OSError as error:
        raise ConfigError((f"{path}: cannot be read: {error.strerror or error}",)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError((f"{path}: is no valid TOML: {error}",)) from None
    return document


def _values(
    document: Mapping[str, object], environ: Mapping[str, str], path: str, problems: list[str]
) -> dict[str, object]:
    values: dict[str, object] = {}
    for setting in SETTINGS:
        section = document.get(setting.section)
        raw: object = setting.default
        place = setting.place
        if isinstance(section, dict) and setting.key in section:
            raw, place = section[setting.key], f"{path}: {setting.place}"
        if setting.variable in environ:
            raw, place = environ[setting.variable], f"environment: {setting.variable}"
        values[setting.place] = _parse(setting, raw, place, problems)
    return values


def _parse(setting: Setting, raw: object, place: str, problems: list[str]) -> object:
    try:
        return setting.parse(raw)
    except ValueError as error:
        problems.append(f"{place} = {show(raw)} {error}")
        return setting.default


def _unknown(document: Mapping[str, object], path: str) -> Iterable[str]:
    known: dict[str, list[str]] = {}
    for setting in SETTINGS:
        known.setdefault(setting.section, list(_SUBTABLES.get(setting.section, ()))).append(setting.key)
    for name, content in document.items():
        if name in _TABLES:
            continue
        if name not in known:
            yield f"{path}: {name} is unknown{suggestion(name, [*known, *_TABLES])}"
        elif not isinstance(content, dict):
            yield f"{path}: {name} = {show(content)} must be a table: write [{name}] and its settings below"
        else:
            for key in content:
                if key not in known[name]:
                    yield f"{path}: {name}.{key} is unknown{suggestion(key, known[name])}"


def _unknown_variables(environ: Mapping[str, str]) -> Iterable[str]:
    known = [*(setting.variable for setting in SETTINGS), *OTHER_VARIABLES]
    for name in sorted(environ):
        if name.startswith("GPUMON_") and name not in known:
            yield f"environment: {name} is unknown{suggestion(name, known)}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" or the list of what is allowed."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(names)}"


def show(raw: object) -> str:
    """Return a value as it stands in the sentence: short, on one line."""
    text = repr(raw)
    return text if len(text) <= 80 else text[:77] + "..."
