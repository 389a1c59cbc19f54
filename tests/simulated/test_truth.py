"""What the event log calls each second, and by how much a class leads by CONTRACT's order."""

from __future__ import annotations

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.scenario import JobPlan, NodePlan, Scenario, slots
from gpumon.hardware.simulated.training import Training
from gpumon.hardware.simulated.truth import JobTruth, job_truths
from gpumon.hardware.simulated.world import World
from gpumon.model.verdict import JobClass


def truth_of(plan: Training, cards: int) -> JobTruth:
    """Return the truth of the last 40 s of a minute."""
    node = NodePlan(slots("rtx5090", cards))
    scenario = Scenario("told", "", node, (JobPlan("job", plan, tuple(range(cards))),))
    world = World(scenario, 1, keeps_all=True)
    world.advance(60.0)
    (truth,) = job_truths(world, 20.0, 60.0)
    return truth


def test_launches_beside_a_transfer_are_the_hosts() -> None:
    """A pass whose kernels run for a fifth of it waits for its launches, whether gradients move meanwhile or not."""
    plan = Training(work.BERT_LARGE, "ddp", micro_batch=1, micro_seconds=0.2, kernel_share=0.2)
    truth = truth_of(plan, 4)
    assert truth.split["overlap"] > 0.01
    assert truth.split["overlap"] + truth.split["compute"] < 0.25
    assert (truth.job_class, truth.detail) == (JobClass.HOST, "launch")


def test_a_card_and_the_one_it_waits_for_are_no_rivals() -> None:
    """One of two cards is late because of its host, the other waits for it as long: both seconds speak for the host."""
    plan = Training(work.BERT_LARGE, "ddp", micro_batch=1, micro_seconds=0.2, slow_rank=1, slow_seconds=1.0)
    truth = truth_of(plan, 2)
    assert abs(truth.split["host_wait"] - truth.split["peer_wait"]) < 0.1
    assert truth.job_class is JobClass.HOST
    assert truth.margin > 0.15
