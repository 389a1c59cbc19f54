"""Cells of other tools' logs: numbers with and without units, and the many ways of saying "not there"."""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"\s*(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-z%/]*)\s*", re.ASCII)
# Factor to base units of what nvidia-smi prints behind a number.
_UNITS: dict[str, float] = {
    "": 1.0,
    "%": 0.01,
    "W": 1.0,
    "MiB": 2.0**20,
    "MHz": 1e6,
    "C": 1.0,
    "MB/s": 1e6,
    "KB/s": 1e3,
}


def number(cell: str, factor: float) -> float:
    """Return the cell in base units, NaN when it holds no value ("-", "N/A", "[Not Supported]", "").

    Args:
        factor: to base units when the cell names no unit of its own.
    """
    match = _NUMBER.fullmatch(cell)
    if match is None or (match["unit"] and match["unit"] not in _UNITS):
        return math.nan
    return float(match["number"]) * (_UNITS[match["unit"]] if match["unit"] else factor)


def whole(cell: str) -> int:
    """Return a whole number, -1 when the cell holds none."""
    text = cell.strip()
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else -1
