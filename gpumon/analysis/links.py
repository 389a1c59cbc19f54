"""The figures of a link: mean, peak, saturation, totals. One card's PCIe link, its NVLinks, or a shared uplink.

Windows of the gauges are CONTRACT's: mean and saturation over 15 s, peak over 60 s. A direction that was not looked
at in a slot is missing there, not quiet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from gpumon.analysis.capacity import Capacity
from gpumon.analysis.estimate import mean_rate
from gpumon.analysis.rates import added
from gpumon.analysis.windows import RX, T0, T1, TX, CardWindows, Window, since
from gpumon.model.card import LinkSource
from gpumon.model.samples import Floats
from gpumon.model.view import DirectionView, LinkView

MEAN_S = 15.0
PEAK_S = 60.0
SATURATED_RATIO = 0.8  # of attainable: CONTRACT's saturated seconds
# Sources that see every byte, so that their sum is a total and not a sample.
FULL_COVERAGE = frozenset({LinkSource.COUNTER, LinkSource.GPM, LinkSource.FIELD})


@dataclass(frozen=True, slots=True)
class DirectionTotals:
    """What one direction has added up since the card was first seen."""

    bytes_total: float = math.nan
    observed_bytes: float = 0.0
    observed_seconds: float = 0.0
    saturated_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LinkTotals:
    """Totals of both directions."""

    rx: DirectionTotals = field(default_factory=DirectionTotals)
    tx: DirectionTotals = field(default_factory=DirectionTotals)


def slot_rates(slots: Floats, row: int) -> Floats:
    """Return the rate of each slot that looked at a direction, bytes per second, shape (n,).

    Args:
        slots: a slot window's samples, shape (6, n).
        row: RX or TX of `windows`.
    """
    seen = ~np.isnan(slots[row])
    rates: Floats = slots[row][seen] / (slots[T1][seen] - slots[T0][seen])
    return rates


def _add(totals: DirectionTotals, slots: Floats, row: int, source: LinkSource, attainable: float) -> DirectionTotals:
    seen = ~np.isnan(slots[row])
    if not seen.any():
        return totals
    lengths = (slots[T1] - slots[T0])[seen]
    moved = slots[row][seen]
    full = moved >= SATURATED_RATIO * attainable * lengths if not math.isnan(attainable) else np.zeros(1, bool)
    total_bytes = float(moved.sum())
    return DirectionTotals(
        bytes_total=added(totals.bytes_total, total_bytes) if source in FULL_COVERAGE else totals.bytes_total,
        observed_bytes=totals.observed_bytes + total_bytes,
        observed_seconds=totals.observed_seconds + float(lengths.sum()),
        saturated_seconds=totals.saturated_seconds + (float(lengths[full].sum()) if full.any() else 0.0),
    )


def add_slots(totals: LinkTotals, slots: Floats, source: LinkSource, attainable: float) -> LinkTotals:
    """Return the totals with one tick's new slots, shape (6, n)."""
    return LinkTotals(
        rx=_add(totals.rx, slots, RX, source, attainable),
        tx=_add(totals.tx, slots, TX, source, attainable),
    )


def tick_mean(slots: Floats) -> float:
    """Return the mean rate of one tick's slots, the larger direction, bytes per second; NaN without slots."""
    means = []
    for row in (RX, TX):
        seen = ~np.isnan(slots[row])
        if seen.any():
            means.append(float(slots[row][seen].sum() / (slots[T1] - slots[T0])[seen].sum()))
    return max(means, default=math.nan)


def _direction(window: Window, row: int, now_s: float, totals: DirectionTotals, attainable: float) -> DirectionView:
    base = DirectionView(
        bytes_total=totals.bytes_total,
        observed_bytes_total=totals.observed_bytes,
        observed_seconds_total=totals.observed_seconds,
        saturated_seconds_total=totals.saturated_seconds,
    )
    minute = since(window, now_s - PEAK_S)
    minute = minute[:, ~np.isnan(minute[row])]
    if minute.shape[1] == 0:
        return base
    rates = minute[row] / (minute[T1] - minute[T0])
    first = int(np.searchsorted(minute[T1], now_s - MEAN_S, side="right"))
    recent = minute[:, first:]
    if recent.shape[1] == 0:
        return replace(base, peak_bytes_per_second=float(rates.max()), observed_ratio=0.0)
    mean, half_width = mean_rate(recent[T0], recent[T1], recent[row], (now_s - MEAN_S, now_s))
    return replace(
        base,
        bytes_per_second=mean,
        half_width_bytes_per_second=half_width,
        peak_bytes_per_second=float(rates.max()),
        observed_ratio=min(1.0, float((recent[T1] - recent[T0]).sum()) / MEAN_S),
        saturation_ratio=mean / attainable,
    )


def pcie_view(windows: CardWindows, capacity: Capacity, totals: LinkTotals, now_s: float) -> LinkView:
    """Return the card's PCIe link as outputs show it."""
    return LinkView(
        rx=_direction(windows.pcie, RX, now_s, totals.rx, capacity.attainable),
        tx=_direction(windows.pcie, TX, now_s, totals.tx, capacity.attainable),
        ceiling_bytes_per_second=capacity.ceiling,
        attainable_bytes_per_second=capacity.attainable,
        ceiling_assumed=capacity.assumed,
        attainable_learned=capacity.learned,
        narrowest_hop=capacity.narrowest if capacity.narrowest != "card" else "",
        downtrained=capacity.downtrained,
    )


def nvlink_view(windows: CardWindows, usable: float, totals: LinkTotals, now_s: float) -> LinkView:
    """Return the card's NVLinks together. `usable` is bytes per second of one direction, all active links."""
    return LinkView(
        rx=_direction(windows.nvlink, RX, now_s, totals.rx, usable),
        tx=_direction(windows.nvlink, TX, now_s, totals.tx, usable),
        ceiling_bytes_per_second=usable,
        attainable_bytes_per_second=usable,
        ceiling_assumed=False,
    )
