"""Does one step do more work on more cards (weak scaling), or the same work in smaller parts (strong scaling)?

Data parallel jobs keep the batch of each card, so N cards do N batches a step. Tensor and pipeline parallel jobs, and
one process that cuts its batch over the cards, do the same work however many cards there are. A step length alone says
nothing until it is known which.
"""

from __future__ import annotations

import math
from enum import Enum

from gpumon.model.past import Run, Shares


class Work(Enum):
    """What a step does on more cards."""

    PER_CARD = "per card"
    TOTAL = "total"
    UNKNOWN = "unknown"


_PER_CARD = frozenset({"ddp", "fsdp", "zero1", "zero2", "zero3", "offload", "gloo", "independent"})
_TOTAL = frozenset({"tp", "pp", "tp+pp", "dataparallel", "device_map", "layers", "layer_split"})
# The update of the weights is cut up over the cards (arXiv 1910.02054): on fewer cards each does more of it.
_UPDATE_CUT_UP = frozenset({"zero1", "zero2", "zero3", "fsdp"})
# How far the time a card works in a step may lie from what the kind of scaling asks for, as a factor: another day's
# clock, a batch that differs, what splits are off by beyond what they say (up to 1.29 in 90 simulated pairs whose
# periods were right, from 1.48 on where one was not). What the shares leave open is added as errors are, up to MOST:
# beyond it nothing could be told from its double.
NEAR = 1.3
MOST = 1.7
# Shares that leave more open than MOST confirm a period only by fitting as they stand, and not where a step has so few
# micro-batches that shares which are off by their number would fit another period.
MANY = 4
# Without a strategy to go by, the other kind must lie this factor further away.
CLEARER = 1.35


def of_strategy(strategy: str) -> Work:
    """Return what a strategy does by its nature; UNKNOWN for one that may do either."""
    if strategy in _PER_CARD:
        return Work.PER_CARD
    return Work.TOTAL if strategy in _TOTAL else Work.UNKNOWN


def own_share(shares: Shares, strategy: str, times: float, work: Work) -> float:
    """Return the own work of a card in a step on another count of cards, in steps of the run with these shares.

    An update that is cut up is bound by the card's memory; what else is cannot be seen, so `memory` is the most it may
    be.

    Args:
        times: cards of the run over cards of the other count.
    """
    if work is Work.TOTAL:
        return shares.own * times
    return shares.own + (shares.memory * (times - 1.0) if strategy in _UPDATE_CUT_UP else 0.0)


def of_pair(now: Run, before: Run) -> tuple[Work, float]:
    """Return what a step does, and how many steps of `now` are one step of `before`.

    The strategy says which kind it is; the time that a card works in each step is checked against it, since a period
    seen from outside may be a step with its accumulation, one micro-batch of it, or something else. Without a strategy
    the working time decides alone, if it is clear.

    Returns: UNKNOWN where the two do not fit together, or where it cannot be checked.
    """
    work = of_strategy(now.strategy)
    if work is Work.UNKNOWN:
        work = of_strategy(before.strategy)
    ratio, within = _working_ratio(now, before)
    if math.isnan(ratio):
        return Work.UNKNOWN, 1.0
    expected = {Work.PER_CARD: 1.0, Work.TOTAL: before.count / now.count}
    accumulation = max(now.accumulation, before.accumulation, 1)
    if within > math.log(MOST):
        if work is Work.UNKNOWN or 1 < accumulation < MANY:
            return Work.UNKNOWN, 1.0
        within = math.log(NEAR)
    if work is Work.UNKNOWN:
        return _by_working(ratio, within, expected), 1.0
    likely = expected[work] * _update_ratio(now, before)
    low, high = sorted((expected[work], likely))
    for steps in dict.fromkeys((1.0, float(accumulation), 1.0 / accumulation)):
        seen = ratio * steps
        if max(math.log(low / seen), math.log(seen / high)) <= within and _apart(seen, likely) <= math.log(MOST):
            return work, steps
    return Work.UNKNOWN, 1.0


def _by_working(ratio: float, within: float, expected: dict[Work, float]) -> Work:
    near, far = sorted(expected, key=lambda work: _apart(ratio, expected[work]))
    fits = _apart(ratio, expected[near]) <= within
    clear = _apart(ratio, expected[far]) - _apart(ratio, expected[near]) >= math.log(CLEARER)
    return near if fits and clear else Work.UNKNOWN


def _working_ratio(now: Run, before: Run) -> tuple[float, float]:
    """Return the working time of a card in one step, now over before, and how far in logarithms it may be off."""
    if now.shares is None or before.shares is None or not min(now.shares.own, before.shares.own) > 0.0:
        return math.nan, 0.0
    open_ = math.hypot(now.shares.width / now.shares.own, before.shares.width / before.shares.own)
    within = math.hypot(math.log(NEAR), open_)
    return now.shares.own * now.step_s / (before.shares.own * before.step_s), within


def _update_ratio(now: Run, before: Run) -> float:
    """Return the own work of a card, now over before, where all that is bound by memory is an update that is cut up.

    Fewer cards show it best: there it is most.
    """
    few, many = sorted((now, before), key=lambda run: run.count)
    if few.shares is None or of_strategy(now.strategy) is not Work.PER_CARD:
        return 1.0
    less = own_share(few.shares, now.strategy, few.count / many.count, Work.PER_CARD) / few.shares.own
    return less if few is before else 1.0 / less


def _apart(one: float, other: float) -> float:
    return abs(math.log(one / other))
