"""Throttled by the power brake: a signal from the power supply or the rack halves the clock.

Looks like: the hardware power brake reason for more than moments; clock and power fall together.
Confused with: hardware slowdown for heat (its own bit), the software power cap (normal under full load).
Source: nvml.h, clocks event reason 0x80 and its time counter.
"""

from __future__ import annotations

from gpumon.analysis.case import DOUBTFUL, Case, Suspicion, confidence_of, doubt_of_clock, percent
from gpumon.model.text import counted
from gpumon.model.verdict import JobClass

MUCH = 0.1  # of the window: the brake is never normal


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where the brake holds most of the card time, or the card the others wait for."""
    braked = [card for card in case.cards if card.throttled.get("hw_power_brake", 0.0) >= MUCH]
    if not braked:
        return None
    mostly = sum(card.throttled["hw_power_brake"] for card in braked) / len(case.cards)
    waited_for = any(card.uuid in case.waiting.culprits for card in braked)
    if mostly < DOUBTFUL and not waited_for:
        return None
    worst = max(braked, key=lambda card: card.throttled["hw_power_brake"])
    share = worst.throttled["hw_power_brake"]
    return Suspicion(
        JobClass.THROTTLED,
        "brake",
        confidence_of(mostly) - doubt_of_clock(worst.sm_clock_ratio) if mostly >= DOUBTFUL else 0.85,
        (
            f"the power brake held card {worst.gpu} for {percent(share)} of the last {case.evidence.seconds:.0f} s",
            f"{len(braked)} of the job's {counted(len(case.cards), 'card')} braked",
        ),
        "the brake's time counter standing still",
        decisive=mostly >= DOUBTFUL,
    )
