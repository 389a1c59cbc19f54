"""Readers that answer from a script: known traffic, known work, calls that fail, block or hang when told to."""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpumon.hardware.reader import CounterSample, GpmSample, Rings, SlowSample, WindowSample, XidEvent
from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, NvLinkFacts, PowerKind
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.process import HostSample, ProcessTable
from gpumon.model.samples import GpuProcess
from gpumon.model.topology import CardPath, LinkHop, NodeFacts, Topology

LANE = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9}  # bytes per second and direction
TRAINING = (GpuProcess(pid=4242, kind="compute", used_memory_bytes=2e10),)


class Bursts:
    """Traffic of one direction: bursts at one rate, pauses between, for as long as asked.

    Lengths vary by `jitter` so that no run is exactly periodic unless wanted; the phase is the seed's.
    """

    def __init__(self, rate: float, burst_s: float, duty: float, seconds: float, *, jitter: float, seed: int) -> None:
        draw = random.Random(seed)
        pause_s = burst_s * (1.0 - duty) / duty
        self._edges = [-draw.random() * (burst_s + pause_s)]
        self._sums = [0.0]
        self._rates: list[float] = []
        while self._edges[-1] < seconds:
            for mean_s, value in ((pause_s, 0.0), (burst_s, rate)):
                length_s = mean_s * (1.0 + jitter * (2.0 * draw.random() - 1.0))
                self._rates.append(value)
                self._edges.append(self._edges[-1] + length_s)
                self._sums.append(self._sums[-1] + length_s * value)
        self._origin = self._since_start(0.0)

    def _since_start(self, t_s: float) -> float:
        at = min(max(bisect.bisect_right(self._edges, t_s) - 1, 0), len(self._rates) - 1)
        return self._sums[at] + (t_s - self._edges[at]) * self._rates[at]

    @property
    def edges(self) -> list[float]:
        """Return where bursts begin and end."""
        return self._edges

    def total(self, t_s: float) -> float:
        """Return the bytes that crossed between 0 and t_s."""
        return self._since_start(t_s) - self._origin


def steady(rate: float) -> Callable[[float], float]:
    """Return the running total of traffic at one rate."""
    return lambda t_s: rate * t_s


def nothing(_t_s: float) -> float:
    """No traffic at all."""
    return 0.0


def card(
    index: int = 0,
    pcie: LinkSource = LinkSource.COUNTER,
    *,
    nvlink: LinkSource = LinkSource.NONE,
    bits: int = 32,
    power: PowerKind = PowerKind.INSTANT,
) -> Card:
    """Return a probed card whose link is read from `pcie`."""
    features = {LinkSource.COUNTER: {"pcie_counter"}, LinkSource.WINDOW: {"pcie_window"}, LinkSource.GPM: {"gpm"}}
    return Card(
        identity=CardIdentity(
            uuid=f"GPU-{index:08x}-0000-4000-8000-000000000000",
            index=index,
            name="Example GPU",
            pci_address=f"0000:{0x10 * (index + 1):02x}:00.0",
            architecture="ada",
            minor=index,
            numa_node=0,
        ),
        capabilities=Capabilities(
            features=frozenset(features.get(pcie, set())),
            pcie_source=pcie,
            nvlink_source=nvlink,
            power_kind=power,
            counter_bits=bits,
        ),
        nvlink=NvLinkFacts(0, 0, "", math.nan, ()),
    )


def topology(cards: Sequence[Card], generation: int, width: int) -> Topology:
    """Return a tree in which every card hangs on a port of its own."""
    return Topology(
        paths=tuple(
            CardPath(
                uuid=c.identity.uuid,
                address=c.identity.pci_address,
                hops=(LinkHop(c.identity.pci_address, "0000:00:01.0", 1, width, generation, width),),
                root="pci0000:00",
                numa_node=0,
            )
            for c in cards
        )
    )


@dataclass
class Script:
    """What one card does. Everything may be changed while it runs."""

    rx: Callable[[float], float] = nothing
    tx: Callable[[float], float] = nothing
    watts: Callable[[float], float] = lambda _t_s: 300.0
    processes: tuple[GpuProcess, ...] | Fault = TRAINING
    utilization: float = 1.0
    used_bytes: float = 2e10
    fault: Fault | None = None  # what every call answers instead
    faults: dict[str, Fault] = field(default_factory=dict)  # what single calls answer instead
    hook: Callable[[str], None] | None = None  # called before each call with its name: may block
    stall_s: Callable[[float], float] | None = None  # how long a call made at that time is held up before it reads
    window_block_s: float = 0.0205
    counter_offset: int = 2**32 - 10**6  # so that counters come round early in every run


