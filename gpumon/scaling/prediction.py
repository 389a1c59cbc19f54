"""What fewer cards would do, from where the time of this run goes.

The shares of the window are taken apart into what each card has to do anyway, what it does for the others, and what it
loses to the host. For fewer cards each part is worked out again: the exchange by its bytes and the rate of the smaller
set, a pipeline's bubble by its depth, the computing by whether a step does the same work or less. Everything is worked
out for the split as it stands and for both ends of its uncertainty.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpumon.data.tables import LinkPath
from gpumon.model.past import Run
from gpumon.model.verdict import JobClass, TimeSplit
from gpumon.scaling.exchange import latency_ratio, ring_share
from gpumon.scaling.work import Work, computing_share

# A job that runs requests is idle between them; a share above this leaves too little to judge.
MOST_IDLE = 0.5
LEAST_COMPUTING = 0.01  # of the time; below it no ratio means anything


@dataclass(frozen=True, slots=True)
class Parts:
    """Shares of a step of this run; they sum to 1."""

    own: float  # computing and memory, the exchange that it hides included
    host: float  # lost to the host, on one card as on many
    exchange: float  # on the links, nothing hides it
    hidden: float  # on the links while computing: a part of `own`
    waiting: float  # for other cards


@dataclass(frozen=True, slots=True)
class Predicted:
    """Throughput as a multiple of this run's: as likely, and within the uncertainty of what was seen."""

    ratio: float
    low: float
    high: float


def parts(split: TimeSplit, job_class: str, shift: float = 0.0) -> Parts | None:
    """Return the parts of a step; None where the job hardly works.

    Args:
        shift: so much of the time is taken from the exchange and the waiting and given to the computing; negative for
            the other way round.
    """
    busy = 1.0 - split.idle
    if busy < MOST_IDLE:
        return None
    own, host = computing_share(split) / busy, split.host_wait / busy
    exchange, waiting = split.communication / busy, split.peer_wait / busy
    if job_class == JobClass.HOST.value:
        # The cards wait for one whose host is busy with what one card alone would have to do too: a checkpoint.
        host, waiting = host + waiting, 0.0
    lost = exchange + waiting
    moved = max(-own + LEAST_COMPUTING, min(shift, lost))
    if lost > 0.0:
        exchange, waiting = (part * (1.0 - moved / lost) for part in (exchange, waiting))
    elif moved < 0.0:
        exchange -= moved
    own += moved
    if own < LEAST_COMPUTING:
        return None
    return Parts(own, host, exchange, min(own, split.overlap / busy), waiting)


def step_ratio(seen: Parts, run: Run, cards: int, work: Work, *, rate_ratio: float, path: LinkPath) -> float:
    """Return the length of a step on fewer cards over that of this run.

    Args:
        rate_ratio: rate of the smaller set over that of this run's set; 0 where latency sets the pace.
    """
    own = seen.own * (run.count / cards if work is Work.TOTAL else 1.0)
    if cards == 1:
        return own + seen.host
    if run.strategy == "pp":
        # A share b of waiting over N stages means (N-1)(1-b)/b micro-batches (arXiv 2104.04473).
        waiting = seen.waiting * (cards - 1) / (run.count - 1) * run.count / cards
        return own + seen.host + seen.exchange + waiting
    if rate_ratio > 0.0:
        factor = ring_share(cards) / ring_share(run.count) / rate_ratio
    else:
        factor = latency_ratio(cards, run.count, path)
    exchange = max(0.0, (seen.exchange + seen.hidden) * factor - seen.hidden) if seen.exchange > 0.0 else 0.0
    return own + seen.host + exchange + seen.waiting


def throughput_ratio(step: float, run: Run, cards: int, work: Work) -> float:
    """Return throughput on fewer cards over this run's, from the ratio of the steps."""
    return (cards / run.count if work is Work.PER_CARD else 1.0) / step


def predict(
    run: Run,
    cards: int,
    work: Work,
    *,
    rates: tuple[float, float, float],
    path: LinkPath,
    known: tuple[float, float] | None = None,
) -> Predicted | None:
    """Return what fewer cards would do; None where this run's split or kind of scaling is unknown.

    Args:
        rates: rate of the smaller set over that of this run's set: as likely, at least, at most; 0 for latency.
        known: what is known of one card, as a ratio like the answer's, and its uncertainty. It corrects the split.
    """
    if run.split is None or work is Work.UNKNOWN:
        return None
    shift, width = 0.0, run.split.uncertainty
    if known is not None:
        shift = _shift(run, work, known[0])
        width = known[1]
    ends = []
    for moved, rate in zip((shift, shift - width, shift + width), rates, strict=True):
        seen = parts(run.split, run.job_class, moved)
        if seen is None:
            return None
        step = step_ratio(seen, run, cards, work, rate_ratio=rate, path=path)
        ends.append(throughput_ratio(step, run, cards, work))
    return Predicted(ends[0], min(ends), max(ends))


def _shift(run: Run, work: Work, one_card: float) -> float:
    """Return how much of the time the split counts as exchange although it is computing."""
    assert run.split is not None  # asked by the caller
    seen = parts(run.split, run.job_class)
    if seen is None:
        return 0.0
    if work is Work.PER_CARD:
        return 1.0 / (run.count * one_card) - seen.host - seen.own
    return (1.0 / one_card - seen.host) / run.count - seen.own


def break_even_margin(run: Run, work: Work) -> float:
    """Return by what factor the exchange is longer than where one card alone would be as fast; 0 where unknown.

    The lower end of the exchange counts. Above 1, one card alone does more than all of them.
    """
    if run.split is None or run.count < 2 or work is Work.UNKNOWN:
        return 0.0
    seen = parts(run.split, run.job_class, run.split.uncertainty)
    if seen is None:
        return 0.0
    rest = seen.own if work is Work.TOTAL else seen.own + seen.host
    return (seen.exchange + seen.waiting) / ((run.count - 1) * rest)
