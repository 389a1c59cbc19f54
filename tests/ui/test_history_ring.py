"""The 15 minutes in memory: bounded, aligned, honest about gaps."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from gpumon.model.view import NodeView
from gpumon.ui.history_ring import MAX_JOBS, POINTS, STEP_S, HistoryRing
from tests import views


def at(view: NodeView, number: int) -> NodeView:
    """Return the view a number of steps after the first."""
    seconds = number * STEP_S
    return dataclasses.replace(view, mono_s=1000.0 + seconds, wall_s=views.WALL_S + seconds)


def recent(ring: HistoryRing, view: NodeView) -> dict[str, Any]:
    got: dict[str, Any] = json.loads(ring.document(view).body)
    return got


def test_one_point_a_step() -> None:
    """Ticks between two steps leave no point; the newest point lies at `end`."""
    ring, view = HistoryRing(), views.geforce()
    for second in range(35):
        ring.append(dataclasses.replace(view, mono_s=100.0 + second, wall_s=views.WALL_S + second))
    got = recent(ring, view)
    assert got["end"] == views.WALL_S + 30
    assert got["jobs"][0]["class"] == ["communication"] * 4
    assert got["jobs"][0]["time_ratio"]["compute"] == [0.35] * 4
    assert got["gpus"][0]["series"]["power_ratio"] == [0.5] * 4


def test_oldest_points_go() -> None:
    """After 15 minutes each new point takes the place of the oldest."""
    ring, view = HistoryRing(), views.geforce()
    for number in range(POINTS + 5):
        verdict = views.COMPUTE if number >= POINTS else views.COMMUNICATION
        ring.append(at(dataclasses.replace(view, jobs=(views.job_view("c.1", (0,), verdict),)), number))
    classes = recent(ring, dataclasses.replace(view, jobs=(views.job_view("c.1", (0,)),)))["jobs"][0]["class"]
    assert classes == ["communication"] * (POINTS - 5) + ["compute"] * 5


def test_a_gap_is_null() -> None:
    """A card that did not answer and a job that was not there have nulls, in step with the others."""
    ring = HistoryRing()
    ring.append(at(views.no_jobs(), 0))
    ring.append(at(views.lost_card(), 1))
    got = recent(ring, views.lost_card())
    assert got["gpus"][5]["series"]["utilization_ratio"] == [1.0, None]
    assert got["gpus"][4]["series"]["utilization_ratio"] == [1.0, 1.0]
    assert got["jobs"][0]["class"] == [None, "communication"]


def test_jobs_are_forgotten() -> None:
    """A job gone for 15 minutes leaves nothing; a flood of jobs keeps at most MAX_JOBS."""
    ring, calm = HistoryRing(), views.no_jobs()
    for number in range(200):
        job = views.job_view(f"c.{number}", (0,))
        ring.append(at(dataclasses.replace(calm, jobs=(job,)), number))
        assert len(ring._jobs) <= MAX_JOBS
    for number in range(200, 200 + POINTS):
        ring.append(at(calm, number))
    assert not ring._jobs
    assert len(ring._cards) == 8


def test_only_what_the_view_shows() -> None:
    """A narrowed view gets the past of its own jobs and cards alone."""
    ring, view = HistoryRing(), views.geforce(2)
    ring.append(view)
    got = recent(ring, dataclasses.replace(view, jobs=view.jobs[:1], cards=view.cards[:4]))
    assert [job["gpu_job"] for job in got["jobs"]] == [view.jobs[0].job.gpu_job]
    assert [gpu["gpu"] for gpu in got["gpus"]] == [0, 1, 2, 3]


def test_size_of_the_fullest_node() -> None:
    """16 cards and 20 jobs make less than 250 kB of JSON."""
    ring, view = HistoryRing(), views.crowded()
    for number in range(POINTS):
        ring.append(at(view, number))
    assert len(ring.document(view).body) < 250_000
