"""What a check says: a level, one sentence, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """How bad it is. WARN: gpumon works, with less than it could; FAIL: it cannot do its work or the node is ill."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the doctor. A level other than PASS has a remedy."""

    check: str
    level: Level
    sentence: str
    remedy: str = ""


def passed(check: str, sentence: str) -> Result:
    """Return a good result."""
    return Result(check, Level.PASS, sentence)


def warned(check: str, sentence: str, remedy: str) -> Result:
    """Return a result that somebody should look at."""
    return Result(check, Level.WARN, sentence, remedy)


def failed(check: str, sentence: str, remedy: str) -> Result:
    """Return a result that must be mended first."""
    return Result(check, Level.FAIL, sentence, remedy)
