"""Communication, uplink: something the cards share is full: a bridge, the root complex, host memory.

Looks like: a shared bridge near its attainable rate; or, without one in the tree, busy slots of every card levelling
off at one rate (90th over 50th percentile at most 1.15) below 0.8 of what the card's own link can carry. Without peer
access each byte crosses the host: 8x RTX 5090 all-reduce moves 28 of 57 GB/s and is fully bound by it.
Confused with: the card's own link full (a higher level), a small message rate (no flat top), a neighbour's traffic on
the same bridge (the customer reads that the shared link is full, never whose traffic fills it).
Source: NVIDIA/nccl#1639; DESIGN of the flat-top test in docs/causes.md.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import Case, Suspicion, gigabytes, percent
from gpumon.analysis.causes.communication_bandwidth import FULL, busiest_link, level, traffic_evidence
from gpumon.analysis.time_split import LARGE_MESSAGES
from gpumon.model.verdict import JobClass

FLAT = 1.15
NOT_MINE = 0.8  # of attainable
# A level this low is no plateau of a bus but small messages: 1.4 GB/s over two sockets is 0.04 of gen4 x16 and real,
# so the level alone cannot exclude it; the flat top must then be clearer.
LOW_LEVEL = 0.12
ALIKE = 0.8  # least level over the most
MOST = 0.75  # of the cards
SMALL = 0.3  # of attainable: below, messages may be small
BY_ELIMINATION = 0.5
LEAST = 0.05


def _between(level: float) -> float:
    """Return how well a shared link fits links that are neither full nor moving small messages only."""
    not_small = 1.0 / (1.0 + math.exp(-(level - SMALL) / 0.05))
    not_full = 1.0 / (1.0 + math.exp((level - FULL + 0.05) / 0.04))
    return BY_ELIMINATION * not_small * not_full


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where a shared link is full or the cards level off together below their own."""
    if case.split is None or len(case.cards) < 2:
        return None
    saturation = case.evidence.uplink_saturation
    sentences: list[str] = []
    fits = 0.0
    if saturation >= 0.7:
        fits = min(0.98, 0.55 + (saturation - 0.7))
        sentences.append(f"the shared link above the cards is {percent(saturation)} full")
    links = [link for link in map(busiest_link, case.cards) if link is not None and not link.quiet]
    tops = [link.flat_top for link in links if not math.isnan(link.flat_top)]
    levels = [full for full in (level(case, link) for link in links) if not math.isnan(full)]
    mean = sum(levels) / len(levels) if levels else math.nan
    if len(tops) >= 2 and levels and max(levels) < NOT_MINE and min(levels) >= ALIKE * max(levels):
        flat = sum(1 for top in tops if top <= FLAT) / len(tops) >= MOST
        large = case.job.layout.asked in LARGE_MESSAGES
        if flat and (mean >= LOW_LEVEL or large):
            fits = max(fits, 0.75)
            plateau = sum(link.plateau for link in links) / len(links)
            sentences.append(
                f"all {len(links)} cards level off at {gigabytes(plateau)}, {percent(mean)} of their own links"
            )
    over_pcie = all(link is card.pcie for card in case.cards if (link := busiest_link(card)) is not None)
    if fits == 0.0 and levels and over_pcie and _between(mean) >= LEAST:
        fits = _between(mean)
        said = f"the cards move {percent(mean)} of what their own links carry: neither full nor small messages"
        sentences.append(said)
    if fits == 0.0:
        return None
    return Suspicion(
        JobClass.COMMUNICATION,
        "uplink",
        fits,
        (*sentences, *traffic_evidence(case)),
        "one card alone not getting more than it gets together with the others",
    )
