"""Does one step do more work on more cards (weak scaling), or the same work in smaller parts (strong scaling)?

Data parallel jobs keep the batch of each card, so N cards do N batches a step. Tensor and pipeline parallel jobs, and
one process that cuts its batch over the cards, do the same work however many cards there are. A step length alone says
nothing until it is known which.
"""

from __future__ import annotations

import math
from enum import Enum

from gpumon.model.past import Run
from gpumon.model.verdict import TimeSplit


class Work(Enum):
    """What a step does on more cards."""

    PER_CARD = "per card"
    TOTAL = "total"
    UNKNOWN = "unknown"


_PER_CARD = frozenset({"ddp", "fsdp", "zero1", "zero2", "zero3", "offload", "gloo"})
_TOTAL = frozenset({"tp", "pp", "tp+pp", "dataparallel", "device_map", "layers", "layer_split"})
# How far the time a card computes in a step may lie from what the kind of scaling asks for, as a factor. Time splits
# are stated within 0.15, which is a factor of 1.35 where a card computes half of the time.
NEAR = 1.4
# Without a strategy to go by, the other kind must lie this factor further away.
CLEARER = 1.35


def of_strategy(strategy: str) -> Work:
    """Return what a strategy does by its nature; UNKNOWN for one that may do either."""
    if strategy in _PER_CARD:
        return Work.PER_CARD
    return Work.TOTAL if strategy in _TOTAL else Work.UNKNOWN


def computing_share(split: TimeSplit) -> float:
    """Return the share of the time in which a card gets on with its own part of the work."""
    return split.compute + split.overlap + split.memory


def of_pair(now: Run, before: Run) -> tuple[Work, float]:
    """Return what a step does, and how many steps of `now` are one step of `before`.

    The strategy says which kind it is; the time that a card computes in each step is checked against it, since a
    period seen from outside may be a step with its accumulation or one micro-batch of it. Without a strategy the
    computing time decides alone, if it is clear.

    Returns: UNKNOWN where the two do not fit together.
    """
    work = of_strategy(now.strategy)
    if work is Work.UNKNOWN:
        work = of_strategy(before.strategy)
    ratio = _computing_ratio(now, before)
    if math.isnan(ratio):
        return work, 1.0
    expected = {Work.PER_CARD: 1.0, Work.TOTAL: before.count / now.count}
    if work is Work.UNKNOWN:
        return _by_computing(ratio, expected), 1.0
    accumulation = max(now.accumulation, before.accumulation, 1)
    for steps in dict.fromkeys((1.0, float(accumulation), 1.0 / accumulation)):
        if _apart(ratio * steps, expected[work]) <= math.log(NEAR):
            return work, steps
    return Work.UNKNOWN, 1.0


def _by_computing(ratio: float, expected: dict[Work, float]) -> Work:
    near, far = sorted(expected, key=lambda work: _apart(ratio, expected[work]))
    fits = _apart(ratio, expected[near]) <= math.log(NEAR)
    clear = _apart(ratio, expected[far]) - _apart(ratio, expected[near]) >= math.log(CLEARER)
    return near if fits and clear else Work.UNKNOWN


def _computing_ratio(now: Run, before: Run) -> float:
    """Return the computing time of a card in one step, now over before."""
    if now.split is None or before.split is None:
        return math.nan
    numerator = computing_share(now.split) * now.step_s
    denominator = computing_share(before.split) * before.step_s
    return numerator / denominator if numerator > 0.0 and denominator > 0.0 else math.nan


def _apart(one: float, other: float) -> float:
    return abs(math.log(one / other))
