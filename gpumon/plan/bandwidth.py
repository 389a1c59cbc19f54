"""What the cards can exchange: given, learned, or typical for the topology with its spread.

Published rates of boxes that read alike differ by a factor of two to thirty: the slot, the switch, the socket and the
host's memory decide, and none of them stands in an offer. So a typical value always comes with its spread, and a
measured one replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gpumon.data import tables
from gpumon.data.tables import Card, LinkPath, MeasuredBandwidth
from gpumon.plan.request import CARDS_PER_NODE, Estimate, Request

# Published counts, as most boxes have them; a row with 3 or 6 cards goes to the nearest.
KNOTS = (2, 4, 8)
# The spread is the geometric standard deviation of the published boxes: about two boxes in three lie within. Fewer
# than three boxes say little about it: two boxes of 2x RTX 3090 differ by 2.0 (3.5 and 7.05 GB/s). And it is never
# below 1.25, the scatter of the fits themselves.
ENOUGH_BOXES = 3
SPREAD_UNKNOWN, SPREAD_LEAST = 2.0, 1.25
# A link never carries its line rate: headers alone take 7 to 18 % at the usual payload sizes, and the best published
# copy is 0.91 of it.
LINE_RATE_SHARE = 0.92
# What of a learned PCIe rate is payload: counters count packet headers too (DCGM says so of its fields, NVML is
# silent). 128-byte payloads are 0.82 of what travels, 256-byte ones 0.91; simulated cards, which count headers and read
# requests, show 8 to 14 % more than the payload.
LEARNED_PAYLOAD_SHARE = Estimate(0.82, 0.90, 1.0)
# A copy between host memory and one card: published 0.80 to 0.91 of the line rate, and 0.4 to 0.5 of it while the other
# direction is busy too (NVIDIA/nvbandwidth#15).
HOST_COPY_SHARE = Estimate(0.45, 0.84, 0.91)
# One hop more, through the network: a rule of ours, the order of a switched Ethernet round trip.
NETWORK_LATENCY_SECONDS = 30e-6


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes per second of one card in one direction while all of them exchange data, and where the figure is from."""

    bytes_per_second: Estimate
    origin: Literal["given", "learned", "typical"]
    sources: tuple[str, ...]


def link_path(request: Request, cards: int) -> LinkPath:
    """Return the way between so many cards: NVLink where it joins them, else PCIe with or without P2P."""
    if request.nvlink and cards <= request.card.nvlink_cards:
        return "nvlink"
    return "p2p" if request.p2p else "host"


def way(request: Request, members: int) -> LinkPath | Literal["network"]:
    """Return what an exchange between so many cards is held by: their links, or the network once they span nodes."""
    return "network" if members > CARDS_PER_NODE else link_path(request, members)


def line_rate(request: Request, path: LinkPath) -> float:
    """Return what the path could carry at most, one direction of one card."""
    if path == "nvlink":
        return request.card.nvlink_one_way_bytes_per_second
    return tables.pcie_bytes_per_second(request.pcie_generation, request.pcie_lanes)


def peer_rate(request: Request, members: int, cards: int) -> Rate:
    """Return the rate of a collective over `members` cards while all `cards` of the job talk at the same time.

    Cards beyond one node are reached over the network: one ring passes each network card once, so its rate bounds all.
    """
    if members <= 1:
        return Rate(Estimate(math.inf, math.inf, math.inf), "typical", ())
    # A bridge or fabric that joins just these members is theirs; PCIe and host memory are shared by the whole job.
    shared = members if link_path(request, members) == "nvlink" else cards
    rate = _local_rate(request, min(shared, CARDS_PER_NODE))
    if members > CARDS_PER_NODE:
        top = request.network_bytes_per_second
        value = rate.bytes_per_second
        bounded = Estimate(min(value.low, top), min(value.typical, top), min(value.high, top))
        return Rate(bounded, rate.origin, (*rate.sources, "bounded by the network between nodes"))
    return rate


def peer_latency(request: Request, members: int) -> float:
    """Return what one small collective over so many cards costs, in seconds; 0 for a single card."""
    if members <= 1:
        return 0.0
    path = link_path(request, min(members, CARDS_PER_NODE))
    row = next(row for row in tables.links().latency if row.path == path)
    network = NETWORK_LATENCY_SECONDS if members > CARDS_PER_NODE else 0.0
    return row.pair_seconds + row.doubling_seconds * (math.log2(members) - 1) + network


def host_copy_rate(request: Request) -> Estimate:
    """Return the rate between host memory and one card; cards that share an uplink get less."""
    line = line_rate(request, "host")
    return Estimate(line * HOST_COPY_SHARE.low, line * HOST_COPY_SHARE.typical, line * HOST_COPY_SHARE.high)


