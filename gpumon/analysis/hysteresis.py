"""From judgements to a verdict that does not flap: what must hold, and for how long, before the class changes.

After a change of the job's behaviour the new class is taken as soon as two judgements agree; it may be corrected once,
because it was taken on a few seconds. After that a class stands for a minute at least and a rival must win for ten
seconds: a border case then changes once a minute at most.
A detail may change more easily within its class, but not more often than every ten seconds.

A job that goes to and fro (steps and saves, requests and lulls) is one thing for some seconds and another for the next.
The verdict follows it; its confidence is that the class holds for most of the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpumon.analysis.case import confidence_of
from gpumon.analysis.verdict import Judgement
from gpumon.model.verdict import JobClass

AGREE_S = 10.0
STANDS_S = 60.0
AGREE_AFTER_CHANGE = 2  # judgements
PAUSE_S = 15.0  # lulls of a server that works are shorter and no change of the job,
PAUSES_S = 25.0  # unless it has had so much of them in the last minute
UNKNOWN_AFTER_CHANGE_S = 12.0  # how long the old class is kept while the new window says nothing yet
SMOOTHING_S = 8.0  # of the confidence
LEAST = 0.3  # of a verdict that is right for the moment
CYCLES_S = 60.0  # of what stood before, for a job that goes to and fro
GUESS = 0.5
DOUBTING_S = 5.0  # the same while judgements disagree: a moment must not shake what stood for minutes


@dataclass(frozen=True, slots=True)
class Standing:
    """The verdict that stands, and the rival that may replace it."""

    job_class: JobClass = JobClass.UNKNOWN
    detail: str = ""
    confidence: float = 0.0
    since_s: float = math.nan  # when this class began
    changed_s: float = -math.inf  # when it was last changed within one regime
    rival: tuple[JobClass, str] = (JobClass.UNKNOWN, "")
    rival_since_s: float = math.nan
    rival_count: int = 0
    judged_s: float = math.nan
    evidence: tuple[str, ...] = ()
    against: str = ""
    spells: tuple[tuple[JobClass, float], ...] = ()  # what stood in the last minute, oldest first: class, since when
    lulls: tuple[tuple[float, float], ...] = ()  # regimes of the last minute that were judged idle: from, to


def _spells(
    standing: Standing, job_class: JobClass, since_s: float, now_s: float
) -> tuple[tuple[JobClass, float], ...]:
    """Return the spells of the last minute with a new one, or as they are where the class goes on."""
    kept = standing.spells
    while len(kept) > 1 and kept[1][1] <= now_s - CYCLES_S:
        kept = kept[1:]
    return kept if kept and kept[-1][0] is job_class else (*kept, (job_class, since_s))


def _most_of_the_time(spells: tuple[tuple[JobClass, float], ...], now_s: float) -> float:
    """Return the confidence that the newest spell's class holds for most of the time; 1 where it did not come again."""
    job_class = spells[-1][0]
    if not any(earlier is job_class for earlier, _ in spells[:-1]):
        return 1.0
    ends = (*(since_s for _, since_s in spells[1:]), now_s)
    lasted = {known: 0.0 for known, _ in spells}
    for (known, since_s), end_s in zip(spells, ends, strict=True):
        lasted[known] += max(0.0, end_s - max(since_s, now_s - CYCLES_S))
    return max(LEAST, confidence_of(lasted[job_class] / max(sum(lasted.values()), 1e-6)))


def _taken(standing: Standing, judgement: Judgement, *, since_s: float, changed_s: float, now_s: float) -> Standing:
    spells = _spells(standing, judgement.job_class, since_s, now_s)
    return Standing(
        job_class=judgement.job_class,
        detail=judgement.detail,
        confidence=min(judgement.confidence, _most_of_the_time(spells, now_s)),
        since_s=since_s,
        changed_s=changed_s,
        judged_s=now_s,
        evidence=judgement.evidence,
        against=judgement.against,
        spells=spells,
    )


