"""Figures as people read them: decimal bytes as cards are sold, rates, times, shares."""

from __future__ import annotations

import math

from gpumon.plan.request import Estimate

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def number(value: float) -> str:
    """Return three digits that matter: 0.123, 12.3, 1,230."""
    if value == 0:
        return "0"
    if math.isinf(value):
        return "unlimited"
    size = math.floor(math.log10(abs(value)))
    return f"{value:,.{max(0, 2 - size)}f}" if size > -4 else f"{value:.1e}"


def scaled(value: float, unit: str) -> str:
    """Return a figure with a decimal prefix: 24.5 GB, 1.2 k tokens/s."""
    for step, prefix in _STEPS:
        if abs(value) >= step:
            return f"{number(value / step)} {prefix}{unit}"
    return f"{number(value)} {unit}"


def size(bytes_: float) -> str:
    """Return bytes: 32.0 GB."""
    return scaled(bytes_, "B")


def rate(bytes_per_second: float) -> str:
    """Return bytes per second: 6.50 GB/s."""
    return scaled(bytes_per_second, "B/s")


def seconds(value: float) -> str:
    """Return a time: 4.10 s, 12.0 ms, 28 us."""
    for step, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= step:
            return f"{number(value / step)} {unit}"
    return "0" if value == 0 else f"{number(value / 1e-6)} us"


def percent(ratio: float) -> str:
    """Return a share: 41 %."""
    return f"{ratio * 100:.0f} %"


def throughput(value: float, unit: str) -> str:
    """Return work per second: 12,300 tokens/s; a slash unit keeps no prefix, so columns compare."""
    return f"{number(value)} {unit}/s"


def span(value: Estimate, digits: int = 2) -> str:
    """Return low to high with fixed digits."""
    return f"{value.low:.{digits}f} to {value.high:.{digits}f}"
