"""A scripted node: two cards whose links, counters and power follow simple functions of a counting clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from gpumon.doctor.examination import DeviceFile, Examination
from gpumon.hardware.reader import CounterSample, GpmSample, Rings, SlowSample, WindowSample, XidEvent
from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, NvLinkFacts, PowerKind
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.samples import GpuProcess, Series
from gpumon.model.topology import CardPath, LinkHop, NodeFacts, P2p, PciGpu, Topology, Uplink

FEATURES = frozenset({"pcie_counter", "pcie_window", "energy", "process_util", "power_instant"})


class StepClock:
    """A clock that only waiting and the scripted calls advance."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def mono_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return self.now_s

    def wait_until(self, mono_s: float) -> bool:
        self.now_s = max(self.now_s, mono_s)
        return True


def make_card(index: int, *, source: LinkSource = LinkSource.COUNTER, fault: Fault | None = None) -> Card:
    """A 4090 as probing finds it."""
    return Card(
        identity=CardIdentity(
            uuid=f"GPU-{index}",
            index=index,
            name="NVIDIA GeForce RTX 4090",
            pci_address=f"0000:{0x11 + index:02x}:00.0",
            architecture="ada",
            minor=index,
            numa_node=0,
        ),
        capabilities=Capabilities(
            features=FEATURES,
            pcie_source=source,
            nvlink_source=LinkSource.NONE,
            power_kind=PowerKind.RING,
            counter_bits=32 if source is LinkSource.COUNTER else 0,
            missing=(("gpm", Fault.NOT_SUPPORTED),),
        ),
        nvlink=NvLinkFacts(0, 0, "", math.nan, ()),
        fault=fault,
    )


def make_path(index: int, *, width: int = 16, max_width: int = 16, above: tuple[LinkHop, ...] = ()) -> CardPath:
    """A card's way: its own link, then the given hops."""
    own = LinkHop(f"0000:{0x11 + index:02x}:00.0", f"0000:10:{index:02x}.0", 4, width, 4, max_width)
    return CardPath(f"GPU-{index}", own.address, (own, *above), "pci0000:00", 0)


def make_facts(**changes: object) -> NodeFacts:
    """A bare host with a new driver."""
    values: dict[str, object] = {
        "hostname": "node-7",
        "virtualization": "none",
        "kernel": "6.8.0",
        "driver_version": "570.86.15",
        "cpu_count": 64,
        "simulated": False,
        "standing": "host",
        "host_pids": True,
        "boot_wall_s": 1.8e9 - 86400.0,
    }
    return NodeFacts(**{**values, **changes})  # type: ignore[arg-type]


SWITCH = LinkHop("0000:01:00.0", "0000:00:01.0", 4, 16, 4, 16)


def make_topology(**changes: object) -> Topology:
    """Two cards under one switch, peer access refused, IOMMU off."""
    values: dict[str, object] = {
        "paths": (make_path(0, above=(SWITCH,)), make_path(1, above=(SWITCH,))),
        "uplinks": (Uplink(SWITCH.address, ("GPU-0", "GPU-1"), SWITCH),),
        "p2p": (P2p("GPU-0", "GPU-1", "PIX", "chipset_not_supported"),),
        "pci_gpus": (PciGpu("0000:11:00.0", "nvidia", 16, 16), PciGpu("0000:12:00.0", "nvidia", 16, 16)),
        "acs_enabled": False,
        "iommu": "off",
    }
    return Topology(**{**values, **changes})  # type: ignore[arg-type]


def make_examination(**changes: object) -> Examination:
    """A node on which every check passes."""
    values: dict[str, object] = {
        "facts": make_facts(),
        "cards": (make_card(0), make_card(1)),
        "topology": make_topology(),
        "distributions": {"nvidia-ml-py": "13.580.82"},
        "device_files": (DeviceFile("/dev/nvidia0", True), DeviceFile("/dev/nvidia1", True)),
        "user_id": 1000,
        "shm_bytes": 64e9,
        "clock_synchronised": True,
        "clock_source": "tsc",
        "wall_s": 1.8e9,
        "config_problems": (),
    }
    return Examination(**{**values, **changes})  # type: ignore[arg-type]


@dataclass
class Script:
    """How the scripted cards behave."""

    bytes_per_second: float = 2e9  # each direction, steady
    window_unit: float = 1.0  # what the window call's figure is multiplied with: 1/1.024 for a mistaken unit
    window_s: float = 0.021
    gpm: bool = False
    power_span_s: float = 1.0  # over which the scalar reading averages
    faults: Mapping[str, Fault] = field(default_factory=dict)  # call -> what it answers instead


