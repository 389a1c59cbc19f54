"""Two runs of the same workload: which did more, by what both reported or by the length of their steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpumon.model.past import LEAST_WATCHED_S, Run
from gpumon.scaling.work import Work, of_pair

REPORTED, PERIOD, MODEL = "reported", "period", "model"
# Best first. A chain of evidence is as good as its weakest link.
ORDER = (REPORTED, PERIOD, MODEL)
# Steps of the same job on the same cards differ by about this much from day to day: clocks, temperature, data.
RUN_TO_RUN = 0.015
STEPS = "steps"


@dataclass(frozen=True, slots=True)
class Seen:
    """How much another run of the workload did, as a multiple of what this one does."""

    ratio: float
    uncertainty: float  # half-width of the ratio, relative
    evidence: str


def weakest(*evidence: str) -> str:
    """Return the least of some kinds of evidence."""
    return max(evidence, key=ORDER.index)


def comparable(now: Run, before: Run) -> bool:
    """Return True for two runs of one workload on the same product, both watched long enough."""
    return (
        bool(now.workload)
        and now.workload == before.workload
        and now.gpu_job != before.gpu_job
        and bool(now.card)
        and now.card == before.card
        and min(now.watched_s, before.watched_s) >= LEAST_WATCHED_S
    )


def throughput_of(before: Run, now: Run) -> Seen | None:
    """Return what `before` did as a multiple of `now`; None where the two cannot be compared."""
    if not comparable(now, before):
        return None
    if now.unit and now.unit == before.unit and now.unit != STEPS:
        spread = _together(now.throughput_spread, before.throughput_spread)
        return Seen(before.throughput / now.throughput, spread, REPORTED)
    evidence = REPORTED if now.unit == before.unit == STEPS else PERIOD
    now_s, before_s = _step_s(now, evidence), _step_s(before, evidence)
    if not (now_s > 0.0 and before_s > 0.0):
        return None
    work, steps = of_pair(now, before)
    if work is Work.UNKNOWN:
        return None
    ratio = now_s * steps / before_s
    if work is Work.PER_CARD:
        ratio *= before.count / now.count
    spread = _together(now.step_spread, before.step_spread)
    return Seen(ratio, spread, evidence)


def _step_s(run: Run, evidence: str) -> float:
    return 1.0 / run.throughput if evidence == REPORTED else run.step_s


def _together(one: float, other: float) -> float:
    return math.sqrt(RUN_TO_RUN**2 + sum(spread**2 for spread in (one, other) if not math.isnan(spread)))
