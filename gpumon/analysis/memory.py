"""What the analysis carries from tick to tick, and what it gives back. All values are immutable and bounded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.analysis.capacity import Capacity
from gpumon.analysis.links import LinkTotals
from gpumon.analysis.windows import CardWindows
from gpumon.model.topology import Topology
from gpumon.model.verdict import Finding, Verdict
from gpumon.model.view import LinkView, UplinkView


@dataclass(frozen=True, slots=True)
class CardMemory:
    """One card's past, by UUID. Survives its jobs."""

    windows: CardWindows = field(default_factory=CardWindows)
    capacity: Capacity = field(default_factory=Capacity)
    pcie_totals: LinkTotals = field(default_factory=LinkTotals)
    nvlink_totals: LinkTotals = field(default_factory=LinkTotals)
    last_seen_s: float = math.nan


@dataclass(frozen=True, slots=True)
class AnalysisMemory:
    """Everything the analysis remembers."""

    cards: Mapping[str, CardMemory] = field(default_factory=dict)  # by uuid
    uplinks: Mapping[str, Capacity] = field(default_factory=dict)  # by bridge address
    topology: Topology = field(default_factory=Topology)


@dataclass(frozen=True, slots=True)
class Analysis:
    """What one tick was found to mean."""

    pcie: Mapping[str, LinkView] = field(default_factory=dict)  # by uuid
    nvlink: Mapping[str, LinkView] = field(default_factory=dict)  # by uuid; only cards that have it
    uplinks: tuple[UplinkView, ...] = ()
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)  # by gpu_job
    link_saturation: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by gpu_job, then link
    findings: tuple[Finding, ...] = ()  # of the node, for the operator
