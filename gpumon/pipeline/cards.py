"""The counters of one card that outputs show: they survive driver reloads and never fall."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.analysis.rates import Total, added, advance
from gpumon.model.card import Card
from gpumon.model.fields import READINGS, THROTTLE_REASONS, THROTTLE_SECONDS_KEYS
from gpumon.model.samples import CardTick, Event
from gpumon.model.view import CardView, LinkView

_KERNEL_COUNTS = (
    ("pcie_correctable_errors", "correctable"),
    ("pcie_nonfatal_errors", "nonfatal"),
    ("pcie_fatal_errors", "fatal"),
)
COUNTER_KEYS = tuple(row.key for row in READINGS if row.kind == "counter")


@dataclass(frozen=True, slots=True)
class CardCounters:
    """What one card has added up since gpumon first saw it."""

    totals: Mapping[str, Total] = field(default_factory=dict)  # by READINGS key of kind counter
    throttle_seconds: Mapping[str, float] = field(default_factory=dict)  # by reason
    busy_seconds: float = math.nan
    xids: Mapping[int, tuple[int, float]] = field(default_factory=dict)  # code -> (count, wall time of the last)


def _throttle(before: CardCounters, tick: CardTick, totals: Mapping[str, Total], span_s: float) -> dict[str, float]:
    """Return seconds by reason: the driver's own time counter where there is one, else time with the bit set."""
    seconds = dict(before.throttle_seconds) or dict.fromkeys(THROTTLE_REASONS.values(), 0.0)
    for reason in {*seconds, *tick.throttle_reasons}:
        key = THROTTLE_SECONDS_KEYS.get(reason, "")
        if key in totals and not math.isnan(totals[key].value):
            seconds[reason] = max(seconds.get(reason, 0.0), totals[key].value)
        elif reason in tick.throttle_reasons:
            seconds[reason] = seconds.get(reason, 0.0) + span_s
    return seconds


def count(
    before: CardCounters,
    tick: CardTick,
    events: tuple[Event, ...],
    *,
    wall_s: float,
    span_s: float,
    link_errors: Mapping[str, float],
) -> CardCounters:
    """Return the card's counters after one tick of `span_s` seconds.

    Args:
        link_errors: the kernel's count by kind; used where the driver refuses its own for good.
    """
    xids = dict(before.xids)
    for event in events:
        if event.kind == "xid" and event.uuid == tick.uuid:
            xids[event.code] = (xids.get(event.code, (0, 0.0))[0] + 1, wall_s)
    if not tick.up:
        return CardCounters(before.totals, before.throttle_seconds, before.busy_seconds, xids)
    totals = dict(before.totals)
    levels = {key: link_errors[kind] for key, kind in _KERNEL_COUNTS if kind in link_errors and key in tick.faults}
    levels |= {key: tick.readings[key] for key in COUNTER_KEYS if key in tick.readings}
    for key, level in levels.items():
        totals[key] = advance(totals.get(key, Total()), level)
    busy = before.busy_seconds
    if tick.utilization.value.size:
        busy = added(busy, float(tick.utilization.value.mean()) * span_s)
    return CardCounters(totals, _throttle(before, tick, totals, span_s), busy, xids)


def view(card: Card, tick: CardTick, counters: CardCounters, pcie: LinkView, nvlink: LinkView | None) -> CardView:
    """Return the card as outputs show it."""
    return CardView(
        card=card,
        tick=tick,
        pcie=pcie,
        nvlink=nvlink,
        busy_seconds_total=counters.busy_seconds,
        counters={key: total.value for key, total in counters.totals.items() if not math.isnan(total.value)},
        throttle_seconds_total=counters.throttle_seconds,
        xids=counters.xids,
    )
