"""The share of time in which each clock event reason held, from the driver's time counters or the reason bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.model.card import PowerKind
from gpumon.model.fields import THROTTLE_SECONDS_KEYS
from gpumon.model.samples import CardTick

KEEP_S = 60.0
KEEP_TICKS = 12
# Signs of heat in a log without reasons. RTX PRO 6000 Server at 550 to 600 W: 83 to 86 C, 0.72 to 0.93 of the limit,
# 0.75 to 0.9 of its former clock; the same card below 550 W and others: at the limit and at most 81 C (recorded).
HOT_CELSIUS = 83.0
HOLDING = ("sw_thermal", "hw_thermal", "hw_power_brake")  # each slows the card; the power cap is normal at full load
WORKS_RATIO = 0.5  # of the limit: a card at rest lowers its clock by itself
BELOW_LIMIT_RATIO = 0.95
CLOCK_LOST_RATIO = 0.93  # boost alone gives up 0.05 between a cold and a hot card


@dataclass(frozen=True, slots=True)
class ThrottlePast:
    """One card's recent clock event reasons: (end of the tick, its length, reason -> share of it)."""

    ticks: tuple[tuple[float, float, Mapping[str, float]], ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)  # by reason, cumulative seconds
    read_s: float = math.nan
    highest_clock: float = math.nan  # of the streaming multiprocessors, hertz, that the card has shown


def extend(past: ThrottlePast, tick: CardTick, now_s: float) -> ThrottlePast:
    """Return the past with one more tick. A counter that stands still or falls adds nothing."""
    span_s = now_s - past.read_s
    counters = {reason: tick.readings[key] for reason, key in THROTTLE_SECONDS_KEYS.items() if key in tick.readings}
    if math.isnan(span_s) or span_s <= 0.0:
        return ThrottlePast(past.ticks, counters, now_s, past.highest_clock)
    shares = dict.fromkeys(tick.throttle_reasons, 1.0)
    clock = tick.readings.get("sm_clock_hertz", math.nan)
    highest = clock if math.isnan(past.highest_clock) else max(past.highest_clock, clock)
    if _held_by_heat(tick, clock / highest):
        shares["sw_thermal"] = 1.0
    for reason, seconds in counters.items():
        grown = seconds - past.counters.get(reason, math.nan)
        if grown >= 0.0:
            shares[reason] = min(1.0, grown / span_s)
    shares = {reason: share for reason, share in shares.items() if share > 0.0}
    ticks = (*past.ticks, (now_s, span_s, shares))
    first = 0
    while len(ticks) - first > KEEP_TICKS and ticks[first][0] < now_s - KEEP_S:
        first += 1
    return ThrottlePast(ticks[first:], counters, now_s, highest)


def _held_by_heat(tick: CardTick, of_highest_clock: float) -> bool:
    """Return True where a log, which tells no reasons, shows all signs of heat: hot, below limit and former clock."""
    if tick.power_kind is not PowerKind.UNKNOWN or tick.throttle_reasons:
        return False
    draws = tick.reading("power_watts") / tick.reading("power_limit_watts")
    return (
        tick.reading("temperature_gpu_celsius") >= HOT_CELSIUS
        and WORKS_RATIO <= draws <= BELOW_LIMIT_RATIO
        and of_highest_clock <= CLOCK_LOST_RATIO
    )


def shares(past: ThrottlePast, from_s: float) -> dict[str, float]:
    """Return reason -> share of the time since from_s."""
    total: dict[str, float] = {}
    length = 0.0
    for end_s, span_s, reasons in past.ticks:
        if end_s <= from_s:
            continue
        length += span_s
        for reason, share in reasons.items():
            total[reason] = total.get(reason, 0.0) + share * span_s
    return {reason: seconds / length for reason, seconds in total.items()} if length > 0.0 else {}


def held(past: ThrottlePast) -> float:
    """Return the share of the newest tick for which heat or the brake held the card; NaN before the second tick."""
    return max(past.ticks[-1][2].get(reason, 0.0) for reason in HOLDING) if past.ticks else math.nan
