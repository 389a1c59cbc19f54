"""Communication, bandwidth: the card's own link is full while it moves data.

Looks like: busy slots at 0.8 and more of what the link can attain, both directions in the same instant, power low
meanwhile.
Confused with: a shared link that is full (busy slots of every card level off lower), heavy traffic in the shadow of
work (power stays), offload (directions in turn).
Source: nvbandwidth and all-reduce runs: 0.77 to 0.91 of the line rate on a full link.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import Case, Suspicion, gigabytes, percent
from gpumon.analysis.evidence import CardEvidence, LinkEvidence
from gpumon.model.verdict import JobClass

FULL = 0.8


def busiest_link(card: CardEvidence) -> LinkEvidence | None:
    """Return the card's link that is in use for the longer time, None where none was looked at."""
    links = [link for link in (card.pcie, card.nvlink) if link is not None and link.known]
    return max(links, key=lambda link: link.busy[1] if not link.quiet else 0.0, default=None)


def level(case: Case, link: LinkEvidence) -> float:
    """Return how full a link is while it moves data, as a share of what it can attain; NaN where that is not known.

    Where slots have two humps the upper one shows it. Elsewhere messages are shorter than slots, and the mean is over
    the share of time that the split leaves for them.
    """
    if link.humped or case.split is None:
        return link.saturation
    moving = case.split.mean("communication") + case.split.mean("overlap")
    spread = link.rate / max(moving, link.shortest, 1e-3) / link.attainable
    return max(link.saturation, min(1.0, spread))


def traffic_evidence(case: Case) -> tuple[str, ...]:
    """Return the sentences every communication cause shares: rates, directions, power while busy."""
    if case.split is None:
        return ()
    sentences = []
    links = [link for link in map(busiest_link, case.cards) if link is not None]
    rates = [link.rate for link in links if not math.isnan(link.rate)]
    if rates:
        most = max(links, key=lambda link: link.rate if not math.isnan(link.rate) else 0.0)
        ceiling = f" of {gigabytes(most.ceiling)}" if not math.isnan(most.ceiling) else ""
        sentences.append(f"links move {gigabytes(sum(rates) / len(rates))} a card on average{ceiling}")
        if not math.isnan(most.same_instant):
            sentences.append(f"both directions busy in the same instant {percent(most.same_instant)} of the busy time")
    falls = [card.overlap for card in case.cards if card.overlap.valid]
    if falls:
        quiet = sum(test.watts_quiet for test in falls) / len(falls)
        busy = sum(test.watts_busy for test in falls) / len(falls)
        if busy < quiet:
            sentences.append(f"power falls from {quiet:.0f} to {busy:.0f} W while the link is busy: the work stops")
    return tuple(sentences)


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where busy slots fill the card's own link."""
    if case.split is None:
        return None
    links = [link for link in map(busiest_link, case.cards) if link is not None and not link.quiet]
    levels = [full for full in (level(case, link) for link in links) if not math.isnan(full)]
    if not levels:
        return None
    fullest = max(levels)
    fits = 1.0 / (1.0 + math.exp(-(fullest - FULL + 0.05) / 0.04))
    return Suspicion(
        JobClass.COMMUNICATION,
        "bandwidth",
        fits,
        (f"busy links reach {percent(fullest)} of what they can carry", *traffic_evidence(case)),
        "power staying up while the link is busy, or busy slots far below the link's rate",
    )
