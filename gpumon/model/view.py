"""The state of the node as every output shows it: page, metrics, top, report. Made by the pipeline once a tick.

One immutable object; outputs hold a reference and never ask the hardware. Counters are cumulative since the card or
job was first seen by this process and never fall. NaN means missing: no series, "null" in JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.model.card import Card
from gpumon.model.job import Job
from gpumon.model.samples import CardTick, SamplerStats
from gpumon.model.topology import NodeFacts, Topology
from gpumon.model.verdict import Finding, Verdict


@dataclass(frozen=True, slots=True)
class DirectionView:
    """One direction (rx or tx, from the card's side) of one link."""

    bytes_per_second: float = math.nan  # mean of the observed part of the last 15 s
    half_width_bytes_per_second: float = math.nan  # 95 % interval of that mean
    peak_bytes_per_second: float = math.nan  # highest slot in 60 s
    observed_ratio: float = math.nan  # of the last 15 s
    saturation_ratio: float = math.nan  # mean over attainable, 15 s
    bytes_total: float = math.nan  # by full-coverage counters only
    observed_bytes_total: float = 0.0
    observed_seconds_total: float = 0.0
    saturated_seconds_total: float = 0.0


@dataclass(frozen=True, slots=True)
class LinkView:
    """A card's PCIe link or its NVLinks together. Capacities are of one direction."""

    rx: DirectionView = field(default_factory=DirectionView)
    tx: DirectionView = field(default_factory=DirectionView)
    ceiling_bytes_per_second: float = math.nan
    attainable_bytes_per_second: float = math.nan
    ceiling_assumed: bool = True  # no load seen yet: maximum generation assumed
    attainable_learned: bool = False
    narrowest_hop: str = ""  # address of the hop that sets the ceiling
    downtrained: bool | None = None  # None: not judged yet


@dataclass(frozen=True, slots=True)
class UplinkView:
    """A shared bridge link. rx is towards the cards."""

    address: str
    uuids: tuple[str, ...]
    ceiling_bytes_per_second: float
    attainable_bytes_per_second: float
    rx_saturation_ratio: float = math.nan
    tx_saturation_ratio: float = math.nan


@dataclass(frozen=True, slots=True)
class CardView:
    """One card now. `tick` carries the readings; the counters here survive driver reloads."""

    card: Card
    tick: CardTick
    pcie: LinkView = field(default_factory=LinkView)
    nvlink: LinkView | None = None
    busy_seconds_total: float = math.nan
    counters: Mapping[str, float] = field(default_factory=dict)  # by READINGS key of kind counter, monotone
    throttle_seconds_total: Mapping[str, float] = field(default_factory=dict)  # by reason
    xids: Mapping[int, tuple[int, float]] = field(default_factory=dict)  # xid -> (count, wall time of the last)


@dataclass(frozen=True, slots=True)
class JobView:
    """One job now, or ended less than 5 minutes ago (then only counters and job_info are shown)."""

    job: Job
    verdict: Verdict
    ended_s: float = math.nan  # monotonic; NaN while it runs
    gpus_lost: int = 0
    utilization_ratio: float = math.nan
    power_watts: float = math.nan
    memory_bytes: float = math.nan
    energy_joules_total: float = math.nan
    link_saturation: Mapping[str, float] = field(default_factory=dict)  # pcie, nvlink, uplink
    class_seconds_total: Mapping[str, float] = field(default_factory=dict)
    time_seconds_total: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeView:
    """Everything an output may show, at one tick."""

    seq: int
    mono_s: float
    wall_s: float
    nvml_up: bool
    nvml_fault: str  # Fault value, "released", or ""
    node: NodeFacts
    topology: Topology
    cards: tuple[CardView, ...]
    uplinks: tuple[UplinkView, ...]
    jobs: tuple[JobView, ...]
    findings: tuple[Finding, ...]  # of the node, for the operator
    gpus_expected: int
    sampler: SamplerStats
    analysis_seconds: float = math.nan  # CPU of the last step, filled in by the app
