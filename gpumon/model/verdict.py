"""What analysis says of a job: class, detail, time split, evidence, findings."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum


class JobClass(str, Enum):
    """What holds the job back. Order is CONTRACT's; values are the label `class`."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    MEMORY = "memory"
    HOST = "host"
    THROTTLED = "throttled"
    IDLE = "idle"
    HUNG = "hung"
    UNKNOWN = "unknown"


DETAILS: dict[JobClass, tuple[str, ...]] = {
    JobClass.COMMUNICATION: ("bandwidth", "uplink", "latency", "host_path", "straggler", "pipeline_bubble"),
    JobClass.HOST: ("input", "checkpoint", "offload", "launch"),
    JobClass.THROTTLED: ("power", "thermal", "brake"),
}

TIME_STATES = ("compute", "communication", "overlap", "memory", "host_wait", "peer_wait", "idle")


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Shares of the window, mean over the job's cards; they sum to 1. `uncertainty` is the half-width of each."""

    compute: float
    communication: float
    overlap: float
    memory: float
    host_wait: float
    peer_wait: float
    idle: float
    uncertainty: float


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the closed catalogue that holds for a job (or for the node, when the audience is the operator)."""

    finding: str
    severity: str  # info, warning, critical
    audience: str  # customer, operator
    title: str
    evidence: tuple[str, ...]
    advice: str
    title_zh: str = ""
    advice_zh: str = ""
    gain: tuple[float, float] | None = None  # expected speed-up range, 1.2 = 20 % faster


@dataclass(frozen=True, slots=True)
class Straggler:
    """A card the others wait for."""

    uuid: str
    gpu: int
    cause: str  # host, link, thermal, power, clock, neighbour, unknown
    cost_ratio: float  # share of the job's time lost to it


@dataclass(frozen=True, slots=True)
class Scaling:
    """Was the last card worth it."""

    efficiency: float
    evidence: str  # reported, period, model
    recommended_gpus: int
    recommended_set: tuple[int, ...]
    slowdown: bool
    uncertainty: float = math.nan  # half-width of the efficiency
    reasons: tuple[str, ...] = ()  # sentences with numbers, strongest first


@dataclass(frozen=True, slots=True)
class Outcome:
    """Findings of the workload's run before are gone: what that was to bring, and what it brought. 1.2: 20 % faster."""

    findings: tuple[str, ...]
    expected: tuple[float, float]
    seen: float
    uncertainty: float  # half-width of what was seen
    evidence: str  # reported, period
    before_wall_s: float  # when the run before was last seen

    @property
    def result(self) -> str:
        """Return "as expected", "less than expected" or "more than expected", within what is left open."""
        if self.seen + self.uncertainty < self.expected[0]:
            return "less than expected"
        return "more than expected" if self.seen - self.uncertainty > self.expected[1] else "as expected"


@dataclass(frozen=True, slots=True)
class Phase:
    """What a job that goes to and fro is just now: in a save it waits for its host, whatever its steps are."""

    job_class: JobClass
    detail: str
    since_s: float  # monotonic time at which this class began
    stragglers: tuple[Straggler, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one job at one tick."""

    job_class: JobClass = JobClass.UNKNOWN
    detail: str = ""
    confidence: float = 0.0
    since_s: float = math.nan  # monotonic time at which this class began
    time_split: TimeSplit | None = None
    step_seconds: float = math.nan
    strategy: str = ""  # what is seen; "" unknown
    stragglers: tuple[Straggler, ...] = ()
    evidence: tuple[str, ...] = ()  # sentences with numbers and units, strongest first
    against: str = ""  # what would prove it wrong
    findings: tuple[Finding, ...] = ()
    scaling: Scaling | None = None
    outcome: Outcome | None = None  # of what was changed since the run before
    advice: str = ""
    advice_zh: str = ""
    window_s: float = math.nan  # length of the evidence looked at
    phase: Phase | None = None  # where the class is that of a cycle


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of one class in a report. Seconds from the first sample."""

    t0: float
    t1: float
    job_class: JobClass
    detail: str
    stragglers: tuple[int, ...] = field(default=())
