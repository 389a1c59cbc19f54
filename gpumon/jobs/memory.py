"""What attribution carries from tick to tick. Immutable: the same memory and tick give the same jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.jobs.facts import Facts, Key, Scope
from gpumon.jobs.launch import Launch
from gpumon.jobs.occupancy import Occupancy
from gpumon.jobs.roster import Roster
from gpumon.model.job import Job


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything known of processes and launches that still matter."""

    facts: Mapping[Key, Facts] = field(default_factory=dict)
    launches: Mapping[str, Launch] = field(default_factory=dict)  # by gpu_job
    last_gpu_s: Mapping[str, float] = field(default_factory=dict)  # gpu_job -> when it last had a GPU process
    launch_of: Mapping[Key, str] = field(default_factory=dict)  # GPU process -> gpu_job
    waiting: Mapping[Key, float] = field(default_factory=dict)  # GPU process -> since when its container has no name
    births: Mapping[Scope, tuple[float, ...]] = field(default_factory=dict)  # when launches of a place appeared
    occupancy: Occupancy = field(default_factory=Occupancy)
    busy_alone: Mapping[str, float] = field(default_factory=dict)  # uuid -> since when it works for nobody
    worked: Mapping[str, float] = field(default_factory=dict)  # uuid of a log -> when it last had a row
    shown: Mapping[int, Facts] = field(default_factory=dict)  # by pid, of processes that procfs showed
    roster: Roster = field(default_factory=Roster)
    jobs: tuple[Job, ...] = ()
    inputs: tuple[object, ...] = ()  # the objects `jobs` was made of, compared by identity
    settled: bool = True  # nothing is left to read or judge
    deferred: bool = False  # the tick before was spent on reading alone


def initial_memory() -> Memory:
    """Return the memory of an attribution that has seen nothing."""
    return Memory()
