"""One second of a node as it was read: the tick, and the sub-second samples in it.

Everything above `sampling` works on ticks alone, so a recording replays to the same verdict. Units are base units,
converted once in `hardware`. All times are monotonic seconds of the run's clock. Arrays are float64, one-dimensional,
oldest first, and never written to after they were made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpumon.model.card import Card, LinkSource, PowerKind
from gpumon.model.fault import Fault
from gpumon.model.fields import READINGS_BY_KEY
from gpumon.model.process import HostSample, ProcessTable
from gpumon.model.report import Report
from gpumon.model.topology import NodeFacts, Topology

Floats: TypeAlias = npt.NDArray[np.float64]

_EMPTY: Floats = np.empty(0)
_EMPTY.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one quantity since the last tick. `t_s` and `value` have shape (n,); n may be 0."""

    t_s: Floats = field(default_factory=lambda: _EMPTY)
    value: Floats = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True)
class LinkSlots:
    """What was seen of one card's link since the last tick, from the card's side.

    Each slot says: between t0_s and t1_s these bytes crossed. Time between slots was not seen. All shape (n,).
    A direction that was not looked at in a slot is NaN there (the window call sees one direction at a time).
    """

    t0_s: Floats = field(default_factory=lambda: _EMPTY)
    t1_s: Floats = field(default_factory=lambda: _EMPTY)
    rx_bytes: Floats = field(default_factory=lambda: _EMPTY)
    tx_bytes: Floats = field(default_factory=lambda: _EMPTY)
    # Instantaneous power (field 186) read in the same breath as the slot's end: the witness of "does the work stop
    # while the link is busy". NaN where not read; the power ring is asked then.
    power_watts: Floats = field(default_factory=lambda: _EMPTY)
    source: LinkSource = LinkSource.NONE


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process as the driver lists it on one card."""

    pid: int  # host pid, or of gpumon's own namespace where the driver translates
    kind: str  # compute, graphics, mps
    used_memory_bytes: float  # NaN when the driver does not tell
    mig_uuid: str = ""
    sm_ratio: float = math.nan  # share of sample hits over the last process interval; NaN when unknown


@dataclass(frozen=True, slots=True)
class CardTick:
    """One card in one tick."""

    uuid: str
    up: bool  # the card answered within this tick
    fault: Fault | None  # why not, when up is False
    last_sample_s: float  # monotonic time of the last good answer; NaN before the first
    pcie: LinkSlots = field(default_factory=LinkSlots)
    nvlink: LinkSlots = field(default_factory=LinkSlots)
    power: Series = field(default_factory=Series)
    power_kind: PowerKind = PowerKind.NONE
    utilization: Series = field(default_factory=Series)  # ratio; "a kernel ran"
    memory_controller: Series = field(default_factory=Series)  # ratio of time the memory was read or written
    sm_clock: Series = field(default_factory=Series)  # hertz
    # Keys and units: model/fields.py. A key that is absent was not read; `faults` says why where that is known.
    readings: Mapping[str, float] = field(default_factory=dict)
    faults: Mapping[str, Fault] = field(default_factory=dict)
    throttle_reasons: frozenset[str] = frozenset()  # names of model/fields.py THROTTLE_REASONS now active
    processes: tuple[GpuProcess, ...] | None = None  # newest list; None when it cannot be had
    processes_s: float = math.nan  # when that list was read
    mig_memory_used_bytes: Mapping[str, float] = field(default_factory=dict)  # by mig_uuid

    def reading(self, key: str) -> float:
        """Return the reading, NaN when missing. Raises KeyError for a key the field table does not know."""
        value = self.readings.get(key)
        if value is None:
            READINGS_BY_KEY[key]
            return math.nan
        return value


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once: an Xid, a card lost or back, a driver reload, a process list rejected."""

    mono_s: float
    kind: str  # xid, lost, returned, reinit, driver_gone, driver_back
    uuid: str = ""
    code: int = 0  # Xid number


@dataclass(frozen=True, slots=True)
class SamplerStats:
    """What sampling cost and missed, cumulative since start. Label values are the mapping keys."""

    duration_seconds: Mapping[str, float] = field(default_factory=dict)  # by source, the last run
    samples: Mapping[str, int] = field(default_factory=dict)  # by source
    missed: Mapping[str, int] = field(default_factory=dict)  # by source
    last_sample_s: Mapping[str, float] = field(default_factory=dict)  # by source, monotonic
    nvml_errors: Mapping[str, int] = field(default_factory=dict)  # by Fault value
    rejected: Mapping[str, int] = field(default_factory=dict)  # by reason
    cpu_seconds: float = math.nan  # of the whole process
    driver_seconds: float = 0.0  # time inside NVML calls, less the time window calls sleep


@dataclass(frozen=True, slots=True)
class Tick:
    """The node during the second that ends at mono_s."""

    seq: int
    mono_s: float
    wall_s: float
    nvml_up: bool
    nvml_fault: Fault | None  # why not, when nvml_up is False
    node: NodeFacts  # the same object until it changes
    cards: tuple[Card, ...]  # the same object until re-initialisation; known cards, lost ones included
    topology: Topology  # the same object until it changes
    card_ticks: tuple[CardTick, ...]  # same order as cards
    processes: ProcessTable
    host: HostSample
    events: tuple[Event, ...] = ()
    sampler: SamplerStats = field(default_factory=SamplerStats)
    reports: tuple[Report, ...] = ()  # heard since the last tick; empty unless the configuration asks for them
