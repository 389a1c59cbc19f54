"""Which of the candidates is the period, and by whose word: one look at a job.

A witness supports the candidates that explain nearly as much as its best one, and opposes those that explain much less.
What is supported and not opposed stands. Among what stands, the shortest wins whose multiples the others are: twice the
step repeats as well as the step, but half of it does not. Two that are no multiples of each other cancel each other.

Confused with: the beat of a short step with a source that measures seldom (a witness that measures at another pace
tells them apart, and two that both measure ten times a second do not); layers or buckets within a step (one witness
sees them, the others see the step); saves, evaluations and lulls of a server (few cycles, less alike).

The shares below were worked out on simulated jobs (seeds from 1,000,000 on) and on a log of eight H100 at 10 Hz.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpumon.analysis.period_witness import Witness

SUPPORT = 0.3  # least share explained; of white noise with 500 points no candidate explains more than 0.1
SUPPORT_FEW = 0.75  # where the window holds few cycles: lulls of a server explain up to 0.7, steps 0.8 and more
FEW_CYCLES = 12
NEARLY = 0.85  # of a witness's best
# The same, where it measures seldom and a few times in a period: a multiple that falls on all samples explains more.
COARSE, COARSE_FROM = 0.55, 4
HEARD = 0.5  # best share of a witness whose opposition counts
MUCH_LESS = 0.6  # of its best
INSIDE = 4  # an opponent whose best is shorter than this part sees what happens within a step
# Measurements in a period of a witness that speaks for itself; with fewer it may only agree.
RESOLVED = 3.0
WELL = 6  # measurements in a period that no commensurate sampling imitates
WHOLE = 0.12  # of a measurement: less than one in the cycles that are laid on each other
# Of more pieces than are tried as parts: a micro-step and an exchange as long, after each eight of them.
MOST_PIECES, OFF, LESS = 12.5, 0.15, 0.95
SAME = 0.02  # candidates this close are one
MULTIPLE = 0.03  # how far a multiple may be off, of the ratio
MOST_PARTS = 6
RIVAL = 0.9  # of the highest mean share: what is less is no second answer
SELDOM_S = 0.065  # a source that measures more seldom can beat with a step
OFTEN_S = 0.045  # a source that measures so often sees any step that is given
BEATS = 0.015  # how far the spectrum of a link may be off
BEATEN = 0.6  # least share that a witness must explain where the spectrum says the same
SURE = 0.65  # share of the second of two witnesses that agree
THIRD = 0.5  # of the third of three


@dataclass(frozen=True, slots=True)
class Said:
    """The period one look found."""

    period_s: float
    support: Mapping[str, float]  # share explained, by witness that supports it
    speaking: frozenset[str]  # of those, who resolve it
    refresh_s: Mapping[str, float]  # by witness that supports it
    others: float = 0.0  # most that any candidate explains to a witness that does not support it
    from_s: float = math.nan  # the stretch of time that was looked at
    to_s: float = math.nan
    beaten: bool = False  # the spectrum of the link's slots says the same

    @property
    def agreed(self) -> bool:
        """Return True where two are sure of it, of whom one measures often, or where three say it."""
        shares = sorted(self.support.values())
        often = min(self.refresh_s.values()) <= SELDOM_S
        return (often and len(shares) > 1 and shares[-2] >= SURE) or (len(shares) > 2 and shares[-3] >= THIRD)


@dataclass(frozen=True, slots=True)
class _Standing:
    """A candidate that is supported and not opposed."""

    period_s: float
    support: Mapping[str, float]
    speaking: frozenset[str]
    mean: float  # share explained, of all witnesses that see it
    well: bool  # a witness speaks for it that nothing imitates

    @property
    def weight(self) -> float:
        return sum(self.support.values())


def confirmed(said: Said | None, witnesses: Mapping[str, Witness], beats: Sequence[float]) -> Said | None:
    """Return the period that the spectrum of a link's slots says as well as the witnesses, else what they say alone.

    Source and spectrum go wrong in other ways: what is sampled too seldom looks like itself after several steps, and in
    a spectrum of slots at uneven times it looks like nothing. Both see two exchanges in a step as two steps: what
    another witness opposes is not said.

    Args:
        beats: what the spectra of the links say, as `beat.of_slots` gives it; NaN for nothing.
    """
    for beat_s in beats:
        if said is not None:
            alike = abs(said.period_s - beat_s) <= BEATS * beat_s and max(said.support.values()) >= BEATEN
            if alike and not any(_sees_several(witness, said.period_s) for witness in witnesses.values()):
                return replace(said, beaten=True)
            continue
        near = {
            name: max((share, period_s) for period_s, share in close.items())
            for name, witness in witnesses.items()
            if (close := {s: share for s, share in witness.shares.items() if abs(s - beat_s) <= BEATS * beat_s})
        }
        support = {
            name: share
            for name, (share, period_s) in near.items()
            if share >= BEATEN and period_s >= RESOLVED * witnesses[name].refresh_s
        }
        opposed = any(
            _sees_much_less(witnesses[name], period_s) or _pieces_differ(witnesses[name], period_s)
            for name, (_, period_s) in near.items()
        )
        if support and not opposed:
            refresh = {name: witnesses[name].refresh_s for name in support}
            return Said(max(near[name] for name in support)[1], support, frozenset(support), refresh, beaten=True)
    return said


def choose(witnesses: Mapping[str, Witness], seconds: float) -> Said | None:
    """Return the period the witnesses give together; None where there is none, or more than one.

    Args:
        witnesses: by name, as `period_witness.hear` gives them.
        seconds: length of the window.
    """
    candidates = sorted({period_s for witness in witnesses.values() for period_s in witness.shares})
    stands = [found for period_s in candidates if (found := _standing(witnesses, period_s, seconds)) is not None]
    if not stands:
        return None
    pool = [one for one in stands if len(one.support) > 1 and one.speaking and one.well] or stands
    close = [one for one in pool if one.period_s <= pool[0].period_s * (1.0 + SAME)]
    chosen = max(close, key=lambda one: one.weight)
    for one in stands:
        if one.speaking and is_part(chosen.period_s, one.period_s):
            if _imitated(witnesses, one, chosen.period_s):
                return None
            chosen = one
            pool = [one, *(other for other in pool if other.period_s >= one.period_s)]
            break
    highest = max(one.mean for one in pool)
    if any(one.mean >= RIVAL * highest and not _multiple(one.period_s, chosen.period_s) for one in pool):
        return None
    if not chosen.speaking or _within(witnesses, chosen):
        return None
    if _of_unresolved(witnesses, chosen, stands):
        return None
    refresh = {name: witnesses[name].refresh_s for name in chosen.support}
    others = max((witness.best for name, witness in witnesses.items() if name not in chosen.support), default=0.0)
    return Said(chosen.period_s, chosen.support, chosen.speaking, refresh, others)


def _standing(witnesses: Mapping[str, Witness], period_s: float, seconds: float) -> _Standing | None:
    """Return a candidate with its support, None where it has none or is opposed."""
    seen = {name: witness.shares[period_s] for name, witness in witnesses.items() if period_s in witness.shares}
    least = SUPPORT_FEW if seconds < FEW_CYCLES * period_s else SUPPORT
    support = {
        name: share for name, share in seen.items() if share >= max(least, _nearly_best(witnesses[name], period_s))
    }
    if not support:
        return None
    resolved = {name for name in seen if period_s >= RESOLVED * witnesses[name].refresh_s}
    for name in resolved:
        witness = witnesses[name]
        if _pieces_differ(witness, period_s):
            return None
        if _sees_much_less(witness, period_s):
            within = witness.best_s <= period_s / INSIDE
            if not within or len(support) < 2:
                return None
    speaking = frozenset(name for name in resolved & support.keys() if not _beats(witnesses[name], period_s))
    return _Standing(
        period_s,
        support,
        speaking,
        sum(max(0.0, share) for share in seen.values()) / len(seen),
        any(period_s >= WELL * witnesses[name].refresh_s for name in speaking),
    )


def _sees_much_less(witness: Witness, period_s: float) -> bool:
    """Return True where a witness explains much less by a period than by its best."""
    return witness.best >= HEARD and witness.shares[period_s] < MUCH_LESS * witness.best


def _sees_several(witness: Witness, period_s: float) -> bool:
    """Return True where a witness sees a few of a period and hardly one, however seldom it measures.

    Samples lie on the same curve in each period, be they few.
    """
    return period_s in witness.shares and _sees_much_less(witness, period_s) and is_part(witness.best_s, period_s)


def _pieces_differ(witness: Witness, period_s: float) -> bool:
    """Return True where a witness that measures often sees less of a period than of several of it.

    Several steps explain a little less than the step, never more. Only a source that has few measurements of each may
    like several better by chance.
    """
    if witness.refresh_s > OFTEN_S or period_s < WELL * witness.refresh_s or witness.best < HEARD:
        return False
    share, several = witness.shares[period_s], witness.best_s / period_s
    if several < MOST_PARTS + 0.5:
        return share < NEARLY * witness.best and is_part(witness.best_s, period_s)
    return share < LESS * witness.best and several < MOST_PIECES and abs(several - round(several)) <= OFF


def _nearly_best(witness: Witness, period_s: float) -> float:
    """Return the share that a period must explain to be as good to a witness as its best."""
    few = COARSE_FROM <= period_s / witness.refresh_s < WELL
    return witness.best * (COARSE if few and witness.refresh_s > SELDOM_S else NEARLY)


def _beats(witness: Witness, period_s: float) -> bool:
    """Return True where a part of the period that the witness does not resolve explains nearly as much of it."""
    if period_s >= WELL * witness.refresh_s:
        return False
    least = MUCH_LESS * witness.shares[period_s]
    unresolved = (part_s for part_s in witness.shares if part_s < RESOLVED * witness.refresh_s)
    return any(witness.shares[part_s] >= least and is_part(period_s, part_s) for part_s in unresolved)


def _imitated(witnesses: Mapping[str, Witness], part: _Standing, period_s: float) -> bool:
    """Return True where the part's only witness measures a whole number of times in the period.

    Then it sees the same few moments of each, and they look as good in any other order.
    """
    if len(part.support) > 1 or part.well:
        return False
    (name,) = part.support
    return is_whole(period_s, witnesses[name].refresh_s)


def _within(witnesses: Mapping[str, Witness], chosen: _Standing) -> bool:
    """Return True where a witness that supports the period sees as much of something much shorter: steps of a cycle."""
    for name in chosen.support:
        witness = witnesses[name]
        least = max(SUPPORT, NEARLY * witness.best)
        for period_s, share in witness.shares.items():
            if share >= least and WELL * witness.refresh_s <= period_s <= chosen.period_s / INSIDE:
                return True
    return False


def _of_unresolved(witnesses: Mapping[str, Witness], chosen: _Standing, stands: Sequence[_Standing]) -> bool:
    """Return True where the period is several of a step that none of its witnesses measures often enough to see.

    Then they speak for another one as well that is no multiple of it (two steps beside three), or one of them sees more
    of a part than of the whole.
    """
    if min(witnesses[name].refresh_s for name in chosen.speaking) <= SELDOM_S:
        return False
    if any(one.speaking and not _multiple(one.period_s, chosen.period_s) for one in stands):
        return True
    return any(
        share > max(HEARD, witness.shares.get(chosen.period_s, 0.0)) and is_part(chosen.period_s, part_s)
        for witness in witnesses.values()
        for part_s, share in witness.shares.items()
    )


def is_whole(period_s: float, refresh_s: float) -> bool:
    """Return True where a source measures a whole number of times in a period: at the same few moments of each."""
    measurements = period_s / refresh_s
    return abs(measurements - round(measurements)) < WHOLE


def is_part(period_s: float, part_s: float) -> bool:
    """Return True where one period is a few of another."""
    return 1.5 < period_s / part_s < MOST_PARTS + 0.5 and _multiple(period_s, part_s)


def _multiple(period_s: float, base_s: float) -> bool:
    ratio = period_s / base_s
    return abs(ratio - max(1, round(ratio))) <= MULTIPLE * max(1, round(ratio))
