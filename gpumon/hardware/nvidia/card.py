"""One card's readings through NVML: the `CardReader` of `hardware.reader`, for use by one thread.

Converts the vendor's units once. What the card refuses is asked once; what cannot be true is thrown away and counted;
what does not change is read once. A card that is lost is looked up anew by its UUID, with growing pauses, and its old
handle is never used again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpumon.hardware.nvidia import fields, nvlink
from gpumon.hardware.nvidia.counters import Counters
from gpumon.hardware.nvidia.fields import FieldBatch
from gpumon.hardware.nvidia.gpm import GpmReader
from gpumon.hardware.nvidia.plausible import Bounds, Sieve, WindowUnit, link_rate
from gpumon.hardware.nvidia.probe import mig_slices
from gpumon.hardware.nvidia.processes import ProcessReader, pid_max
from gpumon.hardware.nvidia.rings import RingReader
from gpumon.hardware.nvml import Device, Driver, Meter, Refused
from gpumon.hardware.reader import CounterSample, GpmSample, Rings, SlowSample, WindowSample
from gpumon.model.card import Card, MigSlice, PowerKind
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.fields import THROTTLE_REASONS, THROTTLE_UNKNOWN
from gpumon.model.samples import GpuProcess

_WINDOW_S = 0.02  # nvml.h: the byte counter is watched over 20 ms
# nvml.h says KB and counts in 1 KB; tools read it as 1000 or as 1024. 1000 never claims more than crossed the link.
_WINDOW_UNIT_BYTES = 1000.0
# The counter moves in steps of about 0.1 s (ml.energy); ten times that leaves room for slower cards.
_ENERGY_REFRESH_S = 1.0
# Pauses between two looks for a lost card: doubled from the first to the last.
_FIRST_PAUSE_S, _LAST_PAUSE_S = 5.0, 60.0

# The quick reading comes once a second; the counters are read within 0.06 s where they are read often. Its fields ride
# with the last of these reads before it, and are no older than 0.1 s then.
_RIDE_AFTER_S = 0.9

_QUICK_FIELDS = (
    fields.POWER_INSTANT,
    fields.MEMORY_TEMPERATURE,
    fields.THROTTLE_POWER,
    fields.THROTTLE_SYNC_BOOST,
    fields.THROTTLE_SW_THERMAL,
    fields.THROTTLE_HW_THERMAL,
    fields.THROTTLE_HW_POWER_BRAKE,
)
_THROTTLE_KEYS = (
    "throttle_power_seconds",
    "throttle_sync_boost_seconds",
    "throttle_sw_thermal_seconds",
    "throttle_hw_thermal_seconds",
    "throttle_hw_power_brake_seconds",
)
_RARE_FIELDS = (fields.PCIE_CORRECTABLE_ERRORS, fields.PCIE_NONFATAL_ERRORS, fields.PCIE_FATAL_ERRORS)
_RARE_FIELD_KEYS = ("pcie_correctable_errors", "pcie_nonfatal_errors", "pcie_fatal_errors")


@dataclass(slots=True)
class _Page:
    """Scalars being collected: a value, or why it is missing."""

    readings: dict[str, float] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)

    def put(self, key: str, value: float | Fault, convert: Callable[[float], float] = float) -> None:
        """Enter a value in base units; a NaN from `convert` is a value that was thrown away."""
        if isinstance(value, Fault):
            self.faults[key] = value
            return
        converted = convert(value)
        if math.isnan(converted):
            self.faults[key] = Fault.REJECTED
        else:
            self.readings[key] = converted

    def failure(self, besides: _Page | None = None) -> Fault | None:
        """Return the fault of a page on which nothing could be read, apart from what another page holds.

        A container that lost its device files answers every question alike, with 999 (nvidia-docker#1730).
        """
        known: Mapping[str, float] = besides.readings if besides else {}
        if len(self.readings) > len(known):
            return None
        return next((fault for fault in self.faults.values() if fault is not Fault.NOT_SUPPORTED), None)

    def sample(self, reasons: frozenset[str] = frozenset(), mig: Mapping[str, float] | None = None) -> SlowSample:
        """Return what was collected."""
        return SlowSample(self.readings, self.faults, reasons, mig or {})


class _Session:
    """A card between being found and being lost: its handle and everything that hangs on it."""

    def __init__(self, device: Device, card: Card, clock: Clock, pid_limit: int) -> None:
        self.device = device
        self.fixed = _fixed(device)
        memory = device.memory_bytes()
        memory_total = math.nan if isinstance(memory, Fault) or memory[0] <= 0 else float(memory[0])
        self.sieve = Sieve(device.meter, _bounds(device, self.fixed, memory_total))
        self.quick_fields = FieldBatch(device, _QUICK_FIELDS)
        self.rare_fields = FieldBatch(device, _RARE_FIELDS)
        self.rings = RingReader(device, clock, self.sieve)
        self.gpm = GpmReader(device, clock, self.sieve) if "gpm" in card.capabilities.features else None
        self.slices: tuple[tuple[Device, MigSlice], ...] = mig_slices(device) if card.mig_enabled else ()
        self.processes = ProcessReader(device, clock, self.slices, memory_total, pid_limit)
        self.counters = Counters(device, card, clock, self.sieve, rider=self.quick_fields)
        self.windows = WindowUnit(device.meter)
        self.energy: tuple[float, float] | None = None  # the last good reading: joules, when


def _fixed(device: Device) -> _Page:
    """Read what does not change while the card is there."""
    page = _Page()
    page.put("power_default_limit_watts", device.power_default_limit_milliwatts(), lambda value: value / 1e3)
    page.put("sm_clock_max_hertz", device.sm_clock_max_megahertz(), lambda value: value * 1e6)
    page.put("memory_clock_max_hertz", device.memory_clock_max_megahertz(), lambda value: value * 1e6)
    page.put("link_generation_max", device.link_generation_max())
    page.put("link_width_max_lanes", device.link_width_max())
    page.put("card_generation_max", device.card_generation_max())
    page.put("temperature_slowdown_celsius", device.temperature_slowdown_celsius())
    return page


def _bounds(device: Device, fixed: _Page, memory_total: float) -> Bounds:
    limit = device.power_limit_milliwatts()
    limits = [0.0 if isinstance(limit, Fault) else limit / 1e3, fixed.readings.get("power_default_limit_watts", 0.0)]
    generation = fixed.readings.get("card_generation_max", fixed.readings.get("link_generation_max", math.nan))
    return Bounds(
        power_watts=max(limits) or math.nan,
        memory_bytes=memory_total,
        link_bytes_per_second=link_rate(generation, fixed.readings.get("link_width_max_lanes", math.nan)),
    )


@dataclass(frozen=True, slots=True)
class CardAccess:
    """What a card's reader gets from its node."""

    driver: Driver
    meter: Meter  # the card's own
    refused: dict[str, Refused]  # by UUID: what cards were found not to answer since the driver was initialised
    procfs_root: Path


class NvmlCardReader:
    """`CardReader` over NVML."""

    def __init__(self, access: CardAccess, card: Card, clock: Clock) -> None:
        self._access = access
        self._driver = access.driver
        self._meter = access.meter
        self._card = card
        self._clock = clock
        self._session: _Session | None = None
        self._generation = 0  # of the driver's initialisation that the session belongs to
        self._fault = Fault.LOST
        self._pause_s = _FIRST_PAUSE_S
        self._next_look_s = -math.inf

    @property
    def card(self) -> Card:
        """The card as probed."""
        return self._card

    def _open(self) -> _Session | Fault:
        """Return the session, looking the card up where there is none; between two looks, why it cannot be used."""
        if not self._driver.up:
            return Fault.DRIVER_NOT_LOADED
        if self._generation != self._driver.generation:
            # The library was initialised anew: nothing of the time before holds.
            self._generation, self._session = self._driver.generation, None
            self._pause_s, self._next_look_s = _FIRST_PAUSE_S, -math.inf
        if self._session is not None:
            gone = self._session.device.gone
            if gone is None:
                return self._session
            self._fault, self._session = gone, None
            self._next_look_s = self._clock.mono_s() + self._pause_s
        if self._clock.mono_s() < self._next_look_s:
            return self._fault
        return self._look()

    def _look(self) -> _Session | Fault:
        """Look the card up by its UUID; about 6 ms, and as long again for what is read once."""
        uuid = self._card.identity.uuid
        device = self._driver.device_named(uuid, self._meter, self._access.refused.setdefault(uuid, {}))
        if not isinstance(device, Fault):
            session = _Session(device, self._card, self._clock, pid_max(self._access.procfs_root))
            if device.gone is None:
                self._session, self._pause_s = session, _FIRST_PAUSE_S
                return session
            device = device.gone
        self._fault = device
        self._pause_s = min(2 * self._pause_s, _LAST_PAUSE_S)
        self._next_look_s = self._clock.mono_s() + self._pause_s
        return device

    def counters(self) -> CounterSample | Fault:
        """Read byte counters and instantaneous power.

        Source: nvmlDeviceGetFieldValues (197, 198, 186; 138 and 139 over all links).
        Counts modulo 2**counter_bits at the driver's stamp. nvidia-smi: pci --getCounters. Seen on Ada and Blackwell.
        """
        session = self._open()
        return session if isinstance(session, Fault) else session.counters.read()

    def window(self, direction: str) -> WindowSample | Fault:
        """Watch one direction for 20 ms, from the card's side.

        Source: nvmlDeviceGetPcieThroughput, KB/s over 20 ms. nvidia-smi: dmon -s t. Maxwell and newer.
        """
        session = self._open()
        if isinstance(session, Fault):
            return session
        kilobytes = session.device.pcie_kilobytes_per_second(direction)
        t1_s = self._clock.mono_s()
        if isinstance(kilobytes, Fault):
            return kilobytes
        rate = session.sieve.link(kilobytes * _WINDOW_UNIT_BYTES, "pcie_window")
        if session.windows.doubtful(rate) or math.isnan(rate):
            return Fault.REJECTED
        # The ring holds power at 50 Hz: a call for each window would tell nothing more.
        ring = self._card.capabilities.power_kind is PowerKind.RING
        return WindowSample(t1_s - _WINDOW_S, t1_s, rate, math.nan if ring else session.counters.power_watts())

    def gpm(self) -> GpmSample | Fault:
        """Take a GPM sample: means since the one before. nvidia-smi: dmon --gpm-metrics. Hopper and newer."""
        session = self._open()
        if isinstance(session, Fault):
            return session
        return Fault.NOT_SUPPORTED if session.gpm is None else session.gpm.read()

    def rings(self) -> Rings | Fault:
        """Drain the sample rings. nvidia-smi: -q -d POWER,UTILIZATION (the samples' minimum, maximum, average)."""
        session = self._open()
        return session if isinstance(session, Fault) else session.rings.drain()

    def processes(self) -> tuple[GpuProcess, ...] | Fault:
        """List processes with their share of SM samples. nvidia-smi: --query-compute-apps, pmon."""
        session = self._open()
        return session if isinstance(session, Fault) else session.processes.read()

    def quick(self) -> SlowSample | Fault:
        """Read what changes within a second; the sources stand in model/fields.py."""
        session = self._open()
        if isinstance(session, Fault):
            return session
        device, sieve, page = session.device, session.sieve, _Page()
        utilization = device.utilization_percent()
        gpu, memory_controller = (utilization, utilization) if isinstance(utilization, Fault) else utilization
        page.put("utilization_ratio", gpu, lambda value: sieve.percent(value, "utilization"))
        page.put("memory_controller_ratio", memory_controller, lambda value: sieve.percent(value, "memory_controller"))
        page.put("bus_busy_ratio", device.bus_busy_percent(), lambda value: sieve.percent(value, "bus_busy"))
        _put_memory(page, device, sieve)
        ridden = session.counters.taken_along()
        values = session.quick_fields.values(ridden) if ridden else session.quick_fields.read()
        session.counters.take_along(self._clock.mono_s() + _RIDE_AFTER_S)
        if isinstance(values, Fault):
            values = [values] * len(_QUICK_FIELDS)
        power = values[0] if "power_instant" in self._card.capabilities.features else Fault.NOT_SUPPORTED
        page.put("power_watts", device.power_milliwatts() if isinstance(power, Fault) else power, sieve.power)
        page.put("temperature_gpu_celsius", device.temperature_celsius(), sieve.temperature)
        page.put("temperature_memory_celsius", values[1], sieve.temperature)
        for key, nanoseconds in zip(_THROTTLE_KEYS, values[2:], strict=True):
            page.put(key, nanoseconds, lambda value: value / 1e9)
        page.put("energy_joules", self._energy(session))
        page.put("sm_clock_hertz", device.sm_clock_megahertz(), sieve.clock)
        page.put("memory_clock_hertz", device.memory_clock_megahertz(), sieve.clock)
        page.put("link_generation", device.link_generation(), sieve.link_generation)
        page.put("link_width_lanes", device.link_width(), sieve.link_width)
        mask = device.clock_event_reasons()
        if isinstance(mask, Fault):
            page.faults["throttle_reasons"] = mask
        reasons = frozenset() if isinstance(mask, Fault) else throttle_reasons(mask)
        # A card that went away while it was read has no reading at all, not half of one.
        return device.gone or page.failure() or page.sample(reasons, _slice_memory(session))

    def _energy(self, session: _Session) -> float | Fault:
        """Return joules since driver load.

        A zero after more is a value that was not filled: only a new driver starts again. Nor can the card have drawn
        more than its greatest power since the last look.
        """
        millijoules = session.device.energy_millijoules()
        if isinstance(millijoules, Fault):
            return millijoules
        joules, now_s = millijoules / 1e3, self._clock.mono_s()
        if session.energy is not None:
            before, before_s = session.energy
            most = session.sieve.power_max_watts * (now_s - before_s + _ENERGY_REFRESH_S)
            if (joules == 0.0 and before > 0.0) or joules - before > most:
                self._meter.reject("energy")
                return Fault.REJECTED
        session.energy = joules, now_s
        return joules

    def rare(self) -> SlowSample | Fault:
        """Read what seldom changes, and repeat what never does; the sources stand in model/fields.py."""
        session = self._open()
        if isinstance(session, Fault):
            return session
        device, features = session.device, self._card.capabilities.features
        if any(fault is not Fault.NOT_SUPPORTED for fault in session.fixed.faults.values()):
            session.fixed = _fixed(device)
        page = _Page(dict(session.fixed.readings), dict(session.fixed.faults))
        page.put("power_limit_watts", device.power_limit_milliwatts(), lambda value: value / 1e3)
        page.put("pcie_replays", device.pcie_replays())
        values = session.rare_fields.read()
        for place, key in enumerate(_RARE_FIELD_KEYS):
            page.put(key, values if isinstance(values, Fault) else values[place])
        _put_links(page, device, features)
        _put_health(page, device, features)
        return device.gone or page.failure(besides=session.fixed) or page.sample()

    def close(self) -> None:
        """Give back what the reader holds inside the library, before that is shut down."""
        session, self._session = self._session, None
        if session is not None and session.gpm is not None and self._driver.up:
            session.gpm.close()


def throttle_reasons(mask: int) -> frozenset[str]:
    """Return the names of a clock event mask's bits; a bit that has none is "unknown"."""
    names = {name for bit, name in THROTTLE_REASONS.items() if mask & bit}
    return frozenset(names | {THROTTLE_UNKNOWN} if mask & ~sum(THROTTLE_REASONS) else names)


def _put_memory(page: _Page, device: Device, sieve: Sieve) -> None:
    memory = device.memory_bytes()
    if not isinstance(memory, Fault) and memory[0] <= 0:
        memory = Fault.NOT_SUPPORTED  # a part without memory of its own answers, with nothing (Syllo/nvtop#411)
    total, used, reserved = (memory, memory, memory) if isinstance(memory, Fault) else memory
    page.put("memory_total_bytes", total)
    page.put("memory_used_bytes", used, sieve.memory)
    page.put("memory_reserved_bytes", Fault.NOT_SUPPORTED if reserved is None else reserved, sieve.memory)


def _slice_memory(session: _Session) -> dict[str, float]:
    """Return the memory in use on each slice, by its UUID."""
    used = {}
    for device, mig_slice in session.slices:
        memory = device.memory_bytes()
        if not isinstance(memory, Fault):
            used[mig_slice.mig_uuid] = float(memory[1])
    return used


def _put_links(page: _Page, device: Device, features: frozenset[str]) -> None:
    if "nvlink" not in features:
        return
    states = nvlink.states(device)
    active: float | Fault = states if isinstance(states, Fault) else sum(state != nvlink.INACTIVE for state in states)
    page.put("nvlink_links_active", active)
    page.put("nvlink_links_inactive", states if isinstance(states, Fault) else len(states) - int(active))


def _put_health(page: _Page, device: Device, features: frozenset[str]) -> None:
    if "ecc" in features:
        page.put("ecc_corrected", device.ecc_errors(uncorrected=False))
        page.put("ecc_uncorrected", device.ecc_errors(uncorrected=True))
    rows = device.remapped_rows()
    page.put("row_remap_pending", rows if isinstance(rows, Fault) else rows[2])
    page.put("row_remap_failed", rows if isinstance(rows, Fault) else rows[3])
