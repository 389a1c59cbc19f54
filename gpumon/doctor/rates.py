"""What a PCIe link carries, in numbers and in words."""

from __future__ import annotations

import math

from gpumon.data.tables import pcie_bytes_per_second
from gpumon.model.topology import LinkHop


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
