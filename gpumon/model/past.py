"""What is known from before: runs of workloads, and what sets of cards have carried.

The history file keeps these; the pipeline is handed one immutable `Past` with each tick and never touches a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.model.verdict import TimeSplit

LEAST_WATCHED_S = 45.0  # a run that was watched for less has too few windows for a median, and is compared with none


@dataclass(frozen=True, slots=True)
class Shares:
    """Where a run's time goes, to compare counts of cards: shares of the time it had work, the first four sum to 1."""

    own: float  # each card's own work, computing and memory, what is exchanged meanwhile included
    host: float  # no kernel: lost to the host
    exchange: float  # on the links, nothing hides it
    waiting: float  # for other cards
    hidden: float  # on the links while working: a part of `own`
    memory: float  # bound by the card's memory, as the update of weights is: a part of `own`
    width: float  # half-width of `own`


@dataclass(frozen=True, slots=True)
class HeldFinding:
    """A finding that stood for most of a run, and the speed-up it promised: 1.2 is 20 % faster; None without one."""

    finding: str
    gain: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One job on one set of cards, as far as it was watched. Missing figures are NaN.

    The key is (gpu_job, uuids): a job that loses or gains a card begins another run.
    """

    gpu_job: str
    workload: str  # salted identity; "" unknown
    tenant: str
    uuids: tuple[str, ...]  # cards that worked, sorted
    gpus: tuple[int, ...]  # their indices, for people
    card: str  # product name; "" where the cards differ
    topology: str  # how the cards hang together, see scaling/topology.py
    strategy: str = ""
    begin_wall_s: float = math.nan
    end_wall_s: float = math.nan
    watched_s: float = 0.0  # time it was seen working
    ended: bool = False
    step_s: float = math.nan  # median period
    step_spread: float = math.nan  # half the distance of the quartiles over the median
    throughput: float = math.nan  # as reported, median, in `unit` per second
    throughput_spread: float = math.nan
    unit: str = ""  # samples, tokens, steps; "" nothing was reported
    micro_batch: int = 0  # per card, as asked; 0 unknown
    accumulation: int = 0
    split: TimeSplit | None = None  # mean over the time it could be stated within 0.15
    shares: Shares | None = None  # mean over all of the time
    energy_joules_per_step: float = math.nan
    job_class: str = ""  # the class that held longest
    findings: tuple[HeldFinding, ...] = ()  # those that stood for at least half of it

    @property
    def count(self) -> int:
        """How many cards worked."""
        return len(self.uuids)

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        """What makes it the same run."""
        return self.gpu_job, self.uuids

    @property
    def beginning(self) -> tuple[str, tuple[str, ...], float]:
        """What tells it from a run of the same job on the same cards that was watched before."""
        return self.gpu_job, self.uuids, self.begin_wall_s


@dataclass(frozen=True, slots=True)
class SetRate:
    """The best rate that a set of cards has sustained in a collective: each card, one direction."""

    uuids: tuple[str, ...]  # sorted
    gpus: tuple[int, ...]
    link: str  # pcie, nvlink
    bytes_per_second: float
    wall_s: float  # when it was seen


@dataclass(frozen=True, slots=True)
class Past:
    """Everything remembered that a judgement may use. Bounded by the history's limits."""

    runs: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)  # by workload, newest first
    rates: Mapping[tuple[tuple[str, ...], str], SetRate] = field(default_factory=dict)  # by (uuids, link)
    # Beginnings of runs that were known and are to be forgotten; a job that goes on begins a new one.
    forgotten: frozenset[tuple[str, tuple[str, ...], float]] = frozenset()
    most_cards: int = 0  # that answered at once in the last week; 0 not known


NOTHING = Past()
