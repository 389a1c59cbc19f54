"""Simulated nodes through the real pipeline into the notifications: what a node without any stack tells, and whom."""

from __future__ import annotations

import dataclasses

from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.model.settings import Settings
from gpumon.notify.target import OPERATOR
from gpumon.pipeline import initial_state, step
from gpumon.sampling import simulated_time
from tests.notify.watching import OPERATIONS, Watch

TENANT = dataclasses.replace(OPERATIONS, name="unassigned-1", owner="unassigned")


def watched(scenario: str, seconds: float) -> Watch:
    """Let the notifications watch a scenario."""
    node = SimulatedNode(scenario, 7)
    watch, state, settings = Watch(None, (TENANT, OPERATIONS)), initial_state(), Settings()
    for tick in simulated_time.ticks(node, node, settings.sampling, seconds):
        state = step(state, tick, settings)
        assert state.view is not None
        watch.tick(state.view)
    return watch


def test_lost_card() -> None:
    """A card that falls off the bus is told once to its tenant and once to the operator."""
    watch = watched("rtx5090-x4-card-lost", 270.0)
    assert sorted((owner, message.title) for owner, message in watch.got) == [
        (OPERATOR, "[simulated] GPU 2 on sim-node does not answer any more"),
        ("unassigned", f"[simulated] A card of job {_job(watch)} does not answer any more"),
    ]


def test_full_links() -> None:
    """A job that waits for its links is told once, with what to do about it."""
    watch = watched("rtx4090-x2-ddp-bound", 1000.0)
    ((owner, message),) = watch.got
    assert owner == "unassigned" and message.status == "firing"
    assert "What to do:" in message.text and "The job has 2 cards." in message.text


def _job(watch: Watch) -> str:
    return next(message.title.split()[5] for owner, message in watch.got if owner == "unassigned")
