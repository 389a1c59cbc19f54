"""Communication, pipeline bubble: stages of a pipeline wait for their turn.

Looks like: cards work one after the other, or with a fixed delay between neighbours; little traffic, between
neighbours only; kernels resident while waiting. The bubble of p stages and m micro-batches is (p - 1) / (m + p - 1).
Confused with: independent jobs (no common period), one slow card (the others wait at the same time), latency (all cards
wait at the same time).
Source: arXiv 2104.04473; naive model parallelism: each card busy 1/p of the time.
"""

from __future__ import annotations

from gpumon.analysis.case import Case, Suspicion, percent
from gpumon.model.verdict import JobClass


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where cards work in turn, or the layout says pipeline and they wait without moving much."""
    if len(case.cards) < 2 or case.split is None:
        return None
    layout = case.job.layout
    staged = layout.pipeline_parallel > 1 or layout.asked in {"pp", "device_map", "tp+pp"}
    against = "all cards working in the same instants"
    if case.waiting.in_turn:
        total = sum(1.0 - card.gap for card in case.cards)
        said = (
            f"the {len(case.cards)} cards work one after the other: together they are busy {percent(total)} of one card"
        )
        return Suspicion(JobClass.COMMUNICATION, "pipeline_bubble", 0.95, (said,), against)
    if not staged:
        return None
    stages = max(layout.pipeline_parallel, 2)
    said = f"the model is cut into {stages} stages that wait for each other"
    return Suspicion(JobClass.COMMUNICATION, "pipeline_bubble", 0.7, (said,), against)
