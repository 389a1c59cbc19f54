"""What a detector may look at: one job over its window, its cards, its processes, and the node around it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from gpumon.analysis.evidence import CardEvidence
from gpumon.analysis.strategy import Seen
from gpumon.analysis.time_split import Split
from gpumon.analysis.waiting import Waiting
from gpumon.model.card import Card
from gpumon.model.job import Job, Layout
from gpumon.model.process import HostSample, Process
from gpumon.model.topology import CardPath, P2p, Topology, Uplink
from gpumon.model.verdict import Verdict

# Programs that take a fixed share of the card's memory at start: what they hold says nothing about what they need.
POOLS = frozenset({"vllm", "sglang", "tgi", "tensorrt-llm"})
SERVERS = POOLS | {"llama.cpp"}


@dataclass(frozen=True, slots=True)
class CardFacts:
    """One of the job's cards: what it is and what was seen of it over the window."""

    card: Card
    seen: CardEvidence
    memory_total: float = math.nan  # bytes
    downtrained: bool | None = None  # its link, width or generation; None: not judged yet
    link: tuple[int, int, int, int] = (0, 0, 0, 0)  # generation, its maximum, lanes, their maximum; 0 unknown
    path: CardPath | None = None
    numa_nodes: frozenset[int] = frozenset()  # of the CPUs its process of the job may run on; empty: unknown

    @property
    def gpu(self) -> int:
        """The number people call it by."""
        return self.card.identity.index

    @property
    def memory_share(self) -> float:
        """Device memory in use, of all that it has; NaN when unknown."""
        return self.seen.memory_used / self.memory_total if self.memory_total > 0.0 else math.nan


@dataclass(frozen=True, slots=True)
class Swap:
    """Swap traffic of the host over the time since the last look, bytes per second; NaN where not readable."""

    in_bytes_per_second: float = math.nan
    out_bytes_per_second: float = math.nan


@dataclass(frozen=True, slots=True)
class Saves:
    """The looks of the last minutes: at which of them did one process hold all cards while it saved?"""

    looks: tuple[bool, ...] = ()  # oldest first
    gpu: int = -1  # whose process it was the last time

    @property
    def share(self) -> float:
        """How many of the looks."""
        return sum(self.looks) / len(self.looks) if self.looks else 0.0

    @property
    def times(self) -> int:
        """How often it began."""
        return sum(now and not before for before, now in pairwise((False, *self.looks)))


@dataclass(frozen=True, slots=True)
class Subject:
    """One job as the detectors see it."""

    job: Job
    verdict: Verdict
    strategy: Seen
    cards: tuple[CardFacts, ...]  # with a process of the job, and answering
    given: tuple[str, ...] = ()  # uuids the job holds and has no process on
    split: Split | None = None
    waiting: Waiting = field(default_factory=Waiting)
    step_s: float = math.nan
    seconds: float = 0.0  # length of the window
    host: Mapping[str, float] = field(default_factory=dict)  # means of analysis.host.HostRates by name; NaN unknown
    processes: tuple[Process, ...] = ()  # those on the cards
    relatives: tuple[Process, ...] = ()
    topology: Topology = field(default_factory=Topology)
    host_sample: HostSample = field(default_factory=HostSample)
    swap: Swap = field(default_factory=Swap)
    quota_cpus: float = math.nan  # CPUs its control group allows it; NaN: no quota, or unknown
    neighbours: tuple[Job, ...] = ()  # other jobs with processes on its cards
    tenants_known: bool = False  # the configuration names tenants
    saves: Saves = field(default_factory=Saves)
    age_s: float = math.inf  # since its processes started, or since it was first seen where that is not known
    seen_from_start: bool = False  # gpumon was there when it began
    stuck_s: float = math.nan  # how long all its processes on cards have been dead or unkillable; NaN: they are not

    @property
    def layout(self) -> Layout:
        """How it was asked to run."""
        return self.job.layout

    @property
    def size(self) -> int:
        """How many cards it works on."""
        return len(self.cards)

    @property
    def serving(self) -> bool:
        """True where the program is known to be a server of requests."""
        return self.layout.framework in SERVERS

    @property
    def uuids(self) -> frozenset[str]:
        """Its cards' names."""
        return frozenset(facts.seen.uuid for facts in self.cards)

    @property
    def pairs(self) -> tuple[P2p, ...]:
        """What the driver says about each pair of its cards."""
        mine = self.uuids
        return tuple(pair for pair in self.topology.p2p if pair.uuid in mine and pair.peer_uuid in mine)

    @property
    def nvlink(self) -> bool:
        """True where every one of its cards has working NVLink."""
        return self.size > 0 and all(facts.card.nvlink.active > 0 for facts in self.cards)

    def rate(self, name: str) -> float:
        """Return the mean of one host rate over the window; NaN where not readable."""
        return self.host.get(name, math.nan)

    def share(self, *states: str) -> tuple[float, float]:
        """Return the range of the time spent in these states together: what the split's interval leaves open."""
        if self.split is None:
            return math.nan, math.nan
        return self.split.between(states, 1 / 8)

    def mean_share(self, *states: str) -> float:
        """Return the middle of that range."""
        return math.nan if self.split is None else sum(self.split.mean(state) for state in states)


@dataclass(frozen=True, slots=True)
class NodeSubject:
    """The node as the operator's detectors see it."""

    jobs: tuple[Subject, ...]
    topology: Topology = field(default_factory=Topology)
    virtualization: str = ""
    uplinks: tuple[tuple[Uplink, float], ...] = ()  # and its saturation, the fuller direction
    tenants: Mapping[str, frozenset[str]] = field(default_factory=dict)  # uuid -> tenants with a job on it
