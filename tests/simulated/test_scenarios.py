"""Every named scenario gives, by its event log, the verdict written beside it, and gives it clearly."""

from __future__ import annotations

from functools import lru_cache

import pytest

from gpumon.hardware.simulated.scenarios import SCENARIOS
from gpumon.hardware.simulated.truth import JobTruth, job_truths
from gpumon.hardware.simulated.world import World
from gpumon.model.verdict import DETAILS, JobClass

# A scenario is clear when the winning share leads by this much.
CLEAR = 0.15


@lru_cache
def _truths(name: str) -> tuple[JobTruth, ...]:
    scenario = SCENARIOS[name].scenario
    begin, end = (25.0, 45.0)
    if "hung" in name:
        begin, end = (350.0, 400.0)
    elif any(word in name for word in ("checkpoint", "lulls", "evaluation", "resume", "heat")):
        begin, end = (30.0, 110.0)
    world = World(scenario, 0, keeps_all=True)
    world.advance(end)
    return job_truths(world, begin, end)


def test_enough_scenarios() -> None:
    """At least 40 scenarios over the node kinds that are rented."""
    assert len(SCENARIOS) >= 40
    assert all(name == named.scenario.name for name, named in SCENARIOS.items())
    assert all(len(named.about) > 20 for named in SCENARIOS.values())


@pytest.mark.parametrize("name", SCENARIOS)
def test_verdict_of_the_event_log(name: str) -> None:
    """The written verdict is the event log's, with a clear lead."""
    first = next(iter(_truths(name))) if name != "rtx5090-x4-resume" else _truths(name)[-1]
    said = first.job_class.value + (f"/{first.detail}" if first.detail else "")
    assert said == SCENARIOS[name].verdict
    assert first.margin >= CLEAR
    assert first.detail in ("", *DETAILS.get(first.job_class, ()))


@pytest.mark.parametrize(
    ("name", "card", "cause"),
    [
        ("rtx5090-x8-straggler-power", 5, "power"),
        ("rtx5090-x8-straggler-heat", 3, "thermal"),
        ("rtx5090-x8-straggler-host", 2, "host"),
        ("rtx4090-x8-straggler-link", 6, "link"),
        ("rtx4090-x4-bad-riser", 1, "link"),
        ("rtx5090-x4-two-jobs-one-card", 3, "neighbour"),
        ("h100-sxm-x8-checkpoint", 0, "host"),
    ],
)
def test_culprit(name: str, card: int, cause: str) -> None:
    """The card the others wait for is named with its cause."""
    culprit = _truths(name)[0].culprit
    assert culprit is not None
    assert (culprit.card, culprit.cause) == (card, cause)
    assert culprit.cost_ratio >= 0.08


def test_healthy_jobs_have_no_culprit() -> None:
    """Where cards only differ as cards do, nobody is blamed."""
    for name in ("rtx5090-x8-ddp-overlapped", "rtx5090-x8-compute", "a100-sxm-x8-fsdp", "rtx5090-x8-fsdp"):
        truth = _truths(name)[0]
        assert truth.culprit is None
        assert max(truth.costs.values()) < 0.08


def test_class_of_the_card_waited_for() -> None:
    """While rank 0 saves, the job's class is host although most card time is waiting in collectives."""
    truth = _truths("rtx5090-x8-checkpoint")[0]
    assert truth.split["peer_wait"] > truth.split["host_wait"]
    assert truth.job_class is JobClass.HOST
