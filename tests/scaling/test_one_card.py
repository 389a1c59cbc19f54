"""The trap of flat throughput: a plain `python` on a machine with several cards uses one, whatever was rented."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.scenario import JobPlan, NodePlan, Scenario, slots
from gpumon.hardware.simulated.training import Training
from gpumon.model.past import Past
from gpumon.model.samples import Tick
from gpumon.model.settings import Settings
from gpumon.pipeline import State, initial_state, step
from gpumon.sampling.clocks import CountingClock
from gpumon.sampling.simulated_time import ticks
from tests.history.made import run

PLAIN = Training(work.BERT_LARGE, "single", micro_batch=2, micro_seconds=0.3, gap_seconds=0.03)
NODE = NodePlan(slots("rtx3090", 8))


def _without_variables(tick: Tick) -> Tick:
    """Return the tick of a user who did not narrow CUDA_VISIBLE_DEVICES, as the simulated one does."""
    processes = tuple(replace(process, environ={}) for process in tick.processes.processes)
    return replace(tick, processes=replace(tick.processes, processes=processes))


def _watch(given: int, past: Past) -> State:
    plan = JobPlan(f"job-{given}", PLAIN, (0,), given_cards=tuple(range(given)))
    node = SimulatedNode(Scenario(f"given-{given}", "", NODE, (plan,)), clock=CountingClock())
    state = initial_state()
    for tick in ticks(node, node, Settings().sampling, 75):
        state = step(state, _without_variables(tick), Settings(), past)
    return state


@pytest.mark.parametrize("given", [2, 8])
def test_one_card_of_several_is_a_finding_and_no_slowdown(given: int) -> None:
    """The job is a job of one card: the finding names it, and no efficiency, slowdown or count is stated."""
    state = _watch(given, Past())
    assert state.view is not None
    verdict = state.view.jobs[0].verdict
    assert "one_card_used" in [finding.finding for finding in verdict.findings]
    assert verdict.scaling is None
    (seen,) = state.scaling.runs
    assert seen.count == 1


def test_nor_with_a_faster_run_in_the_past() -> None:
    """Even where the same command once did more on two cards it used, one card is one card."""
    (seen,) = _watch(2, Past()).scaling.runs
    before = run(2, workload=seen.workload, card=seen.card, step_s=0.1, throughput=900.0, unit="samples")
    state = _watch(8, Past({seen.workload: (before,)}))
    assert state.view is not None
    assert state.view.jobs[0].verdict.scaling is None
