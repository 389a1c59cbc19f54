"""What a link can carry: the ceiling of its narrowest hop, and what a full link was really seen to reach.

Ceiling: line rate of the narrowest hop at its current width and at the highest generation it showed while the card
was busy. Before the first load the maximum generation is assumed, because links drop to generation 1 at idle to save
power. Attainable: 0.85 of the ceiling until learned, then the 99th percentile of at least 200 slots of a full link.
Virtual bridges say nothing about the wire and do not count. A ceiling that traffic exceeds is withdrawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from gpumon.model.samples import Floats
from gpumon.model.topology import CardPath, LinkHop

# Bytes per second of one lane and direction after line coding: 8b/10b, 128b/130b, and 242 of 256 for flits.
LANE_BYTES_PER_SECOND = {
    1: 2.5e9 / 8 * 8 / 10,
    2: 5.0e9 / 8 * 8 / 10,
    3: 8.0e9 / 8 * 128 / 130,
    4: 16.0e9 / 8 * 128 / 130,
    5: 32.0e9 / 8 * 128 / 130,
    6: 64.0e9 / 8 * 242 / 256,
}
# Measured copies reach 0.77 to 0.91 of the line rate, 0.84 to 0.89 on most hosts (published nvbandwidth runs on
# RTX 4090, RTX 5090, A100, H200).
ATTAINABLE_SHARE = 0.85
# No packet overhead is smaller: 512-byte payloads leave 0.95 to 0.96, counters may include headers.
ATTAINABLE_MOST_SHARE = 0.97
# Only slots of a link that is nearly full teach what full is. A job that levels off below 0.8 of the assumed
# attainable rate is held by something shared, and learning from it would call every such link full.
FULL_SLOT_SHARE = 0.8 * ATTAINABLE_SHARE
LEARN_SLOTS = 200
LEARN_SPAN_S = 60.0
# 1000 or 1024 bytes to the kilobyte is not documented for every source; past that and 1 % the ceiling is wrong.
EXCEEDED_SHARE = 1.035
# Ticks a card must have been busy before its generation is taken: leaving the idle state takes a moment.
BUSY_TICKS = 3
BINS = 40  # of the histogram of full slots, from FULL_SLOT_SHARE to 1 of the ceiling


def line_rate(generation: int, width: int) -> float:
    """Return bytes per second of one direction; NaN for a generation or width that is not known."""
    lane = LANE_BYTES_PER_SECOND.get(generation)
    return lane * width if lane is not None and width > 0 else math.nan


@dataclass(frozen=True, slots=True)
class FullSlots:
    """A histogram of slots of a nearly full link, over ceiling, from which the attainable rate is learned."""

    counts: tuple[int, ...] = ()  # BINS numbers; empty until the first such slot
    first_s: float = math.nan
    last_s: float = math.nan


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of one link, one direction, bytes per second."""

    ceiling: float = math.nan
    attainable: float = math.nan
    assumed: bool = True  # the generation is the maximum, not seen under load
    learned: bool = False
    narrowest: str = ""  # address of the hop that sets the ceiling
    downtrained: bool | None = None
    busy_ticks: int = 0
    seen_generation: int = 0  # highest of the card's own link under load; 0 before
    slow_ticks: int = 0  # busy ticks in a row with the generation below its maximum
    withdrawn: frozenset[str] = frozenset()  # hops whose ceiling traffic exceeded
    full: FullSlots = field(default_factory=FullSlots)


def _narrowest(hops: tuple[tuple[str, int, int], ...], withdrawn: frozenset[str]) -> tuple[str, float]:
    best, rate = "", math.nan
    for address, generation, width in hops:
        hop_rate = line_rate(generation, width)
        if address not in withdrawn and not math.isnan(hop_rate) and not hop_rate >= rate:
            best, rate = address, hop_rate
    return best, rate


def _downtrained(width: int, width_max: int, slow_ticks: int, judged: bool) -> bool | None:
    """Width counts at any time; generation only after ten busy ticks in a row below the maximum."""
    if 0 < width < width_max or slow_ticks >= 10:
        return True
    return False if judged and width > 0 else None


