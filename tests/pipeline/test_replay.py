"""A replay gives the verdicts that were given live: classes, details, findings, intervals, confidence, bit for bit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.model.samples import Tick
from gpumon.model.settings import Settings
from gpumon.pipeline import initial_state, step
from gpumon.pipeline.state import State
from gpumon.recording import Writer, read
from gpumon.sampling import simulated_time

SETTINGS = Settings()


def judged(ticks: Iterable[Tick]) -> tuple[list[tuple[object, ...]], State]:
    """Return what was said of each job at each tick, and the last state."""
    state = initial_state()
    said: list[tuple[object, ...]] = []
    for tick in ticks:
        state = step(state, tick, SETTINGS)
        assert state.view is not None
        for job in state.view.jobs:
            verdict = job.verdict
            names = tuple(finding.finding for finding in verdict.findings)
            said.append((tick.seq, job.job.gpu_job, verdict.job_class, verdict.detail, verdict.confidence, names))
    return said, state


SCENARIOS = (
    "rtx5090-x8-ddp-bound",
    "h100-sxm-x8-checkpoint",
    "mixed-node",
    "rtx4090-x4-vm",
    "rtx5090-x4-card-lost",
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_replay_equals_live(tmp_path: Path, scenario: str) -> None:
    """Ninety seconds recorded and replayed: the same judgement at every tick, the same intervals."""
    node = SimulatedNode(scenario)
    writer = Writer(tmp_path / "r")
    live, last = judged(writer.write(tick) for tick in simulated_time.ticks(node, node, SETTINGS.sampling, 90.0))
    writer.close()
    replayed, last_replayed = judged(read([tmp_path / "r"], pytest.fail))
    assert replayed == live
    assert last_replayed.intervals == last.intervals
