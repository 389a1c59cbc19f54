"""The period of a job's repeating work, over several looks.

One look (`period_choice`) is one minute of samples at most. A number is given where two witnesses agree, or where one
that measures often says the same again; it stays while one witness still says it, and goes when two looks in a row do
not. What is given is a period that all that repeats fits: the optimizer step, or the micro-step where the last
micro-step of a step looks like the others.

The shares and tolerances were worked out on simulated jobs (seeds from 1,000,000 on) and on a log of eight H100.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpumon.analysis.common_signal import Common
from gpumon.analysis.period_choice import OFTEN_S, SELDOM_S, WELL, Said, choose, confirmed, is_part, is_whole
from gpumon.analysis.period_witness import POWER, RINGS, hear

AGREE = 0.03  # what a step may wander between two looks
KEPT = 5  # looks
AGAIN = 2  # looks before, one of which must have said the same; or as many of all that are kept
EXACTLY = 0.01  # the same, of one witness: what repeats by chance does not repeat so well
ALONE = 0.6  # least share explained
ALONE_FEW = 0.75  # the same, with few measurements in a step
# Of one that measures often and says so in three looks in a row: least share, most that others see, measurements.
FAIR, LESS, FEW = 0.45, 0.75, 4.5
MOST_WITHIN = 12.0  # steps that may be pieces of another
FEWEST_CYCLES = 4.0  # in the stretch that is looked at
# What repeats in so short a stretch may do so once; a job whose work has a period shows it in another stretch too.
BRIEF_S = 20.0
SHORTEST_STRETCH_S = 4.0
YOUNG_S = 30.0  # a regime beside which the one before it still counts
SAVE_CYCLE_S = 3.0  # no save or evaluation and the steps before it are shorter together
APART_S = 4.0  # beginnings of two stretches that are not the same one
# The beat of a short step wanders many times as much as the step does: what all these looks say so exactly is none.
STEADY = 0.005
BLIND = 0.3  # share below which the other witnesses see nothing that repeats
MISSED = 1  # looks that may find nothing before what was given is forgotten
# The rings are sampled seven times a second: alone they are heard only of a second and more, and beside fast power.
RINGS_ALONE_S = 0.8


@dataclass(frozen=True, slots=True)
class PeriodPast:
    """The newest looks, oldest first, and what they say together."""

    from_s: float = math.nan  # when the present regime began
    before_s: float = math.nan  # when the one before it began
    looks: tuple[Said | None, ...] = ()
    step_s: float = math.nan
    missed: int = 0  # looks since the step was last seen


def follow(past: PeriodPast, from_s: float) -> PeriodPast:
    """Return the past of a job whose present regime began at a time."""
    return past if from_s == past.from_s else replace(past, from_s=from_s, before_s=past.from_s)


def stretch(past: PeriodPast, now_s: float, longest_s: float, *, present: bool) -> tuple[float, float] | None:
    """Return the stretch of time of the present regime or of the one before it; None where it says little.

    The steps between two saves are over before they have been looked at. So the regime before is looked at too, while
    the present one is young.
    """
    oldest_s = now_s - longest_s
    begin_s, end_s = (past.from_s, now_s) if present else (past.before_s, past.from_s)
    if not present and now_s - past.from_s > YOUNG_S:
        return None
    begin_s = max(begin_s, oldest_s)
    return (begin_s, end_s) if end_s - begin_s >= SHORTEST_STRETCH_S else None


def look(
    signals: Mapping[str, Common], beats: Sequence[float], from_s: float, to_s: float, *, saving: bool
) -> Said | None:
    """Return the period that one stretch of time shows, None where none is clear.

    Args:
        signals: the common signal of each kind of sample, by the names of `period_witness.WITNESS`.
        beats: what the spectra of the links' slots say, seconds; links that say nothing are left out.
        from_s: the stretch.
        saving: the job writes to disk as saves do: a long cycle may be theirs.
    """
    witnesses = hear(signals, beats)
    said = confirmed(choose(witnesses, to_s - from_s), witnesses, beats)
    if said is None or (to_s - from_s) < FEWEST_CYCLES * said.period_s:
        return None
    # Where all measure seldom, steps of 50 ms show nowhere: what repeats may be the evaluations between many of them.
    hidden = min(witness.refresh_s for witness in witnesses.values()) > OFTEN_S
    if said.period_s > SAVE_CYCLE_S and (saving or hidden):
        return None
    return replace(said, from_s=from_s, to_s=to_s)


def extend(past: PeriodPast, said: Said | None, *, fast_power: bool) -> PeriodPast:
    """Return the past with one more look.

    Args:
        fast_power: power is measured often enough to show what the rings could beat with.
    """
    looks = (*past.looks, said)[-KEPT:]
    if said is not None and _given(past, said, fast_power):
        return replace(past, looks=looks, step_s=said.period_s, missed=0)
    if said is not None and _within(past, said):
        return replace(past, looks=looks)
    other = said is not None and len(said.support) > 1 and not is_part(said.period_s, past.step_s)
    kept_s = past.step_s if past.missed < MISSED and not other else math.nan
    return replace(past, looks=looks, step_s=kept_s, missed=past.missed + 1)


def _given(past: PeriodPast, said: Said, fast_power: bool) -> bool:
    """Return True where one look's period may be given."""
    if is_part(said.period_s, past.step_s):
        return False  # several of the known step repeat as well
    if _within(past, said):
        return False
    alike = [one for one in past.looks if one is not None and _same(one.period_s, said.period_s)]
    if said.to_s - said.from_s < BRIEF_S and not any(abs(one.from_s - said.from_s) > APART_S for one in alike):
        return False
    if _cycle_of_known(past, said):
        return False
    if said.agreed or said.beaten or _same(past.step_s, said.period_s):
        return True
    off = [math.inf if one is None else abs(one.period_s / said.period_s - 1.0) for one in past.looks]
    newest = off[-AGAIN:]
    in_a_row = len(newest) == AGAIN and max(newest) <= STEADY
    if in_a_row and (_undisputed(said) or (not fast_power and _only_rings(said))):
        return True
    other = max((share for share in newest if share < math.inf), default=0.0) > AGREE
    if sum(share <= STEADY for share in off) >= AGAIN and not other and _through(said):
        return True
    return any(share <= EXACTLY for share in newest) and any(_alone(name, said, fast_power) for name in said.speaking)


