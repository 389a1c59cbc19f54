"""The last 15 minutes of the few series the page draws, in memory of fixed size.

Prometheus keeps history; this is for the person who opens the page with nothing else running. One point each 10 s, 90
points, float32: 16 cards and 64 jobs are 0.3 MB.
"""

from __future__ import annotations

import math
from threading import Lock

import msgspec
import numpy as np
import numpy.typing as npt

from gpumon.model.document import Document
from gpumon.model.verdict import TIME_STATES, JobClass
from gpumon.model.view import CardView, JobView, NodeView

STEP_S = 10.0
POINTS = 90
MAX_JOBS = 64  # drawn; the page lists the others without a chart

_CARD_SERIES = ("rx_saturation_ratio", "tx_saturation_ratio", "utilization_ratio", "power_ratio")
_CLASSES = tuple(job_class.value for job_class in JobClass)


class _CardRecent(msgspec.Struct):
    gpu: int
    uuid: str
    series: dict[str, list[float]]


class _JobRecent(msgspec.Struct):
    gpu_job: str
    classes: list[str | None] = msgspec.field(name="class")
    time_ratio: dict[str, list[float]]


class _Recent(msgspec.Struct):
    """Oldest point first; the last one lies at `end` (Unix seconds), the others a step apart. Missing is null."""

    schema: int
    end: float
    step_seconds: float
    gpus: list[_CardRecent]
    jobs: list[_JobRecent]


class HistoryRing:
    """`append` is called once a tick by the pipeline's thread, `document` by any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._filled = 0  # points so far; the newest lies at (filled - 1) modulo POINTS
        self._next_s = -math.inf
        self._end_wall_s = math.nan
        self._cards: dict[str, npt.NDArray[np.float32]] = {}  # uuid -> shape (series, POINTS)
        self._jobs: dict[str, npt.NDArray[np.float32]] = {}  # gpu_job -> shape (states + 1, POINTS); last row the class

    def append(self, view: NodeView) -> None:
        """Keep this tick if a step has passed since the last point."""
        if view.mono_s < self._next_s:
            return
        self._next_s = view.mono_s + STEP_S
        running = [job for job in view.jobs if math.isnan(job.ended_s)]
        with self._lock:
            self._filled += 1
            self._end_wall_s = view.wall_s
            at = (self._filled - 1) % POINTS
            for kept in (self._cards, self._jobs):
                for name in [name for name, points in kept.items() if np.isnan(np.delete(points, at, axis=1)).all()]:
                    del kept[name]  # nothing but the point that is about to go
                for points in kept.values():
                    points[:, at] = math.nan
            for card in view.cards:
                _ring(self._cards, card.card.identity.uuid, len(_CARD_SERIES))[:, at] = _card_point(card)
            for job in running:
                if job.job.gpu_job in self._jobs or len(self._jobs) < MAX_JOBS:
                    _ring(self._jobs, job.job.gpu_job, len(TIME_STATES) + 1)[:, at] = _job_point(job)

    def document(self, view: NodeView) -> Document:
        """Return the recent past of the cards and jobs in this view (which may be narrowed to a tenant's)."""
        with self._lock:
            count = min(self._filled, POINTS)
            order = (np.arange(self._filled - count, self._filled)) % POINTS
            cards = [
                _CardRecent(
                    card.card.identity.index,
                    card.card.identity.uuid,
                    dict(zip(_CARD_SERIES, _rounded(self._cards[card.card.identity.uuid][:, order]), strict=True)),
                )
                for card in view.cards
                if card.card.identity.uuid in self._cards
            ]
            jobs = [
                _job_recent(job.job.gpu_job, self._jobs[job.job.gpu_job][:, order])
                for job in view.jobs
                if job.job.gpu_job in self._jobs
            ]
            recent = _Recent(1, round(self._end_wall_s, 3), STEP_S, cards, jobs)
        return Document(msgspec.json.encode(recent), "application/json")


def _ring(kept: dict[str, npt.NDArray[np.float32]], name: str, rows: int) -> npt.NDArray[np.float32]:
    points = kept.get(name)
    if points is None:
        points = kept[name] = np.full((rows, POINTS), math.nan, dtype=np.float32)
    return points


def _card_point(view: CardView) -> tuple[float, ...]:
    tick = view.tick
    power = tick.reading("power_watts") / (tick.reading("power_limit_watts") or math.nan)
    return (
        view.pcie.rx.saturation_ratio,
        view.pcie.tx.saturation_ratio,
        tick.reading("utilization_ratio"),
        power,
    )


def _job_point(view: JobView) -> tuple[float, ...]:
    split = view.verdict.time_split
    shares = (math.nan,) * len(TIME_STATES) if split is None else tuple(getattr(split, name) for name in TIME_STATES)
    return (*shares, float(_CLASSES.index(view.verdict.job_class.value)))


def _job_recent(name: str, points: npt.NDArray[np.float32]) -> _JobRecent:
    *shares, classes = _rounded(points)
    return _JobRecent(
        name,
        [None if math.isnan(number) else _CLASSES[int(number)] for number in classes],
        dict(zip(TIME_STATES, shares, strict=True)),
    )


def _rounded(points: npt.NDArray[np.float32]) -> list[list[float]]:
    """Return rows with three decimals: a chart is 90 pixels high."""
    rows: list[list[float]] = np.round(points.astype(np.float64), 3).tolist()
    return rows
