"""The share of time in which each clock event reason held, from the driver's time counters or the reason bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.model.fields import THROTTLE_SECONDS_KEYS
from gpumon.model.samples import CardTick

KEEP_S = 60.0
KEEP_TICKS = 12


@dataclass(frozen=True, slots=True)
class ThrottlePast:
    """One card's recent clock event reasons: (end of the tick, its length, reason -> share of it)."""

    ticks: tuple[tuple[float, float, Mapping[str, float]], ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)  # by reason, cumulative seconds
    read_s: float = math.nan


def extend(past: ThrottlePast, tick: CardTick, now_s: float) -> ThrottlePast:
    """Return the past with one more tick. A counter that stands still or falls adds nothing."""
    span_s = now_s - past.read_s
    counters = {reason: tick.readings[key] for reason, key in THROTTLE_SECONDS_KEYS.items() if key in tick.readings}
    if math.isnan(span_s) or span_s <= 0.0:
        return ThrottlePast(past.ticks, counters, now_s)
    shares = dict.fromkeys(tick.throttle_reasons, 1.0)
    for reason, seconds in counters.items():
        grown = seconds - past.counters.get(reason, math.nan)
        if grown >= 0.0:
            shares[reason] = min(1.0, grown / span_s)
    shares = {reason: share for reason, share in shares.items() if share > 0.0}
    ticks = (*past.ticks, (now_s, span_s, shares))
    first = 0
    while len(ticks) - first > KEEP_TICKS and ticks[first][0] < now_s - KEEP_S:
        first += 1
    return ThrottlePast(ticks[first:], counters, now_s)


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