def _cycle_of_known(past: PeriodPast, said: Said) -> bool:
    """Return True where the looks before showed a step of which this is a cycle: evaluations come after many of them.

    What is short within a long step (its layers) is not all that the looks before it show.
    """
    short = [one.period_s for one in past.looks if one is not None and one.period_s < said.period_s / MOST_WITHIN]
    return said.period_s > SAVE_CYCLE_S and len(short) >= AGAIN and max(short) <= (1.0 + EXACTLY) * min(short)


def _within(past: PeriodPast, said: Said) -> bool:
    """Return True where one witness sees what happens within the known step: no other step, and no doubt of it."""
    return len(said.support) == 1 and is_part(past.step_s, said.period_s)


def _through(said: Said) -> bool:
    """Return True where two that watch all the time say it, one of them often; power measured seldom does not."""
    seldom = said.refresh_s.get(POWER, 0.0) > SELDOM_S
    two = len(said.speaking - {POWER} if seldom else said.speaking) > 1
    return two and any(said.period_s >= WELL * said.refresh_s[name] for name in said.speaking)


def _undisputed(said: Said) -> bool:
    """Return True where one that measures often says it and those who do not say it see less of anything."""
    return any(
        share >= FAIR
        and said.others <= LESS * share
        and said.refresh_s[name] <= SELDOM_S
        and said.period_s >= FEW * said.refresh_s[name]
        for name, share in said.support.items()
        if name in said.speaking
    )


def _only_rings(said: Said) -> bool:
    """Return True where the rings say it and nobody else sees anything that repeats."""
    return said.support.keys() == {RINGS} and said.others < BLIND


def _alone(name: str, said: Said, fast_power: bool) -> bool:
    """Return True where one witness needs no other."""
    share, refresh_s = said.support[name], said.refresh_s[name]
    if share < ALONE:
        return False
    if name == RINGS:
        return fast_power and said.period_s >= RINGS_ALONE_S
    if refresh_s > SELDOM_S:
        return False
    return said.period_s >= WELL * refresh_s or (share >= ALONE_FEW and not is_whole(said.period_s, refresh_s))


def _same(one_s: float, other_s: float) -> bool:
    return abs(one_s - other_s) <= AGREE * other_s
