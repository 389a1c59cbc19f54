"""Finished reports by literal ticks."""

from __future__ import annotations

import dataclasses

from gpumon.model.verdict import Interval, JobClass, Verdict
from gpumon.model.view import JobView, NodeView
from gpumon.ui.report import FinishedReport, ReportCollector
from tests import views
from tests.ui.serving import wavering


def watched(view: NodeView, phases: tuple[tuple[float, Verdict], ...], *, step_s: float = 1.0) -> FinishedReport:
    """Return the report of a watch in which every job of the view went through these (seconds, verdict)."""
    collector = ReportCollector()
    intervals: tuple[Interval, ...] = ()
    start_s = now_s = 0.0
    for seconds, verdict in phases:
        stragglers = tuple(straggler.gpu for straggler in verdict.stragglers)
        end_s = start_s + seconds
        while now_s <= end_s:
            interval = Interval(start_s, now_s, verdict.job_class, verdict.detail, stragglers)
            jobs = tuple(_judged(job, verdict) for job in view.jobs)
            tick = wavering(dataclasses.replace(view, jobs=jobs), int(now_s))
            tick = dataclasses.replace(tick, mono_s=view.mono_s + now_s, wall_s=view.wall_s + now_s)
            collector.add(tick, {job.job.gpu_job: (*intervals, interval) for job in jobs})
            now_s += step_s
        intervals = (*intervals, Interval(start_s, end_s, verdict.job_class, verdict.detail, stragglers))
        start_s = end_s
    finished = collector.finish()
    assert finished is not None
    return finished


def _judged(job: JobView, verdict: Verdict) -> JobView:
    return dataclasses.replace(job, verdict=verdict, time_seconds_total={})


def misconfigured(view: NodeView | None = None) -> FinishedReport:
    """Return a minute of a job that loads, computes a little, and then waits for its links."""
    return watched(
        view or views.geforce(),
        ((8.0, views.UNKNOWN), (12.0, views.INPUT_BOUND), (40.0, views.COMMUNICATION)),
    )


def mended() -> FinishedReport:
    """Return the same job after the advice was followed."""
    verdict = dataclasses.replace(views.COMPUTE, step_seconds=0.31)
    return watched(views.geforce(), ((5.0, views.UNKNOWN), (55.0, verdict)))


def of_class(job_class: JobClass, detail: str) -> Verdict:
    """Return a bare verdict."""
    return Verdict(job_class=job_class, detail=detail, confidence=0.8)
