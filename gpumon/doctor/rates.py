"""What a card's PCIe link is and what it carries, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gpumon.data.tables import pcie_bytes_per_second
from gpumon.model.topology import CardPath, LinkHop


@dataclass(frozen=True, slots=True)
class CardLink:
    """A card's own link: negotiated and possible here. 0 where unknown, the maxima never."""

    generation: int
    width: int
    max_generation: int
    max_width: int


def card_link(path: CardPath | None, readings: Mapping[str, float]) -> CardLink | None:
    """Return a card's own link, None when neither the tree nor the driver knows it.

    The tree knows both ends. Where its link is the hypervisor's invention, only the driver's readings count.
    """
    if path and path.hops and not path.hops[0].virtual:
        hop = path.hops[0]
        return CardLink(hop.current_generation, hop.current_width, hop.max_generation, hop.max_width)
    link = CardLink(
        generation=whole(readings, "link_generation"),
        width=whole(readings, "link_width_lanes"),
        max_generation=whole(readings, "link_generation_max"),
        max_width=whole(readings, "link_width_max_lanes"),
    )
    return link if link.max_generation and link.max_width else None


def whole(readings: Mapping[str, float], key: str) -> int:
    """Return a reading as a whole number, 0 when it is missing."""
    value = readings.get(key, math.nan)
    return 0 if math.isnan(value) else int(value)


def one_way_bytes_per_second(generation: int, width: int) -> float:
    """Return the line rate of one direction, NaN for a generation or width that is unknown (to us)."""
    if not width:
        return math.nan
    try:
        return pcie_bytes_per_second(generation, width)
    except ValueError:
        return math.nan


def hop_bytes_per_second(hop: LinkHop) -> float:
    """Return what a hop carries one way: width as it is now, generation as it can be (it falls at idle)."""
    return math.nan if hop.virtual else one_way_bytes_per_second(hop.max_generation, hop.current_width or hop.max_width)


def hop_words(hop: LinkHop) -> str:
    """Return "gen4 x16, 31.5 GB/s each way" of a hop as it can be used now."""
    return link_words(hop.max_generation, hop.current_width or hop.max_width)


def link_words(generation: int, width: int) -> str:
    """Return "gen4 x16, 31.5 GB/s each way"; without the rate where it is unknown."""
    rate = one_way_bytes_per_second(generation, width)
    name = f"gen{generation or '?'} x{width or '?'}"
    return name if math.isnan(rate) else f"{name}, {rate / 1e9:.1f} GB/s each way"
