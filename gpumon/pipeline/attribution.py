"""Where the pipeline asks who runs."""

from __future__ import annotations

import importlib
from typing import Any, TypeAlias

from gpumon.model.job import Job, JobCard, JobKind
from gpumon.model.samples import Tick
from gpumon.model.settings import Settings

JobsMemory: TypeAlias = Any


def initial_jobs_memory() -> JobsMemory:
    """Return the memory of an attribution that has seen nothing."""
    try:
        return importlib.import_module("gpumon.jobs").initial_memory()
    except (ModuleNotFoundError, AttributeError):
        return None


def attribute(memory: JobsMemory, tick: Tick, settings: Settings) -> tuple[JobsMemory, tuple[Job, ...]]:
    """Return who runs: the jobs of this tick."""
    if memory is not None:
        found: tuple[JobsMemory, tuple[Job, ...]] = importlib.import_module("gpumon.jobs").attribute(
            memory, tick, settings
        )
        return found
    cards = tuple(
        JobCard(card.uuid, memory_bytes=sum(p.used_memory_bytes for p in card.processes or ()))
        for card in tick.card_ticks
        if card.processes or card.processes is None
    )
    if not cards:
        return None, ()
    return None, (Job("unattributed:node", JobKind.UNATTRIBUTED, "unassigned", cards, ()),)
