"""What the analysis carries from tick to tick, and what it gives back. All values are immutable and bounded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.analysis.activity import Levels
from gpumon.analysis.capacity import Capacity
from gpumon.analysis.case import Case
from gpumon.analysis.changes import Marks
from gpumon.analysis.cycles import Cycle
from gpumon.analysis.evidence import CardEvidence
from gpumon.analysis.findings.past import FindingsPast
from gpumon.analysis.host import HostPast
from gpumon.analysis.hysteresis import Standing
from gpumon.analysis.links import LinkPast
from gpumon.analysis.period import PeriodPast
from gpumon.analysis.stillness import Stillness
from gpumon.analysis.throttling import ThrottlePast
from gpumon.analysis.waiting import Waiting
from gpumon.analysis.windows import CardWindows
from gpumon.model.topology import Topology
from gpumon.model.verdict import Finding, Verdict
from gpumon.model.view import LinkView, UplinkView


@dataclass(frozen=True, slots=True)
class CardMemory:
    """One card's past, by UUID. Survives its jobs."""

    windows: CardWindows = field(default_factory=CardWindows)
    capacity: Capacity = field(default_factory=Capacity)
    pcie: LinkPast = field(default_factory=LinkPast)
    nvlink: LinkPast = field(default_factory=LinkPast)
    levels: Levels = field(default_factory=Levels)
    throttle: ThrottlePast = field(default_factory=ThrottlePast)
    last_mean: float = math.nan  # traffic of the newest tick, busier direction, bytes per second
    up: bool = False
    busy: bool = False
    last_seen_s: float = math.nan


@dataclass(frozen=True, slots=True)
class JobMemory:
    """One job's past."""

    marks: Marks = field(default_factory=Marks)
    host: HostPast = field(default_factory=HostPast)
    looks: Mapping[str, CardEvidence] = field(default_factory=dict)  # by uuid: the newest evidence of each card
    period: PeriodPast = field(default_factory=PeriodPast)
    still: Stillness = field(default_factory=Stillness)
    waiting: Waiting = field(default_factory=Waiting)  # of the last judgement
    waited_s: float = -math.inf  # when a card was last seen to be waited for
    standing: Standing = field(default_factory=Standing)
    cycle: Cycle = field(default_factory=Cycle)
    verdict: Verdict = field(default_factory=Verdict)
    case: Case | None = None  # of the newest judgement


@dataclass(frozen=True, slots=True)
class AnalysisMemory:
    """Everything the analysis remembers."""

    cards: Mapping[str, CardMemory] = field(default_factory=dict)  # by uuid
    jobs: Mapping[str, JobMemory] = field(default_factory=dict)  # by gpu_job
    uplinks: Mapping[str, Capacity] = field(default_factory=dict)  # by bridge address
    topology: Topology = field(default_factory=Topology)
    findings: FindingsPast = field(default_factory=FindingsPast)


@dataclass(frozen=True, slots=True)
class Analysis:
    """What one tick was found to mean."""

    pcie: Mapping[str, LinkView] = field(default_factory=dict)  # by uuid
    nvlink: Mapping[str, LinkView] = field(default_factory=dict)  # by uuid; only cards that have it
    uplinks: tuple[UplinkView, ...] = ()
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)  # by gpu_job
    link_saturation: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by gpu_job, then link
    findings: tuple[Finding, ...] = ()  # of the node, for the operator
