"""What the findings carry from tick to tick. All values are immutable and bounded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.analysis.findings.holding import Held
from gpumon.analysis.findings.subject import Saves, Subject, Swap
from gpumon.analysis.strategy import Seen, Told


@dataclass(frozen=True, slots=True)
class JobFindings:
    """One job: what stands, and the newest look."""

    held: Held = field(default_factory=Held)
    told: tuple[Told, ...] = ()  # by the shape, at the last looks
    told_on: frozenset[str] = frozenset()  # the cards it was the shape of; on others it is void
    strategy: Seen = field(default_factory=Seen)
    saves: Saves = field(default_factory=Saves)
    subject: Subject | None = None  # of the newest look
    looked_s: float = -math.inf


@dataclass(frozen=True, slots=True)
class SwapLevels:
    """The host's swap counters at one look, and the rates between it and the look before."""

    read_s: float = math.nan
    in_bytes: float = math.nan
    out_bytes: float = math.nan
    rates: Swap = field(default_factory=Swap)


@dataclass(frozen=True, slots=True)
class FindingsPast:
    """Everything remembered: jobs by gpu_job, and the node."""

    jobs: Mapping[str, JobFindings] = field(default_factory=dict)
    node: Held = field(default_factory=Held)
    node_looked_s: float = -math.inf
    swap: SwapLevels = field(default_factory=SwapLevels)
