"""A run of ticks told as one: what each job was held back by most of the time, and how it went. For report and replay.

A live verdict speaks of the last half minute; a report of a whole run must not hang on its last half minute. So the
class of a job is the one it spent most time under, and the view that speaks for it is the newest of that class.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from gpumon.model.verdict import Interval, JobClass
from gpumon.model.view import JobView, NodeView
from gpumon.pipeline.state import State

# Points kept for charts: more than a chart has pixels to spare, few enough to send.
MOST_POINTS = 600


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One job of the run."""

    view: JobView  # the newest of the class that held it back most of the time
    intervals: tuple[Interval, ...]  # cover its span without gaps; seconds from the first tick
    class_seconds: Mapping[JobClass, float]


@dataclass(frozen=True, slots=True)
class Point:
    """One moment of the charts. NaN where missing."""

    t_s: float  # from the first tick
    rx_bytes_per_second: tuple[float, ...]  # by card, in the order of `Summary.view.cards`
    tx_bytes_per_second: tuple[float, ...]
    power_watts: tuple[float, ...]
    utilization_ratio: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The run."""

    span_s: float
    view: NodeView  # the last tick
    jobs: tuple[JobSummary, ...]
    points: tuple[Point, ...]


class Collector:
    """Takes the states of a run one by one; memory does not grow with the run's length."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._newest: dict[str, dict[JobClass, JobView]] = defaultdict(dict)
        self._intervals: dict[str, tuple[Interval, ...]] = {}
        self._points: list[Point] = []
        self._every = 1
        self._count = 0

    def add(self, state: State) -> None:
        """Take the state after one tick."""
        self._state = state
        view = state.view
        assert view is not None  # there was a tick
        for job in view.jobs:
            if math.isnan(job.ended_s):
                self._newest[job.job.gpu_job][job.verdict.job_class] = job
        self._intervals.update(state.intervals)
        if self._count % self._every == 0:
            self._points.append(_point(view, view.mono_s - state.first_s))
            if len(self._points) > MOST_POINTS:
                self._points = self._points[::2]
                self._every *= 2
        self._count += 1

    def summary(self) -> Summary | None:
        """Return the run so far; None before the first tick."""
        state = self._state
        if state is None or state.view is None:
            return None
        jobs = []
        for name, views in self._newest.items():
            intervals = self._intervals.get(name, ())
            seconds: dict[JobClass, float] = defaultdict(float)
            for interval in intervals:
                seconds[interval.job_class] += interval.t1 - interval.t0
            jobs.append(JobSummary(views[_held_back_by(seconds, views)], intervals, dict(seconds)))
        jobs.sort(key=lambda job: (min((one.t0 for one in job.intervals), default=0.0), job.view.job.gpu_job))
        return Summary(state.view.mono_s - state.first_s, state.view, tuple(jobs), tuple(self._points))


def _held_back_by(seconds: Mapping[JobClass, float], views: Mapping[JobClass, JobView]) -> JobClass:
    """Return the class with the most time; `unknown` only when there is no other."""
    known = [job_class for job_class in views if job_class is not JobClass.UNKNOWN]
    return max(known or views, key=lambda job_class: seconds.get(job_class, 0.0))


def _point(view: NodeView, t_s: float) -> Point:
    return Point(
        t_s=t_s,
        rx_bytes_per_second=tuple(card.pcie.rx.bytes_per_second for card in view.cards),
        tx_bytes_per_second=tuple(card.pcie.tx.bytes_per_second for card in view.cards),
        power_watts=tuple(card.tick.reading("power_watts") for card in view.cards),
        utilization_ratio=tuple(card.tick.reading("utilization_ratio") for card in view.cards),
    )
