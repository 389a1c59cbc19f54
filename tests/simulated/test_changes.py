"""Jobs whose behaviour changes at a known time, and the truth of waits for a card whose host is slow."""

from __future__ import annotations

import pytest

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.changes import Change, class_change, hang
from gpumon.hardware.simulated.scenario import JobPlan, NodePlan, Scenario, slots
from gpumon.hardware.simulated.training import Training
from gpumon.hardware.simulated.truth import JobTruth, job_truths
from gpumon.hardware.simulated.world import World
from gpumon.model.verdict import JobClass


def sides(change: Change) -> tuple[JobTruth, JobTruth]:
    """Return the truth of the half minutes before a change and at the end of the run."""
    world = World(change.scenario, 1, keeps_all=True)
    world.advance(change.seconds)
    (before,) = job_truths(world, change.at_s - 30.0, change.at_s)
    (after,) = job_truths(world, change.seconds - 30.0, change.seconds)
    return before, after


def test_same_seed_same_change() -> None:
    """A seed always gives the same change, another seed another."""
    assert class_change(5) == class_change(5)
    assert class_change(5) != class_change(6)
    assert hang(5) == hang(5)


def test_most_changes_change_the_class() -> None:
    """The class before and after differs, clearly on both sides, in most instances."""
    clear = 0
    for seed in range(9000, 9012):
        before, after = sides(class_change(seed))
        clear += before.job_class is not after.job_class and min(before.margin, after.margin) >= 0.15
    assert clear >= 8


def test_a_hang_comes_at_its_time() -> None:
    """Before the time of a hang the job works, ten minutes later it is hung."""
    before, after = sides(hang(9000))
    assert before.job_class in (JobClass.COMPUTE, JobClass.COMMUNICATION)
    assert after.job_class is JobClass.HUNG


@pytest.mark.parametrize("overlap", [True, False])
def test_a_wait_belongs_to_what_made_the_card_late(overlap: bool) -> None:
    """A rank that loses time on its host before its pass makes the others wait for a host, even while it computes."""
    plan = Training(
        work.BERT_LARGE, "ddp", micro_batch=1, micro_seconds=0.2, overlap=overlap, slow_rank=1, slow_seconds=0.5
    )
    scenario = Scenario("late", "", NodePlan(slots("rtx5090", 4)), (JobPlan("job", plan, (0, 1, 2, 3)),))
    world = World(scenario, 1, keeps_all=True)
    world.advance(60.0)
    (truth,) = job_truths(world, 20.0, 60.0)
    assert truth.culprit is not None
    assert (truth.culprit.card, truth.culprit.cause) == (1, "host")
    assert (truth.job_class, truth.detail) == (JobClass.HOST, "input")
