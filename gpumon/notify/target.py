"""Where messages go: one robot, address or hook of one tenant or of the operator, as the configuration says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo

from gpumon.model.errors import GpumonError

OPERATOR = "@operator"  # owner of what is for the operator: no tenant can have this name

LANGUAGES = ("en", "zh")
KINDS = ("webhook", "dingtalk", "feishu", "wecom", "apprise")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret by where it lies; read when it is needed, so that a changed file counts at once. Never logged."""

    file: str = ""
    variable: str = ""  # of the environment

    def read(self) -> str:
        """Return the secret. Raises GpumonError naming the place, never the value."""
        if self.variable:
            value = os.environ.get(self.variable, "").strip()
            if not value:
                raise GpumonError(f"environment variable {self.variable} is empty: it must hold the secret")
            return value
        try:
            value = Path(self.file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise GpumonError(f"{self.file}: cannot be read: {error}") from None
        if not value:
            raise GpumonError(f"{self.file}: is empty: it must hold the secret")
        return value


@dataclass(frozen=True, slots=True)
class Quiet:
    """Hours of the day, in a time zone, in which only what is critical is sent. May span midnight."""

    start: time
    end: time
    zone: ZoneInfo

    def holds(self, wall_s: float) -> bool:
        """Return whether this is a quiet moment."""
        now = datetime.fromtimestamp(wall_s, self.zone).time()
        if self.start <= self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end


@dataclass(frozen=True, slots=True)
class Target:
    """One place for one owner's messages."""

    name: str  # owner and number: "acme-1"; for logs and the queue
    owner: str  # a tenant, or OPERATOR
    kind: str  # one of KINDS; the label `channel`
    url: Secret
    signature: Secret | None = None  # DingTalk, Feishu: the secret that signs each message
    keyword: str = ""  # DingTalk: a word without which the robot refuses a message
    language: str = "en"
    quiet: Quiet | None = None
    most_per_hour: int = 20


def targets_of(targets: tuple[Target, ...], audience: str, tenant: str) -> tuple[Target, ...]:
    """Return where a message goes: to its tenant alone, else, where the tenant has no target, to the operator."""
    own = tuple(target for target in targets if audience == "customer" and target.owner == tenant)
    return own or tuple(target for target in targets if target.owner == OPERATOR)


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """The section `notify` of the configuration."""

    targets: tuple[Target, ...] = ()
    folder: str = ""  # "": the service's state directory
    repeat_s: float = 24 * 3600.0