def _local_rate(request: Request, cards: int) -> Rate:
    if request.bandwidth:
        given = sorted(request.bandwidth)
        value = next((rate for count, rate in reversed(given) if count <= cards), given[0][1])
        if not request.learned or link_path(request, cards) == "nvlink":
            return Rate(Estimate(value, value, value), "learned" if request.learned else "given", ())
        share = LEARNED_PAYLOAD_SHARE
        return Rate(Estimate(value * share.low, value * share.typical, value * share.high), "learned", ())
    path = link_path(request, cards)
    ratio, sources = _typical_ratio(request.card, path, request.pcie_generation, cards)
    line = line_rate(request, path)
    return Rate(Estimate(line * ratio.low, line * ratio.typical, line * ratio.high), "typical", sources)


@lru_cache(maxsize=1024)
def _typical_ratio(card: Card, path: LinkPath, generation: int, cards: int) -> tuple[Estimate, tuple[str, ...]]:
    """Return the share of the line rate to expect among so many cards of one node.

    Within one box more cards never raise a card's share, so the typical values are made non-increasing over the counts,
    what eight carry two can too, and what two cannot eight cannot.
    """
    published = [_published(card, path, generation, knot) for knot in KNOTS]
    at = next(index for index, knot in enumerate(KNOTS) if cards <= knot)
    typical = _non_increasing([row.ratio for row in published])
    low = min(value / row.spread for value, row in zip(typical[: at + 1], published, strict=False))
    high = max(value * row.spread for value, row in zip(typical[at:], published[at:], strict=True))
    bounded = Estimate(*(min(LINE_RATE_SHARE, ratio) for ratio in (low, typical[at], high)))
    return bounded, published[at].sources


@dataclass(frozen=True, slots=True)
class _Published:
    """Geometric mean and spread of published shares of the line rate, and where they are from."""

    ratio: float
    spread: float
    sources: tuple[str, ...]


def _published(card: Card, path: LinkPath, generation: int, knot: int) -> _Published:
    """Return what was published for such links and about so many cards.

    Rows of the same card weigh half, rows of its class the other half: one box of the card says more than one box of
    another, and less than many.
    """
    rows = [row for row in tables.bandwidths().measured if row.path == path and _comparable(card, generation, row)]
    nearest = min(
        KNOTS, key=lambda other: (not any(_knot(row) == other and row.certain for row in rows), _apart(other, knot))
    )
    alike = [row for row in rows if _knot(row) == nearest]
    certain = [row for row in alike if row.certain]
    own = [row for row in certain if row.card == card.key]
    ratio = _mean([_ratio(row) for row in certain])
    if own:
        ratio = math.sqrt(ratio * _mean([_ratio(row) for row in own]))
    logs = [math.log(_ratio(row)) for row in alike]
    spread = SPREAD_UNKNOWN
    if len(logs) >= ENOUGH_BOXES:
        middle = sum(logs) / len(logs)
        spread = math.exp(math.sqrt(sum((value - middle) ** 2 for value in logs) / (len(logs) - 1)))
    return _Published(ratio, max(SPREAD_LEAST, spread), _distinct(row.source for row in (own or certain)))


def _non_increasing(values: list[float]) -> list[float]:
    """Return the nearest non-increasing values, in logarithms (pool adjacent violators)."""
    pools: list[list[float]] = []
    for value in values:
        pools.append([value])
        while len(pools) > 1 and _mean(pools[-2]) < _mean(pools[-1]):
            last = pools.pop()
            pools[-1] = pools[-1] + last
    return [_mean(pool) for pool in pools for _ in pool]


def _mean(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _knot(row: MeasuredBandwidth) -> int:
    return min(KNOTS, key=lambda knot: _apart(knot, row.cards))


def _apart(one: int, other: int) -> float:
    return abs(math.log2(one / other))


def _comparable(card: Card, generation: int, row: MeasuredBandwidth) -> bool:
    """Return whether a row tells something about such links: the same kind of NVLink, the nearest PCIe generation."""
    if row.path == "nvlink":
        return _card(row).nvlink_kind == card.nvlink_kind
    known = {other.pcie_generation for other in tables.bandwidths().measured if other.path == row.path}
    return row.pcie_generation == min(known, key=lambda other: abs(other - generation))


def _ratio(row: MeasuredBandwidth) -> float:
    """Return the row's rate as a share of its own link's line rate."""
    if row.path == "nvlink":
        return row.bytes_per_second / _card(row).nvlink_one_way_bytes_per_second
    return row.bytes_per_second / tables.pcie_bytes_per_second(row.pcie_generation, row.pcie_lanes)


def _card(row: MeasuredBandwidth) -> Card:
    card = tables.card_by_name(row.card)
    assert card is not None, f"measured_bandwidth.toml names the card {row.card}, which cards.toml lacks"
    return card


def _distinct(sources: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sources))
