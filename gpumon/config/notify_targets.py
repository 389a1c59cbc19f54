"""Where the embedded notifications go: `[[notify.target]]`, one for each robot, address or hook.

```toml
[[notify.target]]
tenant = "acme"                            # or owner = "operator"
kind = "dingtalk"                          # webhook, dingtalk, feishu, wecom, apprise
url_file = "/etc/gpumon/acme.robot"        # or url_env = "ACME_ROBOT": addresses are secrets
signature_file = "/etc/gpumon/acme.sign"   # or signature_env; dingtalk and feishu
keyword = "GPU"                            # dingtalk: the robot's keyword
language = "zh"                            # en, zh
quiet = "22:00-07:30"                      # only what is critical is sent then
timezone = "Asia/Shanghai"
most_per_hour = 20
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import time
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpumon.notify.target import KINDS, LANGUAGES, OPERATOR, Quiet, Secret, Target

_OPERATOR = "operator"  # as it stands in the file
_SIGNED = ("dingtalk", "feishu")
_HOURS = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEYS = (
    "tenant",
    "owner",
    "kind",
    "url_file",
    "url_env",
    "signature_file",
    "signature_env",
    "keyword",
    "language",
    "quiet",
    "timezone",
    "most_per_hour",
)


def parse_targets(raw: object, tenants: tuple[str, ...], path: str, problems: list[str]) -> tuple[Target, ...]:
    """Return the targets in order. Mistakes are appended to `problems`."""
    if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw):
        problems.append(f"{path}: notify.target must be a list of tables: write [[notify.target]] for each")
        return ()
    targets: list[Target] = []
    for number, entry in enumerate(raw, start=1):
        before = len(problems)
        target = _Entry(entry, f"{path}: notify.target {number}", problems).target(tenants, number)
        if len(problems) == before:
            targets.append(target)
    return tuple(targets)


class _Entry:
    """One table, and where its mistakes go."""

    def __init__(self, entry: Mapping[str, object], place: str, problems: list[str]) -> None:
        self._entry = entry
        self._place = place
        self._problems = problems

    def target(self, tenants: tuple[str, ...], number: int) -> Target:
        """Return the target; wrong in what was appended to the problems."""
        for key in self._entry:
            if key not in _KEYS:
                self._wrong(key, f"is unknown; known are {', '.join(_KEYS)}")
        owner = self._owner(tenants)
        kind = self._one_of("kind", KINDS, "")
        signature = self._secret("signature") if {"signature_file", "signature_env"} & self._entry.keys() else None
        if signature is not None and kind not in _SIGNED:
            self._wrong("kind", f"takes no signature; {' and '.join(_SIGNED)} do")
        return Target(
            name=f"{owner}-{number}",  # of the place in the file, so that messages that wait find it after a restart
            owner=owner,
            kind=kind,
            url=self._secret("url"),
            signature=signature,
            keyword=self._text("keyword"),
            language=self._one_of("language", LANGUAGES, "en"),
            quiet=self._quiet(),
            most_per_hour=self._most_per_hour(),
        )

    def _wrong(self, key: str, what: str) -> None:
        self._problems.append(f"{self._place}: {key} = {self._entry.get(key)!r} {what}")

    def _text(self, key: str) -> str:
        value = self._entry.get(key, "")
        if isinstance(value, str):
            return value
        self._wrong(key, "must be text in quotes")
        return ""

    def _one_of(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        value = self._entry.get(key, default)
        if value in allowed:
            return str(value)
        self._wrong(key, f"must be one of {', '.join(allowed)}")
        return allowed[0]

    def _owner(self, tenants: tuple[str, ...]) -> str:
        if "owner" in self._entry and "tenant" not in self._entry:
            self._one_of("owner", (_OPERATOR,), "")
            return OPERATOR
        tenant = self._entry.get("tenant")
        if tenant not in tenants or "owner" in self._entry:
            allowed = ", ".join(tenants) or "none: add [[tenant]] entries first"
            self._wrong("tenant", f'must be one of {allowed}; or write owner = "{_OPERATOR}" in its place')
        return str(tenant)

    def _secret(self, name: str) -> Secret:
        file, variable = self._text(f"{name}_file"), self._text(f"{name}_env")
        if bool(file) == bool(variable):
            self._problems.append(f"{self._place}: give {name}_file or {name}_env, for it is a secret")
        elif variable and not _VARIABLE.fullmatch(variable):
            self._wrong(f"{name}_env", "must be the name of an environment variable")
        return Secret(file=file, variable=variable)

    def _quiet(self) -> Quiet | None:
        hours, name = self._text("quiet"), self._text("timezone")
        if not hours and not name:
            return None
        found = _HOURS.fullmatch(hours)
        if found is None:
            self._wrong("quiet", 'must be hours of the day like "22:00-07:30"')
            return None
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self._wrong("timezone", 'must be a name of the time zone database (package tzdata), like "Asia/Shanghai"')
            return None
        first, second, third, fourth = map(int, found.groups())
        return Quiet(time(first, second), time(third, fourth), zone)

    def _most_per_hour(self) -> int:
        value = self._entry.get("most_per_hour", 20)
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 600:
            return value
        self._wrong("most_per_hour", "must be a whole number from 1 to 600")
        return 20
