"""What the pipeline carries from tick to tick."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon import analysis, jobs, scaling
from gpumon.analysis import AnalysisMemory
from gpumon.model.verdict import Interval
from gpumon.model.view import NodeView
from gpumon.pipeline.cards import CardCounters
from gpumon.pipeline.ledger import Ledger


@dataclass(frozen=True, slots=True)
class State:
    """Everything known after a tick. `view` is what outputs show; None before the first tick."""

    view: NodeView | None = None
    analysis: AnalysisMemory = field(default_factory=analysis.initial_memory)
    jobs: jobs.Memory = field(default_factory=jobs.initial_memory)
    scaling: scaling.Memory = field(default_factory=scaling.initial_memory)
    cards: Mapping[str, CardCounters] = field(default_factory=dict)  # by uuid
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)  # by gpu_job, running and ended
    intervals: Mapping[str, tuple[Interval, ...]] = field(default_factory=dict)  # by gpu_job
    most_cards: int = 0
    first_s: float = math.nan  # monotonic time of the first tick


def initial_state() -> State:
    """Return the state before the first tick."""
    return State()
