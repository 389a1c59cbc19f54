"""Communication, straggler: the job's cards wait for one of them.

Looks like: one card works longer than the others by more than normal spread, the others wait for it; or one card's
link is narrower and sets the pace of every collective.
Confused with: uneven layouts (pipeline stages, a first card with more layers: no waiting at full utilization), normal
spread between cards (under 8 % of the step), a card held by its host (checkpoint, input: class host).
Source: FALCON (arXiv 2410.12588), Minder (NSDI 2025); recorded checkpoint inversion on 8x H100.
"""

from __future__ import annotations

from gpumon.analysis.case import Case, Suspicion, percent
from gpumon.model.verdict import JobClass

HALF = 0.5  # of all time lost to communication and waiting: below that the straggler is not what holds the job


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where the others wait for a card that is slower itself."""
    if not case.waiting.culprits or case.waiting.by_host:
        return None
    if case.split is None:
        return None
    lost = case.split.mean("communication") + case.split.mean("peer_wait")
    names = ", ".join(str(card.gpu) for card in case.cards if card.uuid in case.waiting.culprits)
    return Suspicion(
        JobClass.COMMUNICATION,
        "straggler",
        0.92 if case.waiting.cost_ratio >= HALF * lost else 0.3,
        (
            f"the other cards wait for card {names}: it costs {percent(case.waiting.cost_ratio)} of the time",
            *(
                f"card {card.gpu} looks like work {percent(case.waiting.work[card.uuid])} of the time"
                for card in case.cards
                if case.waiting.work.get(card.uuid, -1.0) >= 0.0
            ),
        ),
        "the other cards working as long as that one",
    )