def _lulls(standing: Standing, judgement: Judgement, regime_s: float, now_s: float) -> tuple[tuple[float, float], ...]:
    """Return the idle regimes of the last minute after one more judgement."""
    kept = tuple(lull for lull in standing.lulls if lull[1] > now_s - CYCLES_S and lull[0] != regime_s)
    return (*kept, (regime_s, now_s)) if judgement.job_class is JobClass.IDLE else kept


def _rested_s(lulls: tuple[tuple[float, float], ...], now_s: float) -> float:
    return sum(to_s - max(from_s, now_s - CYCLES_S) for from_s, to_s in lulls)


def settle(standing: Standing, judgement: Judgement, regime_s: float, now_s: float) -> Standing:
    """Return the verdict that stands after one more judgement.

    Args:
        regime_s: when the job's present behaviour began; judgements are of the time since then.
    """
    standing = replace(standing, lulls=_lulls(standing, judgement, regime_s, now_s))
    return replace(_settled(standing, judgement, regime_s, now_s), lulls=standing.lulls)


def _settled(standing: Standing, judgement: Judgement, regime_s: float, now_s: float) -> Standing:
    new_regime = math.isnan(standing.since_s) or regime_s > standing.since_s + 1e-6
    found = (judgement.job_class, judgement.detail)
    if found == (standing.job_class, standing.detail):
        return _confirmed(standing, judgement, now_s)
    again = found == standing.rival and standing.rival_count > 0
    count = standing.rival_count + 1 if again else 1
    rival_since_s = standing.rival_since_s if again else now_s
    waiting = Standing(
        standing.job_class,
        standing.detail,
        _doubted(standing, judgement, now_s),
        standing.since_s,
        standing.changed_s,
        found,
        rival_since_s,
        count,
        now_s,
        standing.evidence,
        standing.against,
        standing.spells,
    )
    if judgement.job_class is standing.job_class:
        if now_s - rival_since_s < AGREE_S:
            return waiting
        return _taken(standing, judgement, since_s=standing.since_s, changed_s=standing.changed_s, now_s=now_s)
    first_name = standing.job_class is JobClass.UNKNOWN
    if new_regime or first_name:
        if judgement.job_class is JobClass.UNKNOWN:
            patient = now_s - regime_s >= UNKNOWN_AFTER_CHANGE_S and now_s - rival_since_s >= AGREE_S / 2
        else:
            pauses = judgement.job_class is JobClass.IDLE and not first_name and now_s - regime_s < PAUSE_S
            patient = count >= AGREE_AFTER_CHANGE and not (pauses and _rested_s(standing.lulls, now_s) < PAUSES_S)
        since_s = regime_s if new_regime else rival_since_s
        return _taken(standing, judgement, since_s=since_s, changed_s=-math.inf, now_s=now_s) if patient else waiting
    if now_s - rival_since_s < AGREE_S or now_s - standing.changed_s < STANDS_S:
        return waiting
    return _taken(standing, judgement, since_s=rival_since_s, changed_s=now_s, now_s=now_s)


def _doubted(standing: Standing, judgement: Judgement, now_s: float) -> float:
    """Return the confidence of a verdict that stands while the newest judgement is another.

    In time it is a guess: the newest seconds may be a moment of the old kind of work or the beginning of a new one.
    """
    if judgement.job_class is standing.job_class or math.isnan(standing.judged_s):
        return standing.confidence
    weight = 1.0 - math.exp(-(now_s - standing.judged_s) / DOUBTING_S)
    return standing.confidence + weight * (min(GUESS, standing.confidence) - standing.confidence)


def _confirmed(standing: Standing, judgement: Judgement, now_s: float) -> Standing:
    """The same class again: confidence moves slowly, evidence is the newest."""
    span_s = now_s - standing.judged_s
    weight = 1.0 if math.isnan(span_s) else 1.0 - math.exp(-span_s / SMOOTHING_S)
    spells = _spells(standing, standing.job_class, standing.since_s, now_s)
    goal = min(judgement.confidence, _most_of_the_time(spells, now_s))
    return Standing(
        standing.job_class,
        standing.detail,
        standing.confidence + weight * (goal - standing.confidence),
        standing.since_s,
        standing.changed_s,
        judged_s=now_s,
        evidence=judgement.evidence,
        against=judgement.against,
        spells=spells,
    )
