"""What must outlive a restart: which alerts were told, and the messages that still wait. One small file, bounded.

It is written when something changed, whole, beside the old one and then over it, so that a crash leaves the one or the
other. A file that cannot be read is set aside and told; the notifications then start without a memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from gpumon.model.errors import GpumonError
from gpumon.notify.condition import Condition
from gpumon.notify.message import Message

MOST_WAITING = 200  # messages; the oldest is dropped for a new one
MOST_TOLD = 2000  # alerts remembered as told
FILE, RELAY_FILE = "notify.json", "notify-relay.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message on its way to one target."""

    target: str
    channel: str  # the target's kind
    message: Message
    keys: tuple[str, ...]  # of the alerts it is about
    made_s: float  # wall time
    not_before_s: float = 0.0  # wall time of the next attempt
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """An alert that its owner has been told of and that is not over."""

    condition: Condition
    last_s: float  # wall time it was told last


@dataclass(frozen=True, slots=True)
class Kept:
    """The file's content."""

    version: int = VERSION
    told: tuple[Told, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    relayed: Mapping[str, float] = field(default_factory=dict)  # relay: alert and status -> wall time it was passed on


def load(file: Path) -> Kept:
    """Return what was kept, nothing if there is no file. Raises GpumonError after setting a broken file aside."""
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        return Kept()
    except OSError as error:
        raise GpumonError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        kept = msgspec.json.decode(raw, type=Kept)
        if kept.version == VERSION:
            return kept
        problem = f"version {kept.version} is unknown"
    except msgspec.DecodeError as error:
        problem = str(error)
    aside = file.with_suffix(".broken")
    try:
        file.replace(aside)
    except OSError:
        aside = file  # it is overwritten at the next change, or cannot be, which is told then
    raise GpumonError(f"{file}: {problem}; kept as {aside.name}, alerts may be told a second time")


def save(file: Path, kept: Kept) -> None:
    """Write the file. Raises OSError."""
    new = file.with_suffix(".new")
    bounded = replace(kept, told=kept.told[-MOST_TOLD:], waiting=kept.waiting[-MOST_WAITING:])
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(msgspec.json.encode(bounded))
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(file)
