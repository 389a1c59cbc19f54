"""Whether a change came true: what a finding promised against what the workload's next run without it does."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.scenarios import find_scenario
from gpumon.hardware.simulated.training import Training
from gpumon.model.past import HeldFinding, Run, Shares
from gpumon.model.settings import Settings
from gpumon.model.verdict import Finding, JobClass, Verdict
from gpumon.pipeline import initial_state, step
from gpumon.sampling.simulated_time import ticks
from gpumon.scaling.outcome import came_true
from gpumon.scaling.runs import Watched, extend
from tests.history.made import run

SLOW = HeldFinding("no_accumulation", (1.2, 1.9))
GLOO = HeldFinding("gloo", (1.5, 3.0))


def _reported(number: int, rate: float, *findings: HeldFinding, **changes: object) -> Run:
    made = run(4, number, throughput=rate, throughput_spread=0.01, unit="samples", findings=findings)
    return replace(made, **changes)  # type: ignore[arg-type]  # names of fields and their values


@pytest.mark.parametrize(
    ("rate", "result"), [(150.0, "as expected"), (110.0, "less than expected"), (230.0, "more than expected")]
)
def test_what_was_promised_against_what_is_seen(rate: float, result: str) -> None:
    """1.2 to 1.9 times as fast was promised: 1.5 keeps it, 1.1 does not, 2.3 is more."""
    found = came_true(_reported(2, rate), (_reported(1, 100.0, SLOW),))
    assert found is not None
    assert (found.findings, found.expected, found.evidence) == (("no_accumulation",), (1.2, 1.9), "reported")
    assert math.isclose(found.seen, rate / 100.0)
    assert 0.0 < found.uncertainty < 0.08
    assert found.result == result


def test_steps_that_hold_more_micro_batches_are_compared_by_work() -> None:
    """Four micro-batches of a quarter second each instead of one, and 1.3 s instead of 0.5 s: 1.54 times as fast."""
    before = run(4, 1, step_s=0.5, accumulation=1, shares=Shares(0.5, 0, 0.5, 0, 0, 0, 0.03), findings=(SLOW,))
    now = run(4, 2, step_s=1.3, accumulation=4, shares=Shares(0.77, 0, 0.23, 0, 0, 0, 0.03))
    found = came_true(now, (before,))
    assert found is not None
    assert found.evidence == "period"
    assert math.isclose(found.seen, 4 * 0.5 / 1.3)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (_reported(1, 100.0, SLOW), _reported(2, 150.0, SLOW)),
        (_reported(1, 100.0, HeldFinding("no_accumulation")), _reported(2, 150.0)),
        (_reported(1, 100.0), _reported(2, 150.0)),
        (_reported(3, 100.0, SLOW), _reported(2, 150.0)),
        (_reported(1, 100.0, SLOW), _reported(2, 150.0, watched_s=100.0)),
        (_reported(1, 100.0, SLOW), _reported(2, 150.0, workload="another")),
        (_reported(1, 100.0, SLOW), _reported(2, 150.0, topology="sockets 2 2")),
        (_reported(1, 100.0, SLOW), replace(_reported(2, 150.0), uuids=("GPU-00",))),
        (_reported(1, 100.0, SLOW), run(4, 2, step_s=math.nan)),
    ],
    ids=[
        "still there",
        "no promise",
        "nothing found",
        "later",
        "just begun",
        "other work",
        "elsewhere",
        "fewer",
        "blind",
    ],
)
def test_nothing_is_said_where_nothing_follows(before: Run, now: Run) -> None:
    """A finding that stays, one without a promise, other work, other cards, and runs without a pace have no outcome."""
    assert came_true(now, (now, before)) is None


def test_only_the_run_before_counts() -> None:
    """What an older run promised is settled by the one after it."""
    runs = (_reported(1, 100.0, SLOW), _reported(2, 150.0), _reported(3, 151.0))
    assert came_true(runs[2], runs) is None


def test_two_changes_at_once_bring_at_least_the_better_and_at_most_both() -> None:
    """1.2 to 1.9 and 1.5 to 3 are together 1.5 to 5.7."""
    found = came_true(_reported(2, 300.0), (_reported(1, 100.0, SLOW, GLOO),))
    assert found is not None
    assert found.findings == ("no_accumulation", "gloo")
    assert found.expected == pytest.approx((1.5, 5.7))


def test_a_run_keeps_what_was_found_for_half_of_it() -> None:
    """Ten looks: what held in six of them stays with its newest promise, what held in four does not."""
    verdicts = [
        _verdict(*(("gloo",) if look < 4 else ()), *(("no_accumulation",) if look > 3 else ())) for look in range(10)
    ]
    watched = Watched(replace(run(4), watched_s=0.0))
    for verdict in verdicts:
        watched = extend(watched, verdict, None, span_s=10.0, wall_s=0.0, energy_joules=math.nan)
    assert watched.run.findings == (SLOW,)


def _verdict(*names: str) -> Verdict:
    told = tuple(Finding(name, "warning", "customer", "", (), "", gain=(1.2, 1.9)) for name in names)
    return Verdict(JobClass.COMMUNICATION, "bandwidth", step_seconds=0.5, findings=told)


def test_a_simulated_change_comes_true() -> None:
    """A bound DDP job ends and runs again with eight steps accumulated: what was promised is what is seen."""
    scenario = find_scenario("rtx4090-x2-ddp-bound")
    job = scenario.jobs[0]
    assert isinstance(job.workload, Training)
    before = replace(job, end_s=190.0)
    after = replace(job, name="later", start_s=200.0, workload=replace(job.workload, accumulation=8))
    node, settings, state = SimulatedNode(replace(scenario, jobs=(before, after))), Settings(), initial_state()
    for tick in ticks(node, node, settings.sampling, 390.0):
        state = step(state, tick, settings)
    assert state.view is not None
    (outcome,) = (view.verdict.outcome for view in state.view.jobs if math.isnan(view.ended_s))
    assert outcome is not None
    assert (outcome.findings, outcome.evidence, outcome.result) == (("no_accumulation",), "period", "as expected")
    (slow,), (fast,) = node.truth(60.0, 180.0), node.truth(240.0, 390.0)
    assert outcome.seen == pytest.approx(fast.samples_per_second / slow.samples_per_second, rel=0.12)
