"""What a job that goes to and fro is over its cycle: steps and saves, passes and an optimizer on the host, requests
and lulls.

Regimes of ten seconds are each judged by themselves, and each is one thing. A job that comes back to what it was a
moment ago is none of them: what holds it back is the mean of the last minute, each regime weighted by how long it
lasted, and named by the same rules. A job that changes for good is not meant: its new class has not been there before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from gpumon.analysis.hysteresis import Standing
from gpumon.analysis.time_split import GROUP_ROWS, GROUPS, Split
from gpumon.analysis.verdict import CLASS_OF_GROUP, LEAD_SCALE, LEAST_CONFIDENCE, TWIN_LEAD, Judgement
from gpumon.analysis.waiting import SLOWER
from gpumon.model.verdict import TIME_STATES, JobClass, Straggler

KEPT_S = 60.0  # the longest window any judgement uses
FEWEST = 3  # spells: there, away and back
# Beside the doubt of any lead: a minute holds two or three cycles and cuts the outer ones anywhere. A lead is told from
# a twin's only where it exceeds it by as much as the cut may take away.
CUT_SCALE = 0.08
CUT_LEAD = TWIN_LEAD + 0.1
CYCLED = frozenset(CLASS_OF_GROUP.values()) | {JobClass.IDLE}


@dataclass(frozen=True, slots=True)
class Spell:
    """One regime, as it was judged last."""

    from_s: float
    judgement: Judgement
    means: Mapping[str, float]  # its time split
    spread: float  # the largest standard deviation of a share
    stragglers: tuple[Straggler, ...] = ()


@dataclass(frozen=True, slots=True)
class Cycle:
    """The regimes of the last minute, oldest first, and what the job was said to be because of them."""

    spells: tuple[Spell, ...] = ()
    said: JobClass = JobClass.UNKNOWN
    since_s: float = math.nan


@dataclass(frozen=True, slots=True)
class Whole:
    """What a job is over its cycle."""

    standing: Standing
    means: Mapping[str, float]  # the time split
    spread: float
    stragglers: tuple[Straggler, ...]  # what they cost is a share of the cycle


def follow(
    past: Cycle,
    judgement: Judgement,
    result: Split | None,
    named: tuple[Straggler, ...],
    *,
    regime_s: float,
    now_s: float,
) -> Cycle:
    """Return the cycle with one more judgement.

    Args:
        named: the cards that are waited for.
        regime_s: when the regime that was judged began.
    """
    if result is None or judgement.job_class is JobClass.UNKNOWN:
        return past
    before = tuple(spell for spell in past.spells if spell.from_s < regime_s)
    while len(before) > 1 and before[1].from_s <= now_s - KEPT_S:
        before = before[1:]
    newest = Spell(regime_s, judgement, result.means, max(result.spreads.values()), named)
    return replace(past, spells=(*before, newest))


def over(cycle: Cycle, standing: Standing, regime_s: float, now_s: float) -> tuple[Cycle, Whole | None]:
    """Return what a job is over its cycle; None of a job that does not go to and fro.

    What has lasted for all of the time that is kept goes nowhere, whatever it was before and whether it has a name.

    Args:
        standing: what the newest regime was settled to be.
        regime_s: when it began; it may not have been judged yet.
    """
    if now_s - regime_s >= KEPT_S or not _to_and_fro(cycle.spells):
        return replace(cycle, said=JobClass.UNKNOWN), None
    parts = _whole_cycles(cycle.spells, regime_s, now_s)
    means = {state: sum(part * spell.means[state] for part, spell in parts) for state in TIME_STATES}
    held = sum(part * spell.means["peer_wait"] for part, spell in parts if spell.judgement.job_class is JobClass.HOST)
    spread = sum(part * spell.spread for part, spell in parts)
    stragglers = _stragglers(parts)
    job_class, confidence = _class_of(means, held)
    named = [spell for spell in cycle.spells if spell.judgement.job_class is job_class]
    if not named or confidence < LEAST_CONFIDENCE:
        said = replace(standing, job_class=JobClass.UNKNOWN, detail="", confidence=confidence, against="")
        return replace(cycle, said=JobClass.UNKNOWN), Whole(said, means, spread, stragglers)
    since_s = cycle.since_s if job_class is cycle.said else named[0].from_s
    newest = named[-1].judgement
    said = replace(
        standing,
        job_class=job_class,
        detail=newest.detail,
        confidence=confidence,
        since_s=since_s,
        evidence=newest.evidence,
        against=newest.against,
    )
    return replace(cycle, said=job_class, since_s=since_s), Whole(said, means, spread, stragglers)


def _whole_cycles(spells: tuple[Spell, ...], regime_s: float, now_s: float) -> list[tuple[float, Spell]]:
    """Return the spells that make up whole cycles, the newest ones, each with its share of their time.

    Half a cycle more would count one side of it twice. So the newest run of spells counts once it has lasted as long
    as the run like it before; until then the cycle ends where that one began.
    """
    end_s = now_s if spells[-1].from_s >= regime_s else regime_s
    ends = (*(spell.from_s for spell in spells[1:]), end_s)
    lasted = [max(0.0, end - max(spell.from_s, now_s - KEPT_S)) for spell, end in zip(spells, ends, strict=True)]
    runs = [list(run) for _, run in groupby(range(len(spells)), key=lambda number: spells[number].judgement.job_class)]
    newest = spells[-1].judgement.job_class
    alike = [number for number, run in enumerate(runs[:-1]) if spells[run[0]].judgement.job_class is newest]
    whole = sum(lasted[place] for place in runs[-1]) >= sum(lasted[place] for place in runs[alike[-1]])
    begins = [number + whole for number in alike]
    # A run of which only the end is known is left out where there is another to begin with.
    known = [number for number in begins if spells[runs[number][0]].from_s >= now_s - KEPT_S]
    first = min(known, default=begins[-1])
    chosen = [place for run in (runs[first:] if whole else runs[first:-1]) for place in run]
    total_s = max(sum(lasted[place] for place in chosen), 1e-6)
    return [(lasted[place] / total_s, spells[place]) for place in chosen]


def _stragglers(parts: list[tuple[float, Spell]]) -> tuple[Straggler, ...]:
    """Return the cards that were waited for in any spell, with their newest cause and what they cost in all."""
    found: dict[str, Straggler] = {}
    for part, spell in parts:
        for one in spell.stragglers:
            before = found[one.uuid].cost_ratio if one.uuid in found else 0.0
            found[one.uuid] = replace(one, cost_ratio=before + part * one.cost_ratio)
    return tuple(one for one in found.values() if one.cost_ratio >= SLOWER)


def _to_and_fro(spells: tuple[Spell, ...]) -> bool:
    """Return True where the newest regime is what the job was before the one between."""
    classes = [spell.judgement.job_class for spell in spells]
    if len(spells) < FEWEST or not CYCLED.issuperset(classes):
        return False
    others = [place for place, job_class in enumerate(classes) if job_class is not classes[-1]]
    return bool(others) and classes[-1] in classes[: others[-1]]


def _class_of(means: Mapping[str, float], held: float) -> tuple[JobClass, float]:
    """Return the class of a mean split and how sure it is; a class whose lead is no more than a twin's is a guess.

    Args:
        held: share of time in which cards wait for one that its host holds: of the host, and no rival of it.
    """
    over_half = 2.0 * (means["idle"] - 0.5)
    if over_half >= -TWIN_LEAD:
        return JobClass.IDLE, _sure(over_half, TWIN_LEAD)
    shares = {
        group: sum(means[TIME_STATES[row]] for row in rows) for group, rows in zip(GROUPS, GROUP_ROWS, strict=True)
    }
    first = max(shares, key=lambda group: shares[group])
    if first == "communication" and 2.0 * held > shares["communication"]:
        first = "host"
    if first == "host":
        shares["host"] = max(shares["host"], shares["communication"])
        shares["communication"] -= held
    lead = shares.pop(first) - max(shares.values())
    return CLASS_OF_GROUP[first], min(_sure(lead, CUT_LEAD), _sure(-over_half, TWIN_LEAD))


def _sure(lead: float, least: float) -> float:
    """Return the confidence of a class from its lead over the whole cycle; a coin's where that is less than `least`."""
    return 1.0 - 0.5 * math.exp(-lead / (LEAD_SCALE + CUT_SCALE)) if lead >= least else 0.5
