"""Communication, pipeline bubble: stages of a pipeline wait for their turn.

Looks like: cards work one after the other, or with a fixed delay between neighbours; little traffic, between
neighbours only; kernels resident while waiting. The bubble of p stages and m micro-batches is (p - 1) / (m + p - 1).
Confused with: independent jobs (no common period), one slow card (the others wait at the same time), latency (all cards
wait at the same time).
Source: arXiv 2104.04473; naive model parallelism: each card busy 1/p of the time.
"""

from __future__ import annotations

from gpumon.analysis.case import Case, Suspicion
from gpumon.model.verdict import JobClass


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where the layout says pipeline and the cards wait without moving much."""
    if len(case.cards) < 2 or case.split is None:
        return None
    layout = case.job.layout
    asked = layout.pipeline_parallel > 1 or layout.asked in {"pp", "device_map"}
    if not asked:
        return None
    return Suspicion(
        JobClass.COMMUNICATION,
        "pipeline_bubble",
        0.7,
        (f"the model is cut into {max(layout.pipeline_parallel, 2)} stages that wait for each other",),
        "all cards working in the same instants",
    )
