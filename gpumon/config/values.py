"""One value of the configuration: from TOML or text to the type it must have, or one sentence saying why not.

Every parser takes what TOML or the environment gave and returns the checked value. It raises ValueError with the part
of the sentence that says what is allowed; the caller adds the place and the value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeAlias

from gpumon.model.address import split_address

Raw: TypeAlias = object
Parser: TypeAlias = Callable[[Raw], object]

_DURATION = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>ms|s|m|h)", re.ASCII)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?", re.ASCII)


def seconds(text: str) -> float:
    """Return the seconds of a duration like 500ms, 30s, 5m, 2h. Raises ValueError for anything else."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("is no duration: write a number with its unit, like 500ms, 30s, 5m or 2h")
    return float(match["number"]) * _UNIT_SECONDS[match["unit"]]


def duration(low_s: float, high_s: float) -> Parser:
    """Return a parser for durations between two bounds, in seconds."""

    def parse(raw: Raw) -> float:
        if not isinstance(raw, str):
            raise ValueError('must be text with a unit, like "3s"')
        value = seconds(raw)
        if not low_s <= value <= high_s:
            raise ValueError(f"must be between {show_seconds(low_s)} and {show_seconds(high_s)}")
        return value

    return parse


def ratio(low: float, high: float) -> Parser:
    """Return a parser for shares between two bounds (0.05 is five percent)."""

    def parse(raw: Raw) -> float:
        text = str(raw) if isinstance(raw, (int, float, str)) and not isinstance(raw, bool) else ""
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not low <= value <= high:  # NaN fails too
            raise ValueError(f"must be a number between {low:g} and {high:g}")
        return value

    return parse


def whole(low: int, high: int) -> Parser:
    """Return a parser for whole numbers between two bounds."""

    def parse(raw: Raw) -> int:
        if isinstance(raw, str) and _INTEGER.fullmatch(raw):
            raw = int(raw)
        if isinstance(raw, bool) or not isinstance(raw, int) or not low <= raw <= high:
            raise ValueError(f"must be a whole number between {low} and {high}")
        return raw

    return parse


def boolean(raw: Raw) -> bool:
    """Parse true or false."""
    if isinstance(raw, bool):
        return raw
    if raw in ("true", "false"):
        return raw == "true"
    raise ValueError("must be true or false")


def one_of(*allowed: str) -> Parser:
    """Return a parser for a word from a closed list."""

    def parse(raw: Raw) -> str:
        if not isinstance(raw, str) or raw not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return raw

    return parse


def path(raw: Raw) -> str:
    """Parse a file path; "" means none."""
    if not isinstance(raw, str) or "\0" in raw:
        raise ValueError("must be a file path in quotes")
    return raw


def listen_address(raw: Raw) -> str:
    """Check an address to listen on: HOST:PORT, [IPV6]:PORT or :PORT (all addresses)."""
    if not isinstance(raw, str):
        raise ValueError('must be text like "127.0.0.1:9836"')
    split_address(raw)
    return raw


def show_seconds(value_s: float) -> str:
    """Return a duration as a person would write it."""
    if value_s < 1:
        return f"{value_s * 1000:g}ms"
    for unit, size in (("h", 3600.0), ("m", 60.0)):
        if value_s >= size and value_s % size == 0:
            return f"{value_s / size:g}{unit}"
    return f"{value_s:g}s"
