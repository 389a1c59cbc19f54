"""The closed list of tenants, and the ordered rules that say whose job a job is.

```toml
[[tenant]]
id = "acme"

[[rule]]
tenant = "acme"
namespace = "acme-prod"
```

The first rule whose every pattern matches decides; a job no rule matches is `unassigned`. Values of the label `tenant`
come from this list alone: text from a container can select an entry, never make one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpumon.model.settings import TenantRule

RESERVED = "unassigned"
_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}", re.ASCII)
_TENANT_KEYS = ("id", "token_file")
_TEXT_KEYS = ("namespace", "slurm_account", "unix_user")
_PATTERN_KEYS = ("container_name", "cgroup")
_RULE_KEYS = ("tenant", "container_label", *_PATTERN_KEYS, *_TEXT_KEYS)


def parse_tenants(raw: object, path: str, problems: list[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the tenant ids in order and each one's token file. Mistakes are appended to `problems`."""
    ids: list[str] = []
    token_files: dict[str, str] = {}
    for number, entry in enumerate(_tables(raw, "tenant", path, problems), start=1):
        place = f"{path}: tenant {number}"
        name = entry.get("id")
        problems += [
            f"{place}: {key} is unknown; known are {', '.join(_TENANT_KEYS)}"
            for key in entry
            if key not in _TENANT_KEYS
        ]
        if not isinstance(name, str) or not _ID.fullmatch(name) or name == RESERVED:
            problems.append(
                f"{place}: id = {name!r} must be 1 to 40 of a-z, 0-9, _ . - and not {RESERVED}, for it becomes a label"
            )
            continue
        if name in ids:
            problems.append(f"{place}: id = {name!r} is given twice")
            continue
        ids.append(name)
        token_file = entry.get("token_file", "")
        if not isinstance(token_file, str):
            problems.append(f"{place}: token_file = {token_file!r} must be a file path in quotes")
        elif token_file:
            token_files[name] = token_file
    return tuple(ids), token_files


def parse_rules(raw: object, tenants: tuple[str, ...], path: str, problems: list[str]) -> tuple[TenantRule, ...]:
    """Return the rules in order. Mistakes are appended to `problems`."""
    rules = []
    for number, entry in enumerate(_tables(raw, "rule", path, problems), start=1):
        place = f"{path}: rule {number}"
        before = len(problems)
        problems += [
            f"{place}: {key} is unknown; known are {', '.join(_RULE_KEYS)}" for key in entry if key not in _RULE_KEYS
        ]
        tenant = entry.get("tenant")
        if tenant not in tenants:
            allowed = ", ".join(tenants) or "none: add [[tenant]] entries first"
            problems.append(f"{place}: tenant = {tenant!r} must be one of {allowed}")
        texts = {key: _text(entry, key, place, problems) for key in _TEXT_KEYS}
        patterns = {key: _pattern(entry, key, place, problems) for key in _PATTERN_KEYS}
        label = _label(entry.get("container_label"), place, problems)
        if label is None and not any(texts.values()) and not any(patterns.values()) and len(problems) == before:
            problems.append(f"{place}: gives no pattern; give at least one of {', '.join(_RULE_KEYS[1:])}")
        if len(problems) == before:
            rules.append(
                TenantRule(
                    tenant=str(tenant),
                    container_label=label,
                    container_name=patterns["container_name"],
                    namespace=texts["namespace"],
                    slurm_account=texts["slurm_account"],
                    unix_user=texts["unix_user"],
                    cgroup=patterns["cgroup"],
                )
            )
    return tuple(rules)


def _tables(raw: object, name: str, path: str, problems: list[str]) -> list[Mapping[str, object]]:
    if isinstance(raw, list) and all(isinstance(entry, dict) for entry in raw):
        return raw
    problems.append(f"{path}: {name} must be a list of tables: write [[{name}]] for each")
    return []


def _text(entry: Mapping[str, object], key: str, place: str, problems: list[str]) -> str:
    value = entry.get(key, "")
    if isinstance(value, str):
        return value
    problems.append(f"{place}: {key} = {value!r} must be text in quotes")
    return ""


def _pattern(entry: Mapping[str, object], key: str, place: str, problems: list[str]) -> re.Pattern[str] | None:
    text = _text(entry, key, place, problems)
    if not text:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        problems.append(f"{place}: {key} = {text!r} is no regular expression: {error}")
        return None


def _label(raw: object, place: str, problems: list[str]) -> tuple[str, str] | None:
    if raw is None:
        return None
    if isinstance(raw, str) and "=" in raw:
        key, _, value = raw.partition("=")
        if key and value:
            return key, value
    problems.append(f'{place}: container_label = {raw!r} must be text like "team=acme": a label and its whole value')
    return None
