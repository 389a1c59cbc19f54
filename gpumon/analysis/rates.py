"""Counters become totals that never fall: driver reloads, glitches to zero and gaps are handled here and nowhere else.

Two things look alike when a cumulative counter falls. After a driver reload it starts again from zero and stays low;
a glitch reads zero for a moment and then returns to the old line, and taking that return as growth would book the
card's whole lifetime as today's use (seen with energy counters). So a fall is remembered until the counter has
either jumped back in one step or grown past the old level by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# A single step that covers at least this share of the way back to the level before the fall is a return, not work:
# no counter read once a second regains half a lifetime in one reading.
RETURN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Fall:
    """A counter that fell and has not yet shown whether it was reset or glitched. Levels are the counter's."""

    level_before: float
    level_after: float
    value: float  # the total when it fell


@dataclass(frozen=True, slots=True)
class Total:
    """A total that never falls, fed by a cumulative counter that may. Same unit as the counter."""

    value: float = math.nan  # NaN until the counter was read
    level: float = math.nan  # the counter's last reading
    fall: Fall | None = None


def advance(total: Total, reading: float) -> Total:
    """Return the total after one more reading of its counter.

    The first reading is the base and charges nothing: what happened before gpumon looked belongs to nobody. A
    missing reading changes nothing; the next good one charges the gap, which the counter did see.
    """
    if math.isnan(reading):
        return total
    if math.isnan(total.level):
        return Total(0.0, reading)
    step, fall = reading - total.level, total.fall
    if step < 0.0:
        if fall is None:
            fall = Fall(total.level, reading, total.value)
        return Total(total.value, reading, fall)
    if fall is None or reading < fall.level_before:
        return Total(total.value + step, reading, fall)
    if step >= RETURN_SHARE * (fall.level_before - fall.level_after):
        return Total(max(total.value, fall.value + reading - fall.level_before), reading)
    return Total(total.value + step, reading)


def added(value: float, amount: float) -> float:
    """Return value + amount, where either may be missing: a missing amount adds nothing, a missing value starts."""
    if math.isnan(amount):
        return value
    return amount if math.isnan(value) else value + amount


def slope(t_s: tuple[float, ...], value: tuple[float, ...]) -> float:
    """Return the mean rate of a cumulative counter over a span, units per second; NaN where it fell or is missing.

    Args:
        t_s: increasing times, seconds.
        value: readings of the counter at those times. A counter that moves in steps slower than it is read (energy:
            about 100 ms) is still right here, because only the ends count.
    """
    if len(t_s) < 2 or t_s[-1] <= t_s[0] or math.isnan(value[0]) or math.isnan(value[-1]) or value[-1] < value[0]:
        return math.nan
    return (value[-1] - value[0]) / (t_s[-1] - t_s[0])
