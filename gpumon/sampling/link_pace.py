"""How often a card's byte counters must be read: the pace of its own link decides.

A 32-bit counter comes round after 2^32 bytes, 68 ms at gen5 x16. A read that comes later than that cannot be told from
one that came a whole turn earlier, so what matters is the fastest rate the link could ever carry, not its present
state: the highest generation and width that card and slot agree on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gpumon.data.tables import pcie_bytes_per_second
from gpumon.model.topology import Topology

# Taken until the link is known: the fastest in the field today except gen6, whose cards fill GPM.
_FASTEST_KNOWN = pcie_bytes_per_second(5, 16)
# Share of a turn after which a gap counts as unobserved (DESIGN 3). The line rate is never reached by payload and
# headers together (0.97 seen at most), so a tenth is a margin against clocks and rounding, not against luck.
_LONGEST_GAP_TURNS = 0.9
_BUSY_TURNS = 0.75  # leaves 10 ms of lateness at gen5 x16
_QUIET_TURNS = 0.85  # the longest period that survives 3 ms of lateness there
# Nothing is gained below 20 Hz: the power and memory witnesses read in the same call change no faster.
_BUSY_PERIOD_S = 0.05
_QUIET_PERIOD_S = 0.1
# Below this share of the line rate both directions count as quiet (DESIGN 3).
_QUIET_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class LinkPace:
    """What a card's link asks of its poller. Seconds; rates in bytes per second."""

    line_rate: float  # no more than this can cross in one direction
    longest_gap_s: float  # a longer gap between two counter reads counts as unobserved
    busy_period_s: float
    quiet_period_s: float
    longest_period_s: float  # never stretched beyond this while coverage is to be complete
    quiet_rate: float


def link_pace(line_rate: float, counter_bits: int) -> LinkPace:
    """Return the pace for a link whose fastest state carries line_rate bytes per second in one direction."""
    turn_s = 2.0**counter_bits / line_rate if counter_bits else math.inf
    return LinkPace(
        line_rate=line_rate,
        longest_gap_s=_LONGEST_GAP_TURNS * turn_s,
        busy_period_s=min(_BUSY_PERIOD_S, _BUSY_TURNS * turn_s),
        quiet_period_s=min(_QUIET_PERIOD_S, _QUIET_TURNS * turn_s),
        longest_period_s=min(1.0, _QUIET_TURNS * turn_s),
        quiet_rate=_QUIET_RATIO * line_rate,
    )


def tree_line_rate(topology: Topology, uuid: str) -> float:
    """Return the fastest rate of the card's own link that the PCI tree allows, NaN where it does not say."""
    for path in topology.paths:
        if path.uuid == uuid and path.hops and not path.hops[0].virtual:
            return _rate(path.hops[0].max_generation, path.hops[0].max_width)
    return math.nan


def driver_line_rate(readings: Mapping[str, float]) -> float:
    """Return the fastest rate of the card's own link that the driver states, NaN where it does not."""
    generation, width = readings.get("link_generation_max", 0.0), readings.get("link_width_max_lanes", 0.0)
    return _rate(int(generation), int(width)) if generation >= 1.0 and width >= 1.0 else math.nan


def fastest(*rates: float) -> float:
    """Return the highest of the known rates; that of gen5 x16 when none is known."""
    return max((rate for rate in rates if not math.isnan(rate)), default=_FASTEST_KNOWN)


def _rate(generation: int, width: int) -> float:
    try:
        return pcie_bytes_per_second(generation, width) if width > 0 else math.nan
    except ValueError:
        return math.nan
