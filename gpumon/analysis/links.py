"""The figures of a link: mean, peak, saturation, totals. One card's PCIe link, or its NVLinks together.

Windows of the gauges are CONTRACT's: mean and saturation over 15 s, peak over 60 s. A direction that was not looked
at in a slot is missing there, not quiet. Totals move with every tick; the gauges, whose interval estimate costs more,
are renewed in turns (`Turn`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from gpumon.analysis.capacity import Capacity
from gpumon.analysis.estimate import mean_rate
from gpumon.analysis.rates import added
from gpumon.analysis.windows import RX, T0, T1, TX, Window, since
from gpumon.model.card import LinkSource
from gpumon.model.samples import Floats
from gpumon.model.view import DirectionView, LinkView

MEAN_S = 15.0
PEAK_S = 60.0
SATURATED_RATIO = 0.8  # of attainable: CONTRACT's saturated seconds
# Sources that see every byte, so that their sum is a total and not a sample.
FULL_COVERAGE = frozenset({LinkSource.COUNTER, LinkSource.GPM, LinkSource.FIELD})


@dataclass(frozen=True, slots=True)
class Seen:
    """The slots of one tick that looked at one direction: lengths in seconds, bytes, rates; shape (n,) each."""

    lengths: Floats
    moved: Floats
    rates: Floats

    @property
    def mean(self) -> float:
        """Return the mean rate in bytes per second; NaN without slots."""
        return float(self.moved.sum() / self.lengths.sum()) if self.moved.size else math.nan


def look(slots: Floats, row: int) -> Seen:
    """Return what a tick's slots, shape (5, n), saw of one direction, RX or TX."""
    moved, lengths = slots[row], slots[T1] - slots[T0]
    missing = np.isnan(moved)
    if missing.any():
        moved, lengths = moved[~missing], lengths[~missing]
    return Seen(lengths, moved, moved / lengths)


@dataclass(frozen=True, slots=True)
class LinkPast:
    """What a link has added up since the card was first seen, its peaks of the last minute, and its newest view."""

    view: LinkView = field(default_factory=LinkView)
    peaks: tuple[tuple[float, float, float], ...] = ()  # (time, highest rx slot, highest tx slot), one a tick
    viewed: bool = False


def _add(view: DirectionView, seen: Seen, source: LinkSource, attainable: float) -> DirectionView:
    """Return the view with one tick's slots added to its totals."""
    if not seen.moved.size:
        return view
    moved = float(seen.moved.sum())
    full = seen.rates >= SATURATED_RATIO * attainable
    saturated = float(seen.lengths[full].sum()) if full.any() else 0.0
    # Built field by field: `replace` costs five times as much, and this runs for every direction of every card.
    return DirectionView(
        view.bytes_per_second,
        view.half_width_bytes_per_second,
        view.peak_bytes_per_second,
        view.observed_ratio,
        view.saturation_ratio,
        added(view.bytes_total, moved) if source in FULL_COVERAGE else view.bytes_total,
        view.observed_bytes_total + moved,
        view.observed_seconds_total + float(seen.lengths.sum()),
        view.saturated_seconds_total + saturated,
    )


def _renew(
    view: DirectionView, slots: Floats, row: int, *, peak: float, now_s: float, attainable: float
) -> DirectionView:
    """Return the view with gauges of the last 15 s, from a slot window's samples since then, shape (5, n)."""
    missing = np.isnan(slots[row])
    if missing.any():
        slots = slots[:, ~missing]
    if slots.shape[1] == 0:
        return replace(
            view,
            bytes_per_second=math.nan,
            half_width_bytes_per_second=math.nan,
            peak_bytes_per_second=peak,
            observed_ratio=math.nan if math.isnan(peak) else 0.0,
            saturation_ratio=math.nan,
        )
    mean, half_width = mean_rate(slots[T0], slots[T1], slots[row], (now_s - MEAN_S, now_s))
    return replace(
        view,
        bytes_per_second=mean,
        half_width_bytes_per_second=half_width,
        peak_bytes_per_second=peak,
        observed_ratio=min(1.0, float((slots[T1] - slots[T0]).sum()) / MEAN_S),
        saturation_ratio=mean / attainable,
    )


def extend(
    past: LinkPast,
    window: Window,
    rx: Seen,
    tx: Seen,
    *,
    source: LinkSource,
    attainable: float,
    now_s: float,
    turn: bool,
) -> LinkPast:
    """Return the link's figures after one tick.

    Args:
        window: the link's slots with this tick's in it.
        turn: whether the gauges are renewed in this tick.
    """
    highest = (
        now_s,
        float(rx.rates.max()) if rx.rates.size else math.nan,
        float(tx.rates.max()) if tx.rates.size else math.nan,
    )
    first = 0
    while first < len(past.peaks) and past.peaks[first][0] <= now_s - PEAK_S:
        first += 1
    peaks = (*past.peaks[first:], highest)
    view_rx = _add(past.view.rx, rx, source, attainable)
    view_tx = _add(past.view.tx, tx, source, attainable)
    if turn or not past.viewed:
        slots = since(window, now_s - MEAN_S)
        view_rx = _renew(view_rx, slots, RX, peak=_highest(peaks, 1), now_s=now_s, attainable=attainable)
        view_tx = _renew(view_tx, slots, TX, peak=_highest(peaks, 2), now_s=now_s, attainable=attainable)
    return LinkPast(replace(past.view, rx=view_rx, tx=view_tx), peaks, viewed=True)


def _highest(peaks: tuple[tuple[float, float, float], ...], place: int) -> float:
    known = [peak[place] for peak in peaks if not math.isnan(peak[place])]
    return max(known, default=math.nan)


def with_capacity(past: LinkPast, capacity: Capacity) -> LinkPast:
    """Return the figures with the link's capacity as outputs show it."""
    view = past.view
    hop = capacity.narrowest if capacity.narrowest != "card" else ""
    shown = (
        view.ceiling_bytes_per_second,
        view.attainable_bytes_per_second,
        view.ceiling_assumed,
        view.attainable_learned,
        view.narrowest_hop,
        view.downtrained,
    )
    new = (capacity.ceiling, capacity.attainable, capacity.assumed, capacity.learned, hop, capacity.downtrained)
    return past if shown == new else LinkPast(LinkView(view.rx, view.tx, *new), past.peaks, past.viewed)


def with_usable(past: LinkPast, usable: float) -> LinkPast:
    """Return the figures of NVLinks, whose usable rate the driver states; bytes per second of one direction."""
    return replace(
        past,
        view=replace(
            past.view, ceiling_bytes_per_second=usable, attainable_bytes_per_second=usable, ceiling_assumed=False
        ),
    )
