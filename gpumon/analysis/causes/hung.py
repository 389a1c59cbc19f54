"""Hung: a collective that never ends.

Looks like: utilization 100 %, power flat near the waiting level, links quiet, memory untouched, and no disk or network
progress for five minutes. The waiting processes may spin on the CPU, so CPU time alone is no sign of life.
Confused with: a checkpoint or an evaluation on one rank (that rank's card has gaps, its host works), a steady
low-power kernel (it reads and writes memory), a long compile (no kernel at all).
Source: NVIDIA/nccl-tests#117 (utilization 99 %, memory 4 %, no traffic), NVIDIA/nccl#2079, #968.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import Case, Suspicion, mean_of, percent
from gpumon.analysis.evidence import CardEvidence
from gpumon.model.verdict import JobClass

STILL_S = 300.0
# Nothing but a hang was seen to stand still for so long; waits for a slow disk end within minutes. The doubt at five
# minutes, and how fast it fades.
DOUBT = 0.3
FADES_S = 55.0
BUSY = 0.95
MEMORY_UNTOUCHED = 0.06
FLAT_SHARE = 0.03  # standard deviation of power over its mean
LOW_SHARE = 0.45  # of the power limit


def card_stands_still(card: CardEvidence) -> bool:
    """Return True where a kernel is resident and nothing else happens. Missing witnesses do not count as still."""
    return (
        card.utilization >= BUSY
        and card.power.spread <= FLAT_SHARE * card.power_mean
        and card.power_mean <= LOW_SHARE * card.power_limit
        and (card.memory_controller <= MEMORY_UNTOUCHED or card.dram_active <= MEMORY_UNTOUCHED)
        and card.pcie.quiet
        and (card.nvlink is None or card.nvlink.quiet)
    )


def may_stand_still(card: CardEvidence) -> bool:
    """Return True where a kernel is resident and nothing that can be seen says that anything else happens."""
    flat = not card.power.spread > FLAT_SHARE * card.power_mean and not card.power_mean > LOW_SHARE * card.power_limit
    untouched = not card.memory_controller > MEMORY_UNTOUCHED and not card.dram_active > MEMORY_UNTOUCHED
    moves = any(link is not None and link.known and not link.quiet for link in (card.pcie, card.nvlink))
    return card.utilization >= BUSY and flat and untouched and not moves


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion after five minutes in which nothing moved."""
    if case.still_s < STILL_S or not case.cards:
        return None
    power = mean_of(case.cards, "power_mean")
    return Suspicion(
        JobClass.HUNG,
        "",
        1.0 - DOUBT * math.exp(-(case.still_s - STILL_S) / FADES_S),
        (
            f"for {case.still_s / 60:.0f} min every card shows a kernel but nothing moves",
            f"utilization {percent(mean_of(case.cards, 'utilization'))}, power flat at {power:.0f} W a card",
            "links quiet, memory untouched, no disk or network progress of its processes",
        ),
        "any traffic on a link, a change of power, or disk and network progress of its processes",
        decisive=True,
    )
