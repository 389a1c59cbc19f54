"""Named scenarios of the simulated node, end to end: sampler, jobs, analysis, pipeline."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import pytest

from gpumon import pipeline
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.model.settings import Settings
from gpumon.model.view import JobView, NodeView
from gpumon.sampling import simulated_time

SECONDS = 60


@cache
def watched(name: str, seed: int = 7) -> tuple[NodeView, ...]:
    """Return the view after every second of a scenario."""
    node = SimulatedNode(name, seed)
    settings = Settings()
    state, views = pipeline.initial_state(), []
    for tick in simulated_time.ticks(node, node, settings.sampling, SECONDS):
        state = pipeline.step(state, tick, settings)
        assert state.view is not None
        views.append(state.view)
    return tuple(views)


def running(view: NodeView) -> list[JobView]:
    return [job for job in view.jobs if math.isnan(job.ended_s)]


@pytest.mark.parametrize(
    ("name", "expected", "detail"),
    [
        ("rtx5090-x8-ddp-bound", "communication", "uplink"),
        ("rtx5090-x8-ddp-overlapped", "compute", ""),
        ("rtx5090-x8-compute", "compute", ""),
        ("rtx5090-x8-input", "host", "input"),
        ("rtx5090-x8-idle", "idle", ""),
        ("rtx4090-x2-ddp-bound", "communication", None),
        ("rtx5090-x4-decode-single", "memory", ""),
        ("rtx4090-x4-device-map", "communication", "pipeline_bubble"),
        ("rtx5090-x8-power-limited", "throttled", "power"),
        ("h100-sxm-x8-ddp", "compute", ""),
    ],
)
def test_the_verdict_of_a_clear_scenario(name: str, expected: str, detail: str | None) -> None:
    """A clear scenario gets its class and detail, and its evidence has numbers."""
    verdict = running(watched(name)[-1])[0].verdict
    assert verdict.job_class.value == expected
    assert detail is None or verdict.detail == detail
    assert verdict.confidence >= 0.6
    assert any(any(letter.isdigit() for letter in sentence) for sentence in verdict.evidence)


@pytest.mark.parametrize("name", ["rtx5090-x8-ddp-bound", "rtx5090-x8-compute", "rtx5090-x8-input"])
def test_a_steady_scenario_does_not_flap(name: str) -> None:
    """From the first verdict on the class stays."""
    classes = [running(view)[0].verdict.job_class for view in watched(name) if running(view)]
    assert sum(left is not right for left, right in pairwise(classes)) == 1
    assert classes[30] is classes[-1]


def test_links_of_a_scenario_carry_what_was_sent() -> None:
    """The mean traffic of every card is within its interval or 8 % of what crossed the wire; gauges may be 1 s old."""
    views = watched("rtx5090-x8-ddp-bound")
    node = SimulatedNode("rtx5090-x8-ddp-bound", 7)
    for _ in simulated_time.ticks(node, node, Settings().sampling, SECONDS):
        pass
    truth = node.truth(SECONDS - 15.0, float(SECONDS))[0]
    for index, card in enumerate(views[-1].cards):
        link = card.pcie.rx
        slack = max(0.08 * truth.rx_bytes[index] / 15.0, link.half_width_bytes_per_second)
        assert abs(link.bytes_per_second - truth.rx_bytes[index] / 15.0) <= slack


def test_totals_never_fall() -> None:
    """No counter of a card or job falls from one second to the next."""
    for before, after in pairwise(watched("rtx5090-x8-ddp-bound")):
        for old, new in zip(before.cards, after.cards, strict=True):
            assert new.pcie.rx.observed_bytes_total >= old.pcie.rx.observed_bytes_total
            assert all(new.counters[key] >= value for key, value in old.counters.items())
        totals = {job.job.gpu_job: job.class_seconds_total for job in before.jobs}
        for job in after.jobs:
            known = totals.get(job.job.gpu_job, {})
            assert all(job.class_seconds_total[name] >= value for name, value in known.items())
