"""Expected gains are ranges that come true when the job runs changed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpumon.analysis.findings import gains
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.scenario import Scenario
from gpumon.hardware.simulated.scenarios import find_scenario
from gpumon.hardware.simulated.training import Training
from gpumon.model.verdict import Finding
from tests.findings.watched import watch

SECONDS = 70.0
POINTS = 0.10


def _accumulating(name: str, steps: int) -> Scenario:
    scenario = find_scenario(name)
    job = scenario.jobs[0]
    assert isinstance(job.workload, Training)
    return replace(scenario, jobs=(replace(job, workload=replace(job.workload, accumulation=steps)),))


def _run(scenario: Scenario) -> tuple[dict[str, Finding], float]:
    """Return the findings at the end, and the simulated samples per second."""
    *_, last = watch(scenario, SECONDS)
    (verdict,) = last.meaning.verdicts.values()
    (truth,) = SimulatedNode(scenario, 1).truth(0.0, SECONDS)
    return {one.finding: one for one in verdict.findings}, truth.samples_per_second


@pytest.mark.parametrize("name", ["rtx4090-x2-ddp-bound", "rtx4090-x4-ddp-bound"])
def test_accumulation_goes_away_and_brings_what_was_said(name: str) -> None:
    """With gradients accumulated no_accumulation is gone, and the time saved is within 10 points of what was told."""
    found, before = _run(_accumulating(name, 1))
    gain = found["no_accumulation"].gain
    assert gain is not None
    for steps, predicted in zip((4, 16), gain, strict=True):
        after, speed = _run(_accumulating(name, steps))
        assert "no_accumulation" not in after
        assert 1.0 - before / speed == pytest.approx(1.0 - 1.0 / predicted, abs=POINTS)


def test_removing_half_of_half_the_time_is_a_third_faster() -> None:
    """1 / (1 - 0.5 * 0.5) = 1.33 at the low end, 1 / (1 - 1.0 * 0.6) = 2.5 at the high one."""
    assert gains.removing((0.5, 0.6), (0.5, 1.0)) == (1.33, 2.5)


def test_an_unknown_share_promises_nothing() -> None:
    """Without a time split there is no range."""
    assert gains.removing((math.nan, math.nan), (0.5, 1.0)) is None


def test_no_promise_beyond_ten_times() -> None:
    """A share near all of the time says "much", not a figure."""
    assert gains.removing((0.99, 1.0), (1.0, 1.0)) == (10.0, 10.0)


def test_an_exchange_made_four_times_rarer() -> None:
    """Of an exposed exchange of 0.6 of the time a quarter stays."""
    assert gains.accumulating(0.6, 4) == pytest.approx(1.0 / (1.0 - 0.6 * 0.75))
