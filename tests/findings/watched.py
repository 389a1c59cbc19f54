"""Simulated runs watched through attribution and analysis, as the daemon would, without its outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpumon import analysis, jobs
from gpumon.analysis import Analysis
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.scenario import Scenario
from gpumon.model.job import Job
from gpumon.model.samples import Tick
from gpumon.model.settings import Settings
from gpumon.sampling import simulated_time


@dataclass(frozen=True, slots=True)
class Moment:
    """One second of a run and what it was found to mean."""

    tick: Tick
    jobs: tuple[Job, ...]
    meaning: Analysis

    def told(self) -> set[str]:
        """Return the names of all findings that hold, of jobs and of the node."""
        of_jobs = {one.finding for verdict in self.meaning.verdicts.values() for one in verdict.findings}
        return of_jobs | {one.finding for one in self.meaning.findings}


def watch(
    scenario: str | Scenario, seconds: float, seed: int = 1, settings: Settings | None = None
) -> Iterator[Moment]:
    """Yield every second of a simulated run."""
    chosen = settings or Settings()
    node = SimulatedNode(scenario, seed)
    attributed, judged = jobs.initial_memory(), analysis.initial_memory()
    for tick in simulated_time.ticks(node, node, chosen.sampling, seconds):
        attributed, found = jobs.attribute(attributed, tick, chosen)
        judged, meaning = analysis.analyse(judged, tick, found, chosen)
        yield Moment(tick, found, meaning)
