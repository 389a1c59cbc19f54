"""The history of a job's classes in a report: intervals that cover its whole span without gaps.

A verdict at one moment speaks of the time before it: its `since_s` says when the class began, and the boundary is
put there. The stretch before the first verdict belongs to the first verdict when that says so.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gpumon.model.verdict import Interval, Phase, Verdict

# A daemon runs for weeks and keeps only the recent history; reports and replays of a day fit whole.
MOST_INTERVALS = 1024


def _same(interval: Interval, verdict: Verdict | Phase, stragglers: tuple[int, ...]) -> bool:
    return (interval.job_class, interval.detail, interval.stragglers) == (
        verdict.job_class,
        verdict.detail,
        stragglers,
    )


def extend(
    intervals: tuple[Interval, ...], verdict: Verdict | Phase, previous_s: float, now_s: float
) -> tuple[Interval, ...]:
    """Return the intervals with the stretch from the previous tick to this one.

    Args:
        previous_s, now_s: seconds from the first sample of the run; the first call starts the span at previous_s.
        verdict: its `since_s` is already in the same seconds.
    """
    stragglers = tuple(sorted(straggler.gpu for straggler in verdict.stragglers))
    if intervals and _same(intervals[-1], verdict, stragglers):
        return (*intervals[:-1], replace(intervals[-1], t1=now_s))
    begin = intervals[-1].t1 if intervals else previous_s
    same_class = bool(intervals) and intervals[-1].job_class is verdict.job_class
    if not same_class and not math.isnan(verdict.since_s):
        begin = min(begin, max(verdict.since_s, intervals[0].t0 if intervals else previous_s))
    kept = [interval for interval in intervals if interval.t0 < begin]
    if kept:
        kept[-1] = replace(kept[-1], t1=begin)
        if _same(kept[-1], verdict, stragglers):
            kept[-1] = replace(kept[-1], t1=now_s)
            return tuple(kept)
    fresh = Interval(begin, now_s, verdict.job_class, verdict.detail, stragglers)
    return (*kept, fresh)[-MOST_INTERVALS:]