class ScriptedCard:
    """One card: traffic is steady, power is a square wave of 200 and 400 W with a period of 1.6 s."""

    def __init__(self, card: Card, clock: Clock, script: Script) -> None:
        self.card = card
        self._clock = clock
        self._script = script
        self._drained_s = 0.0
        self._gpm_s = math.nan

    def counters(self) -> CounterSample | Fault:
        if "counters" in self._script.faults:
            return self._script.faults["counters"]
        self._spend(0.0003)
        now_s = self._clock.mono_s()
        raw = int(self._script.bytes_per_second * now_s) % (1 << 32)
        return CounterSample(now_s, raw, raw, _power(now_s))

    def window(self, direction: str) -> WindowSample | Fault:
        if "window" in self._script.faults:
            return self._script.faults["window"]
        self._spend(self._script.window_s)
        now_s = self._clock.mono_s()
        rate = self._script.bytes_per_second * self._script.window_unit
        return WindowSample(now_s - 0.02, now_s, rate, _power(now_s))

    def gpm(self) -> GpmSample | Fault:
        if not self._script.gpm:
            return Fault.NOT_SUPPORTED
        now_s, before_s = self._clock.mono_s(), self._gpm_s
        self._gpm_s = now_s
        if math.isnan(before_s):
            return Fault.NO_DATA
        count = self._script.bytes_per_second * (now_s - before_s)
        return GpmSample(before_s, now_s, count, count, 0.0, 0.0)

    def rings(self) -> Rings | Fault:
        now_s = self._clock.mono_s()
        times = np.arange(math.ceil(self._drained_s / 0.02) * 0.02, now_s, 0.02)
        self._drained_s = now_s
        return Rings(power=Series(times, np.array([_power(t_s) for t_s in times])))

    def quick(self) -> SlowSample | Fault:
        self._spend(0.001)
        now_s = self._clock.mono_s()
        span_s = self._script.power_span_s
        watts = _power(now_s) if not span_s else np.mean([_power(now_s - span_s * k / 50) for k in range(50)])
        return SlowSample({"power_watts": float(watts), "energy_joules": _energy(now_s)}, {})

    def rare(self) -> SlowSample | Fault:
        return SlowSample({"card_generation_max": 4.0}, {})

    def processes(self) -> tuple[GpuProcess, ...] | Fault:
        if "processes" in self._script.faults:
            return self._script.faults["processes"]
        self._spend(0.0045)
        return ()

    def _spend(self, seconds: float) -> None:
        self._clock.wait_until(self._clock.mono_s() + seconds)


class ScriptedNode:
    """Two scripted cards, or a driver that does not answer."""

    def __init__(
        self,
        script: Script | None = None,
        cards: Sequence[Card] | Fault | None = None,
        topology: Topology | None = None,
    ) -> None:
        self.script = script or Script()
        self.cards = (make_card(0), make_card(1)) if cards is None else cards
        self._topology = topology or make_topology()
        self.closed = 0

    def open(self) -> Sequence[Card] | Fault:
        return self.cards

    def card_reader(self, card: Card, clock: Clock) -> ScriptedCard:
        return ScriptedCard(card, clock, self.script)

    def close(self) -> None:
        self.closed += 1

    def xid_events(self, timeout_s: float) -> Sequence[XidEvent] | Fault:
        return ()

    def facts(self) -> NodeFacts:
        return make_facts()

    def topology(self, cards: Sequence[Card]) -> Topology:
        return self._topology

    def errors(self) -> Mapping[str, int]:
        return {}

    def rejected(self) -> Mapping[str, int]:
        return {}

    def driver_seconds(self) -> float:
        return 0.0

    def driver_held_seconds(self) -> float:
        """The same: no call waits for anything here."""
        return self.driver_seconds()


def _power(t_s: float) -> float:
    return 400.0 if t_s % 1.6 < 0.8 else 200.0


def _energy(t_s: float) -> float:
    periods, rest_s = divmod(t_s, 1.6)
    return periods * 480.0 + 400.0 * min(rest_s, 0.8) + 200.0 * max(rest_s - 0.8, 0.0)


@pytest.fixture
def node() -> ScriptedNode:
    """A node of two cards that do everything."""
    return ScriptedNode()
