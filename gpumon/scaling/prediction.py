"""What fewer cards would do, from where the time of this run goes.

A run's time is what each card has to do anyway, what it does for the others, and what it loses to the host. For fewer
cards each part is worked out again: the exchange by its bytes and the rate of the smaller set, a pipeline's bubble by
its depth, the own work by whether a step does the same or less. Everything is worked out for the shares as they stand
and for every corner of what is uncertain: the shares, the rate of the smaller set, what an update of the weights costs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from gpumon.data.tables import LinkPath
from gpumon.model.past import Run, Shares
from gpumon.scaling.exchange import latency_ratio, ring_share
from gpumon.scaling.work import Work, own_share

LEAST_OWN = 0.01  # of the time; below it no ratio means anything
# Of what is bound by memory, anything may be the update of the weights: as likely as not half of it.
UPDATE_LIKELY = 0.5
HELD_UP = 0.04  # of the time without a kernel: less are the gaps between steps that every job has


@dataclass(frozen=True, slots=True)
class Predicted:
    """Throughput as a multiple of this run's: as likely, and within the uncertainty of what was seen."""

    ratio: float
    low: float
    high: float


def shifted(run: Run, shares: Shares, shift: float = 0.0) -> Shares | None:
    """Return a run's shares as they count here; None where nothing is left of its own work.

    Args:
        shift: so much of the time is taken from the exchange and the waiting and given to the work; negative for the
            other way round.
    """
    # A card that its host holds up makes the others wait, one at a time: a checkpoint, a late batch. One card alone
    # would lose that time to its host as well, so it is no loss of scaling.
    behind = 0.0
    if shares.host >= HELD_UP and run.strategy != "pp":
        behind = min(shares.waiting, shares.host * (run.count - 1))
    host, waiting = shares.host + behind, shares.waiting - behind
    lost = shares.exchange + waiting
    moved = max(LEAST_OWN - shares.own, min(shift, lost))
    exchange = shares.exchange
    if lost > 0.0:
        exchange, waiting = (part * (1.0 - moved / lost) for part in (exchange, waiting))
    else:
        exchange -= moved
    own = shares.own + moved
    if own < LEAST_OWN:
        return None
    return Shares(own, host, exchange, waiting, min(own, shares.hidden), min(own, shares.memory), shares.width)


def step_ratio(seen: Shares, run: Run, cards: int, work: Work, *, rate_ratio: float, path: LinkPath) -> float:
    """Return the length of a step on fewer cards over that of this run.

    Args:
        rate_ratio: rate of the smaller set over that of this run's set; 0 where latency sets the pace.
    """
    own = own_share(seen, run.strategy, run.count / cards, work)
    if cards == 1:
        return own + seen.host
    if run.strategy == "pp":
        # The bubble over m micro-batches is (N-1)/m of a stage's work (arXiv 2104.04473), which is a share 1/N of all.
        # What stages hand on is small beside it, and waiting for it looks the same.
        bubble = (seen.exchange + seen.waiting) * (cards - 1) / (run.count - 1) * run.count / cards
        return own + seen.host + bubble
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
    """Return what fewer cards would do; None where this run's shares or its kind of scaling are unknown.

    Args:
        rates: rate of the smaller set over that of this run's set: as likely, at least, at most; 0 for latency.
        known: what is known of one card, as a ratio like the answer's, and its uncertainty. It corrects the shares.
    """
    if run.shares is None or work is Work.UNKNOWN:
        return None
    width = run.shares.width if known is None else known[1]
    likely, *ends = rates
    corners = itertools.product((run.shares, replace(run.shares, memory=0.0)), (-width, width), ends)
    ratios = []
    for shares, moved, rate in ((_likely(run.shares), 0.0, likely), *corners):
        shift = 0.0 if known is None else _shift(run, shares, work, known[0])
        seen = shifted(run, shares, shift + moved)
        if seen is None:
            return None
        step = step_ratio(seen, run, cards, work, rate_ratio=rate, path=path)
        ratios.append(throughput_ratio(step, run, cards, work))
    return Predicted(ratios[0], min(ratios), max(ratios))


def _shift(run: Run, shares: Shares, work: Work, one_card: float) -> float:
    """Return how much of the time counts as exchange although it is work."""
    seen = shifted(run, shares)
    if seen is None:
        return 0.0
    if work is Work.PER_CARD:
        return 1.0 / (run.count * one_card) - seen.host - own_share(seen, run.strategy, run.count, work)
    return (1.0 / one_card - seen.host) / run.count - seen.own


def break_even_margin(run: Run, work: Work) -> tuple[float, float]:
    """Return by what factor the exchange is longer than where one card alone would be as fast: as likely, at least.

    Above 1, one card alone does more than all of them. (0, 0) where that cannot be known.
    """
    if run.shares is None or run.count < 2 or work is Work.UNKNOWN:
        return 0.0, 0.0
    return _margin(run, _likely(run.shares), work, 0.0), _margin(run, run.shares, work, run.shares.width)


def _likely(shares: Shares) -> Shares:
    return replace(shares, memory=UPDATE_LIKELY * shares.memory)


def _margin(run: Run, shares: Shares, work: Work, shift: float) -> float:
    seen = shifted(run, shares, shift)
    if seen is None:
        return 0.0
    if work is Work.TOTAL:
        return (seen.exchange + seen.waiting) / ((run.count - 1) * seen.own)
    alone = own_share(seen, run.strategy, run.count, work) + seen.host
    # Of an update that is cut up, each card does so much less: that much of the exchange is paid back.
    return max(0.0, 1.0 - alone) / ((run.count - 1) * alone)
