"""Throttled by heat: the card lowers its clock because it or its memory is too hot.

Looks like: the software or hardware thermal reason for much of the time, temperature at its limit, power below its
limit, the clock falling. One hot card slows a synchronous job as a whole.
Confused with: the software power cap (normal under full load), a hot card that keeps its clock (15 to 20 C more at
the same work and no loss was recorded), a bit that flashes at a change of power state.
Source: RTX PRO 6000 Server at 550 to 600 W: 84 to 85 C, draws less than its limit; nvml.h clocks event reasons.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import DOUBTFUL, Case, Suspicion, confidence_of, doubt_of_clock, percent
from gpumon.analysis.evidence import CardEvidence
from gpumon.model.verdict import JobClass

THERMAL = ("sw_thermal", "hw_thermal")
MUCH = 0.2  # of the window on one card; bits that flash at a change of power state stay far below
SLOWED = 0.96  # of the highest SM clock


def share(card: CardEvidence) -> float:
    """Return the share of the window in which heat slowed the card."""
    return max(card.throttled.get(reason, 0.0) for reason in THERMAL)


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where heat slows the job: most of its card time, or the card the others wait for."""
    hot = [card for card in case.cards if share(card) >= MUCH and not card.sm_clock_ratio > SLOWED]
    if not hot:
        return None
    mostly = sum(share(card) for card in hot) / len(case.cards)
    waited_for = any(card.uuid in case.waiting.culprits for card in hot)
    if mostly < DOUBTFUL and not waited_for:
        return None
    worst = max(hot, key=share)
    seconds = f"{case.evidence.seconds:.0f} s"
    evidence = [f"card {worst.gpu} was slowed by heat for {percent(share(worst))} of the last {seconds}"]
    if not math.isnan(worst.temperature):
        evidence.append(f"card {worst.gpu} at {worst.temperature:.0f} C")
    if not math.isnan(worst.sm_clock_ratio):
        evidence.append(f"SM clock at {percent(worst.sm_clock_ratio)} of its highest")
    if waited_for:
        evidence.append("the job's other cards wait for it")
    return Suspicion(
        JobClass.THROTTLED,
        "thermal",
        confidence_of(mostly) - doubt_of_clock(worst.sm_clock_ratio) if mostly >= DOUBTFUL else 0.85,
        tuple(evidence),
        "thermal reasons gone, or the clock back at its highest, with the job as slow as before",
        decisive=mostly >= DOUBTFUL,
    )