def observe_card(capacity: Capacity, path: CardPath | None, readings: dict[str, int], busy: bool) -> Capacity:
    """Return the capacity after this tick's link state.

    Args:
        path: the card's way to the root complex, None where the tree cannot be read.
        readings: link_generation, link_generation_max, link_width_lanes, link_width_max_lanes; 0 where missing.
        busy: whether the card worked in this tick; generation is judged only then.
    """
    busy_ticks = capacity.busy_ticks + 1 if busy else 0
    generation, generation_max = readings["link_generation"], readings["link_generation_max"]
    width, width_max = readings["link_width_lanes"], readings["link_width_max_lanes"]
    under_load = busy_ticks > BUSY_TICKS
    seen = max(capacity.seen_generation, generation) if under_load else capacity.seen_generation
    slow = capacity.slow_ticks + 1 if under_load and 0 < generation < generation_max else 0

    own_hop = path.hops[0] if path is not None and path.hops else None
    address = own_hop.address if own_hop is not None else "card"
    if width == 0 and own_hop is not None and not own_hop.virtual:
        width, width_max = own_hop.current_width, max(width_max, own_hop.max_width)
        generation_max = generation_max or own_hop.max_generation
    own = (address, seen or generation_max, width)
    upper = tuple(
        (hop.address, hop.max_generation, hop.current_width)
        for hop in (path.hops[1:] if path is not None else ())
        if not hop.virtual
    )
    narrowest, ceiling = _narrowest((own, *upper), capacity.withdrawn)
    changed = ceiling != capacity.ceiling and not (math.isnan(ceiling) and math.isnan(capacity.ceiling))
    return Capacity(
        ceiling=ceiling,
        attainable=ATTAINABLE_SHARE * ceiling if changed else capacity.attainable,
        assumed=seen == 0,
        learned=capacity.learned and not changed,
        narrowest=narrowest,
        downtrained=_downtrained(width, width_max, slow, seen > 0),
        busy_ticks=busy_ticks,
        seen_generation=seen,
        slow_ticks=slow,
        withdrawn=capacity.withdrawn,
        full=FullSlots() if changed else capacity.full,
    )


def of_hop(hop: LinkHop, cards_busy: bool, before: Capacity) -> Capacity:
    """Return the capacity of a shared bridge link: its width, and the generation it is built for.

    The tree is read rarely and mostly at rest, so its current generation is not a fact about load.
    """
    width = hop.current_width or hop.max_width
    ceiling = math.nan if hop.virtual else line_rate(hop.max_generation or hop.current_generation, width)
    if hop.address in before.withdrawn:
        ceiling = math.nan
    if ceiling == before.ceiling or (math.isnan(ceiling) and math.isnan(before.ceiling)):
        return before if not cards_busy or not before.assumed else replace(before, assumed=False)
    return Capacity(
        ceiling=ceiling,
        attainable=ATTAINABLE_SHARE * ceiling,
        assumed=not cards_busy,
        narrowest=hop.address,
        withdrawn=before.withdrawn,
    )


def withdraw_if_exceeded(capacity: Capacity, tick_mean: float) -> Capacity:
    """Return the capacity without its ceiling when a second's mean traffic, bytes per second, is above it.

    A generation taken under load may simply have been too low at the time; then the maximum stands again first.
    """
    if math.isnan(capacity.ceiling) or not tick_mean > EXCEEDED_SHARE * capacity.ceiling:
        return capacity
    if capacity.seen_generation:
        return replace(capacity, seen_generation=0, busy_ticks=0, assumed=True)
    return replace(
        capacity,
        withdrawn=capacity.withdrawn | {capacity.narrowest},
        ceiling=math.nan,
        attainable=math.nan,
        learned=False,
        narrowest="",
        full=FullSlots(),
    )


def learn(capacity: Capacity, rates: Floats, now_s: float) -> Capacity:
    """Return the capacity after one tick's slot rates, bytes per second, any direction, shape (n,)."""
    if math.isnan(capacity.ceiling) or rates.size == 0:
        return capacity
    share = rates / capacity.ceiling
    share = share[share >= FULL_SLOT_SHARE]
    if share.size == 0:
        return capacity
    position = (share - FULL_SLOT_SHARE) / (1.0 - FULL_SLOT_SHARE) * BINS
    fresh = np.bincount(np.clip(position, 0, BINS - 1).astype(np.intp), minlength=BINS)
    counts = tuple(int(n) for n in (fresh + capacity.full.counts if capacity.full.counts else fresh))
    first_s = now_s if math.isnan(capacity.full.first_s) else capacity.full.first_s
    full = FullSlots(counts, first_s, now_s)
    if sum(counts) < LEARN_SLOTS or now_s - first_s < LEARN_SPAN_S:
        return replace(capacity, full=full)
    bin_number = int(np.searchsorted(np.cumsum(counts), 0.99 * sum(counts)))
    attained = FULL_SLOT_SHARE + (bin_number + 1) / BINS * (1.0 - FULL_SLOT_SHARE)
    return replace(
        capacity,
        full=full,
        attainable=min(attained, ATTAINABLE_MOST_SHARE) * capacity.ceiling,
        learned=True,
    )
