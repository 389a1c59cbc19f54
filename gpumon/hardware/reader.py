"""The seam between sampling and the hardware: what a node and a card must be able to answer.

Two implementations: `hardware.nvml` over the real bindings (with procfs and sysfs beside it), and
`hardware.simulated`. Calls return values or a Fault and never raise for expected absence. A reader stamps with the
clock it was given; each CardReader is used by one thread only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpumon.model.card import Card
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.process import HostSample, ProcessTable
from gpumon.model.samples import GpuProcess, Series
from gpumon.model.topology import NodeFacts, Topology

# A card's memory that moves by more says that a process came or went: a CUDA context alone takes more than 100 MiB, the
# driver's own bookkeeping moves by a few.
CONTEXT_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class CounterSample:
    """Raw byte counters and the power read in the same call. Source: nvmlDeviceGetFieldValues."""

    mono_s: float  # when the counters were sampled
    rx: int | None  # raw counter modulo 2**bits (Capabilities.counter_bits); None when this read failed
    tx: int | None
    power_watts: float  # field 186, NaN when absent
    nvlink_rx_bytes: float = float("nan")  # cumulative, all links
    nvlink_tx_bytes: float = float("nan")


@dataclass(frozen=True, slots=True)
class WindowSample:
    """One 20 ms window of one direction. Source: nvmlDeviceGetPcieThroughput."""

    t0_s: float  # the window is the last `seconds` before the call came back
    t1_s: float
    bytes_per_second: float
    power_watts: float  # field 186 read right after the window; NaN when absent, or where the power ring tells more


@dataclass(frozen=True, slots=True)
class Rings:
    """What the driver's sample rings held since the last drain, on the monotonic clock."""

    power: Series = field(default_factory=Series)
    utilization: Series = field(default_factory=Series)
    memory_controller: Series = field(default_factory=Series)
    sm_clock: Series = field(default_factory=Series)


@dataclass(frozen=True, slots=True)
class GpmSample:
    """Means between the previous GPM sample and this one. NaN for a metric the card does not fill."""

    t0_s: float
    t1_s: float
    pcie_rx_bytes: float
    pcie_tx_bytes: float
    nvlink_rx_bytes: float
    nvlink_tx_bytes: float
    readings: Mapping[str, float] = field(default_factory=dict)  # sm_active_ratio, ...


@dataclass(frozen=True, slots=True)
class SlowSample:
    """Scalars read once a second or more rarely. Keys: model/fields.py."""

    readings: Mapping[str, float]
    faults: Mapping[str, Fault]
    throttle_reasons: frozenset[str] = frozenset()
    mig_memory_used_bytes: Mapping[str, float] = field(default_factory=dict)


class CardReader(Protocol):
    """One card's readings. May block only in `window`."""

    @property
    def card(self) -> Card:
        """The card as probed."""
        ...

    def counters(self) -> CounterSample | Fault:
        """Read byte counters, instantaneous power and memory-controller activity: about 0.3 ms."""
        ...

    def window(self, direction: str) -> WindowSample | Fault:
        """Watch one direction ("rx" or "tx") for 20 ms. Blocks for that time, longer if calls queue."""
        ...

    def gpm(self) -> GpmSample | Fault:
        """Take a GPM sample. More than 100 ms after the previous one; NO_DATA the first time."""
        ...

    def rings(self) -> Rings | Fault:
        """Drain the power, utilization, memory and clock rings since the last drain."""
        ...

    def quick(self) -> SlowSample | Fault:
        """Read what changes within a second: clocks, throttle reasons, utilization, memory, power, link state."""
        ...

    def rare(self) -> SlowSample | Fault:
        """Read what seldom changes: limits, maxima, ECC, remapped rows, error counters. Every 10 s or more rarely."""
        ...

    def processes(self) -> tuple[GpuProcess, ...] | Fault:
        """List compute, graphics and MPS processes, merged by pid: about 4.5 ms under a driver lock."""
        ...


@dataclass(frozen=True, slots=True)
class XidEvent:
    """An Xid as the driver's event call delivers it."""

    mono_s: float
    uuid: str
    code: int


class NodeReader(Protocol):
    """The driver as a whole. `open` and `close` may be called in turn any number of times."""

    def open(self) -> Sequence[Card] | Fault:
        """Initialise the driver interface and probe every card. Cards that cannot be used carry their fault."""
        ...

    def card_reader(self, card: Card, clock: Clock) -> CardReader:
        """Return a reader for one probed card, for use by one thread with its own clock."""
        ...

    def close(self) -> None:
        """Shut the interface down; no device file stays open. Only after every poller was drained."""
        ...

    def xid_events(self, timeout_s: float) -> Sequence[XidEvent] | Fault:
        """Wait for Xid events up to timeout_s. In a thread of its own."""
        ...

    def facts(self) -> NodeFacts:
        """Where gpumon stands; readable without a driver."""
        ...

    def topology(self, cards: Sequence[Card]) -> Topology:
        """Read the PCI tree and the driver's word on peer access."""
        ...

    def links(self, topology: Topology) -> Topology:
        """Read the links above the cards' own again, without a driver call; the same object when nothing changed."""
        ...

    def reconfigured(self) -> bool:
        """Return whether a board was cut into other slices than it was probed with."""
        ...

    def errors(self) -> Mapping[str, int]:
        """Failed calls so far by Fault value; an unsupported call counts once per card and feature."""
        ...

    def rejected(self) -> Mapping[str, int]:
        """Readings thrown away so far by reason."""
        ...

    def driver_seconds(self) -> float:
        """Time spent inside driver calls so far, less the sleep of window calls."""
        ...

    def driver_held_seconds(self) -> float:
        """The same without waiting for a processor or a lock: what the driver itself needed."""
        ...


class HostReader(Protocol):
    """Processes and host load. Touches procfs and cgroupfs only."""

    def processes(self, gpu_pids: frozenset[int], mono_s: float) -> ProcessTable:
        """Read the GPU processes, their ancestors and children. Vanished ones are skipped."""
        ...

    def host(self, uuids_by_address: Mapping[str, str]) -> HostSample:
        """Read the host's cumulative counters, and AER counters of the given PCI addresses."""
        ...