class ScriptedCard:
    """A CardReader over a script. Counts its calls by name."""

    def __init__(self, card_: Card, script: Script, clock: Clock, calls: dict[str, int]) -> None:
        self.card = card_
        self._script = script
        self._clock = clock
        self._calls = calls
        self._gpm_s = math.nan
        self._ring_s = math.nan

    def _begin(self, name: str) -> Fault | None:
        self._calls[name] = self._calls.get(name, 0) + 1
        if self._script.hook is not None:
            self._script.hook(name)
        if self._script.stall_s is not None:
            now_s = self._clock.mono_s()
            self._clock.wait_until(now_s + self._script.stall_s(now_s))
        return self._script.fault or self._script.faults.get(name)

    def counters(self) -> CounterSample | Fault:
        fault = self._begin("counters")
        if fault is not None:
            return fault
        script, now_s = self._script, self._clock.mono_s()
        mask = (1 << (self.card.capabilities.counter_bits or 64)) - 1
        rx = (script.counter_offset + int(script.rx(now_s))) & mask
        tx = (script.counter_offset + int(script.tx(now_s))) & mask
        return CounterSample(now_s, rx, tx, script.watts(now_s), script.rx(now_s), script.tx(now_s))

    def window(self, direction: str) -> WindowSample | Fault:
        fault = self._begin("window")
        if fault is not None:
            return fault
        script = self._script
        self._clock.wait_until(self._clock.mono_s() + script.window_block_s)
        t1_s = self._clock.mono_s()
        t0_s = t1_s - 0.02
        total = script.rx if direction == "rx" else script.tx
        return WindowSample(t0_s, t1_s, (total(t1_s) - total(t0_s)) / 0.02, script.watts(t1_s))

    def gpm(self) -> GpmSample | Fault:
        fault = self._begin("gpm")
        if fault is not None:
            return fault
        before_s, now_s = self._gpm_s, self._clock.mono_s()
        self._gpm_s = now_s
        if math.isnan(before_s):
            return Fault.NO_DATA
        assert now_s - before_s > 0.1, "GPM samples lie more than 100 ms apart"
        script = self._script
        rx, tx = script.rx(now_s) - script.rx(before_s), script.tx(now_s) - script.tx(before_s)
        return GpmSample(before_s, now_s, rx, tx, rx, tx, {"sm_active_ratio": 0.5})

    def rings(self) -> Rings | Fault:
        fault = self._begin("rings")
        if fault is not None:
            return fault
        return Rings()

    def quick(self) -> SlowSample | Fault:
        fault = self._begin("quick")
        if fault is not None:
            return fault
        script = self._script
        readings = {
            "utilization_ratio": script.utilization,
            "memory_used_bytes": script.used_bytes,
            "power_watts": script.watts(self._clock.mono_s()),
        }
        return SlowSample(readings, {})

    def rare(self) -> SlowSample | Fault:
        fault = self._begin("rare")
        return fault if fault is not None else SlowSample({"power_limit_watts": 450.0}, {})

    def processes(self) -> tuple[GpuProcess, ...] | Fault:
        fault = self._begin("processes")
        return fault if fault is not None else self._script.processes


class ScriptedNode:
    """A NodeReader over scripted cards. Asserts that open and close come in turn and that handles are fresh."""

    def __init__(
        self, cards: Sequence[Card], scripts: Sequence[Script], *, generation: int = 5, width: int = 16
    ) -> None:
        self.cards = list(cards)
        self.scripts = dict(zip((c.identity.uuid for c in cards), scripts, strict=True))
        self.calls: dict[str, dict[str, int]] = {c.identity.uuid: {} for c in cards}
        self.opening: Fault | None = None  # what open answers instead
        self.opens = 0
        self.open_tries = 0
        self.cut_anew = False
        self.closes = 0
        self.xids: list[XidEvent] = []
        self.driver_s: Callable[[], float] = lambda: 0.0
        self.tree = topology(cards, generation, width)

    def open(self) -> Sequence[Card] | Fault:
        assert self.opens == self.closes, "opened twice"
        self.open_tries += 1
        if self.opening is not None:
            return self.opening
        self.opens += 1
        return tuple(self.cards)

    def card_reader(self, card_: Card, clock: Clock) -> ScriptedCard:
        assert self.opens == self.closes + 1, "a reader of a closed driver"
        return ScriptedCard(card_, self.scripts[card_.identity.uuid], clock, self.calls[card_.identity.uuid])

    def close(self) -> None:
        self.closes += 1

    def xid_events(self, timeout_s: float) -> Sequence[XidEvent] | Fault:
        taken, self.xids = self.xids, []
        if not taken and timeout_s > 0.0:
            return Fault.NOT_SUPPORTED
        return taken

    def facts(self) -> NodeFacts:
        return NodeFacts("node", "none", "6.8", "580.65", 32, True, "host", True, 0.0)

    def topology(self, cards: Sequence[Card]) -> Topology:
        return self.tree if cards else Topology()

    def links(self, topology: Topology) -> Topology:
        return topology

    def reconfigured(self) -> bool:
        return self.cut_anew

    def errors(self) -> Mapping[str, int]:
        return {}

    def rejected(self) -> Mapping[str, int]:
        return {}

    def driver_seconds(self) -> float:
        return self.driver_s()

    def driver_held_seconds(self) -> float:
        """The same: no call waits for anything here."""
        return self.driver_seconds()


class ScriptedHost:
    """A HostReader that counts."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.pids: list[frozenset[int]] = []

    def processes(self, gpu_pids: frozenset[int], mono_s: float) -> ProcessTable:
        self.pids.append(gpu_pids)
        return ProcessTable(read_s=mono_s)

    def host(self, uuids_by_address: Mapping[str, str]) -> HostSample:
        return HostSample(cpu_busy_seconds=float(next(self._numbers)))
