"""A finished report: what each job did over the whole watch, collected tick by tick, rendered by `report_text`,
`report_html`, or as the JSON of CONTRACT.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gpumon.model.verdict import TIME_STATES, Interval, TimeSplit
from gpumon.model.view import JobView, NodeView
from gpumon.ui.state_json import (
    SCHEMA,
    GpuState,
    JobState,
    NodeState,
    gpu_indices,
    gpu_states,
    job_state,
    node_state,
)

# Points of a chart: as many as an A4 page shows. Beyond, every second one goes and the step doubles, so a day's replay
# takes no more memory than an hour's.
MAX_POINTS = 600
# A class that held for a fifth of the watch says more of it than the "not enough evidence" of its start.
_ENOUGH_RATIO = 0.2


class Report(msgspec.Struct, frozen=True):
    """The JSON of `report` and `replay`: the state at the end, and each job with its intervals over the whole watch."""

    schema: int
    span_seconds: float
    node: NodeState
    gpus: tuple[GpuState, ...]
    jobs: tuple[JobState, ...]

    def json(self) -> bytes:
        """Return the report as JSON; missing values are null."""
        return msgspec.json.encode(self)


@dataclass(frozen=True, slots=True)
class Charts:
    """What the charts of a report draw. NaN where nothing was known.

    Attributes:
        t_s: seconds from the first tick, one for each point.
        links: by card index, (rx, tx) saturation at each point.
        shares: by gpu_job, the time split at each point, in the order of TIME_STATES.
    """

    t_s: tuple[float, ...]
    links: Mapping[int, tuple[tuple[float, float], ...]]
    shares: Mapping[str, tuple[tuple[float, ...], ...]]


@dataclass(frozen=True, slots=True)
class FinishedReport:
    """All that a renderer needs."""

    report: Report
    charts: Charts


class ReportCollector:
    """Takes every tick of a watch; `finish` says what it amounted to."""

    def __init__(self) -> None:
        self._first: NodeView | None = None
        self._last: NodeView | None = None
        self._verdicts: dict[str, dict[tuple[str, str], JobView]] = {}  # gpu_job -> (class, detail) -> its last view
        self._newest: dict[str, JobView] = {}
        self._seen_s: dict[str, float] = {}
        self._intervals: dict[str, tuple[Interval, ...]] = {}
        self._points: list[_Point] = []
        self._stride = 1
        self._ticks = 0

    def add(self, view: NodeView, intervals: Mapping[str, tuple[Interval, ...]]) -> None:
        """Take a tick.

        Args:
            intervals: each job's so far, seconds from the first tick (the pipeline's).
        """
        self._first = self._first or view
        self._last = view
        self._intervals.update(intervals)
        for job in view.jobs:
            if math.isnan(job.ended_s):
                verdict = job.verdict
                self._newest[job.job.gpu_job] = job
                self._seen_s[job.job.gpu_job] = view.mono_s
                key = (verdict.job_class.value, verdict.detail)
                self._verdicts.setdefault(job.job.gpu_job, {})[key] = job
        if self._ticks % self._stride == 0:
            self._points.append(_point(view, self._first.mono_s))
            if len(self._points) > MAX_POINTS:
                self._points = self._points[::2]
                self._stride *= 2
        self._ticks += 1

    def finish(self) -> FinishedReport | None:
        """Return the report, None when no tick came."""
        if self._first is None or self._last is None:
            return None
        indices = gpu_indices(self._last)
        names = sorted(self._newest, key=lambda name: (self._newest[name].job.first_seen_s, name))
        report = Report(
            schema=SCHEMA,
            span_seconds=self._last.mono_s - self._first.mono_s,
            node=node_state(self._last),
            gpus=gpu_states(self._last),
            jobs=tuple(
                job_state(self._whole(name), indices, self._seen_s[name], self._intervals.get(name, ()))
                for name in names
            ),
        )
        return FinishedReport(report, self._charts(names, indices))

    def _whole(self, name: str) -> JobView:
        """Return the job as the whole watch shows it: the class that held longest, the time split of all of it."""
        newest = self._newest[name]
        key = _longest(self._intervals.get(name, ()))
        view = self._verdicts[name].get(key, newest) if key else newest
        split = _overall(newest, view)
        return dataclasses.replace(newest, verdict=dataclasses.replace(view.verdict, time_split=split))

    def _charts(self, names: list[str], indices: Mapping[str, int]) -> Charts:
        points = self._points
        unknown_link, unknown_share = (math.nan, math.nan), (math.nan,) * len(TIME_STATES)
        return Charts(
            t_s=tuple(point.t_s for point in points),
            links={
                index: tuple(point.links.get(uuid, unknown_link) for point in points) for uuid, index in indices.items()
            },
            shares={name: tuple(point.shares.get(name, unknown_share) for point in points) for name in names},
        )


@dataclass(frozen=True, slots=True)
class _Point:
    t_s: float
    links: Mapping[str, tuple[float, float]]  # by uuid
    shares: Mapping[str, tuple[float, ...]]  # by gpu_job


def _point(view: NodeView, first_s: float) -> _Point:
    return _Point(
        t_s=view.mono_s - first_s,
        links={card.tick.uuid: (card.pcie.rx.saturation_ratio, card.pcie.tx.saturation_ratio) for card in view.cards},
        shares={
            job.job.gpu_job: _shares(job.verdict.time_split)
            for job in view.jobs
            if math.isnan(job.ended_s) and job.verdict.time_split is not None
        },
    )


def _shares(split: TimeSplit) -> tuple[float, ...]:
    return tuple(getattr(split, name) for name in TIME_STATES)


def _longest(intervals: tuple[Interval, ...]) -> tuple[str, str] | None:
    """Return the class that held longest with the detail that held longest in it; `unknown` only for want of others."""
    seconds: defaultdict[str, float] = defaultdict(float)
    details: defaultdict[tuple[str, str], float] = defaultdict(float)
    for interval in intervals:
        seconds[interval.job_class.value] += interval.t1 - interval.t0
        details[interval.job_class.value, interval.detail] += interval.t1 - interval.t0
    if not seconds:
        return None
    known = {name: length for name, length in seconds.items() if name != "unknown"}
    job_class = max(known, key=known.__getitem__, default="unknown")
    if known and known[job_class] < _ENOUGH_RATIO * sum(seconds.values()):
        job_class = "unknown"
    return max((key for key in details if key[0] == job_class), key=details.__getitem__)


def _overall(newest: JobView, view: JobView) -> TimeSplit | None:
    """Return the split of all the time that could be told apart, else that of the verdict."""
    total = sum(newest.time_seconds_total.values())
    split = view.verdict.time_split
    if total <= 0:
        return split
    uncertainty = split.uncertainty if split else math.nan
    shares = {name: newest.time_seconds_total.get(name, 0.0) / total for name in TIME_STATES}
    return TimeSplit(**shares, uncertainty=uncertainty)
