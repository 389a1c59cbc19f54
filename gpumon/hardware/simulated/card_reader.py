"""A simulated card behind the CardReader seam."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gpumon.hardware.reader import CounterSample, GpmSample, Rings, SlowSample, WindowSample
from gpumon.hardware.simulated import sensors
from gpumon.hardware.simulated.fabric import Slot
from gpumon.hardware.simulated.identity import JobProcesses
from gpumon.hardware.simulated.meters import DriverLedger
from gpumon.hardware.simulated.physics import CardState
from gpumon.hardware.simulated.scenario import FaultPlan
from gpumon.hardware.simulated.sensors import REASON_CHANNELS, WINDOW_S, C, PowerSensor
from gpumon.hardware.simulated.timeline import Timeline
from gpumon.hardware.simulated.world import World
from gpumon.model.card import Card, LinkSource
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.samples import GpuProcess

Readings: TypeAlias = dict[str, float]

_FAULTS = {
    "lost": Fault.LOST,
    "reset_required": Fault.RESET_REQUIRED,
    "driver_not_loaded": Fault.DRIVER_NOT_LOADED,
    "unknown": Fault.UNKNOWN,
    "hung": Fault.TIMEOUT,
    "garbage": Fault.REJECTED,
}
# Published costs of the calls, seconds: one field-value call, one process listing, a handful of cheap scalars.
_FIELDS_COST_S = 0.3e-3
_LISTING_COST_S = 4.5e-3
_SCALARS_COST_S = 0.4e-3
RESERVED_BYTES = 480e6
_KIB = 1024.0  # fields 138 and 139 count whole KiB


def board_gain(seed: int, index: int) -> float:
    """Return a board's own power measuring error as a factor; stays within the published 5 %."""
    return 1.0 + max(-0.045, min(0.045, random.Random(f"gain/{seed}/{index}").gauss(0.0, 0.015)))


@dataclass(frozen=True, slots=True)
class Shared:
    """What the readers of one node have in common. `origin_s` is the run's second 0 on their clocks."""

    world: World
    processes: tuple[JobProcesses, ...]
    ledger: DriverLedger
    origin_s: float
    seed: int


class SimulatedCardReader:
    """Reads one card at the times of its own clock."""

    def __init__(self, shared: Shared, state: CardState, card: Card, clock: Clock) -> None:
        self._world = shared.world
        self._state = state
        self._timeline: Timeline = state.timeline
        self._slot: Slot = state.slot
        self._index = state.index
        self._card = card
        self._clock = clock
        self._origin_s = shared.origin_s
        self._processes = shared.processes
        self._ledger = shared.ledger
        abilities = state.card.abilities
        stream = shared.seed * 64 + self._index
        gain = board_gain(shared.seed, self._index)
        self._power = PowerSensor(self._timeline, abilities.power_window_s, abilities.power_refresh_s, gain, stream)
        counted = random.Random(f"counters/{stream}")
        self._counter_base = (counted.getrandbits(32), counted.getrandbits(32))
        self._drained_s = -1.0
        self._gpm_s = math.nan
        self._has_counters = "pcie_counter" in card.capabilities.features

    @property
    def card(self) -> Card:
        """The card as probed."""
        return self._card

    def counters(self) -> CounterSample | Fault:
        """Read byte counters and instantaneous power."""
        if not self._has_counters:
            return Fault.NOT_SUPPORTED
        now = self._ready(_FIELDS_COST_S)
        if isinstance(now, Fault):
            return now
        with self._world.lock:
            bits = self._card.capabilities.counter_bits
            rx, tx = sensors.wrapped_counters(self._timeline, now, bits, self._counter_base)
            power = self._instant_power(now)
            nvlink_rx, nvlink_tx = self._nvlink_bytes(now)
        return CounterSample(now + self._origin_s, rx, tx, power, nvlink_rx, nvlink_tx)

    def window(self, direction: str) -> WindowSample | Fault:
        """Watch one direction for 20 ms."""
        asked = self._ready(0.0)
        if isinstance(asked, Fault):
            return asked
        end = self._ledger.window_end(asked)
        if not self._clock.wait_until(end + self._origin_s):
            return Fault.TIMEOUT
        fault = self._fault(end)
        if fault is not None:
            return fault
        self._ledger.spend(_SCALARS_COST_S)
        with self._world.lock:
            self._world.advance(end)
            column = C["pcie_rx"] if direction == "rx" else C["pcie_tx"]
            mean = self._timeline.mean_between(column, end - WINDOW_S, end)
        # The call answers in whole KB/s.
        rate = math.floor(mean / 1e3) * 1e3
        end += self._origin_s
        return WindowSample(end - WINDOW_S, end, rate, math.nan)  # every simulated card has a power ring

    def gpm(self) -> GpmSample | Fault:
        """Take a GPM sample: means since the one before."""
        if "gpm" not in self._card.capabilities.features:
            return Fault.NOT_SUPPORTED
        now = self._ready(_FIELDS_COST_S)
        if isinstance(now, Fault):
            return now
        before, self._gpm_s = self._gpm_s, now
        if math.isnan(before) or now - before < sensors.GPM_SHORTEST_S:
            return Fault.NO_DATA
        with self._world.lock:
            moved = self._timeline.integrals_at(now) - self._timeline.integrals_at(before)
        mean = moved / (now - before)
        nvlink = self._card.capabilities.nvlink_source is not LinkSource.NONE
        return GpmSample(
            before + self._origin_s,
            now + self._origin_s,
            float(moved[C["pcie_rx"]]),
            float(moved[C["pcie_tx"]]),
            float(moved[C["nvlink_rx"]]) if nvlink else math.nan,
            float(moved[C["nvlink_tx"]]) if nvlink else math.nan,
            {
                "sm_active_ratio": float(mean[C["sm_active"]]),
                "sm_occupancy_ratio": float(mean[C["sm_occupancy"]]),
                "tensor_active_ratio": float(mean[C["tensor_active"]]),
                "dram_active_ratio": float(mean[C["dram_active"]]),
            },
        )

    def rings(self) -> Rings | Fault:
        """Drain the rings."""
        now = self._ready(_SCALARS_COST_S)
        if isinstance(now, Fault):
            return now
        after, self._drained_s = self._drained_s, now
        with self._world.lock:
            power = sensors.power_ring(self._timeline, self._power, after, now)
            utilization = sensors.mean_ring(self._timeline, "kernel", after, now, 0.01)
            controller = sensors.mean_ring(self._timeline, "memory_controller", after, now, 0.01)
            clock = sensors.mean_ring(self._timeline, "sm_clock", after, now, 15e6)
        if self._origin_s:
            power, utilization, controller, clock = (
                type(series)(series.t_s + self._origin_s, series.value)
                for series in (power, utilization, controller, clock)
            )
        return Rings(power, utilization, controller, clock)

    def quick(self) -> SlowSample | Fault:
        """Read what changes within a second."""
        now = self._ready(_SCALARS_COST_S)
        if isinstance(now, Fault):
            return now
        features = self._card.capabilities.features
        abilities = self._state.card.abilities
        readings: Readings = {}
        faults: dict[str, Fault] = {}
        with self._world.lock:
            rates = self._timeline.rates_at(now)
            integrals = self._timeline.integrals_at(now)
            begin = max(now - abilities.utilization_period_s, 0.0)
            span = max(now - begin, 1e-6)
            recent = (integrals - self._timeline.integrals_at(begin)) / span
            if "power_instant" in features:
                readings["power_watts"] = self._power.instant(now)
            else:
                readings["power_watts"] = self._power.average(now, abilities.power_average_s)
            if "energy" in features:
                readings["energy_joules"] = self._power.energy_joules(now)
        readings["utilization_ratio"] = round(float(recent[C["kernel"]]), 2)
        readings["memory_controller_ratio"] = round(float(recent[C["memory_controller"]]), 2)
        readings["memory_used_bytes"] = float(rates[C["memory_used"]])
        readings["temperature_gpu_celsius"] = float(np.round(rates[C["temperature"]]))
        readings["sm_clock_hertz"] = float(np.round(rates[C["sm_clock"]] / 15e6) * 15e6)
        readings["memory_clock_hertz"] = float(rates[C["memory_clock"]])
        readings["link_generation"] = float(rates[C["link_generation"]])
        readings["link_width_lanes"] = float(rates[C["link_width"]])
        readings["throttle_power_seconds"] = float(integrals[C["sw_power_cap"]])
        readings["throttle_sync_boost_seconds"] = 0.0
        readings["throttle_sw_thermal_seconds"] = float(integrals[C["sw_thermal"]])
        readings["throttle_hw_thermal_seconds"] = float(integrals[C["hw_thermal"]])
        readings["throttle_hw_power_brake_seconds"] = float(integrals[C["hw_power_brake"]])
        if abilities.memory_temperature:
            readings["temperature_memory_celsius"] = readings["temperature_gpu_celsius"] + 6.0
        else:
            faults["temperature_memory_celsius"] = Fault.NOT_SUPPORTED
        if abilities.bus_busy:
            capacity = self._slot.wire_bytes_per_second
            busiest = max(recent[C["pcie_rx"]], recent[C["pcie_tx"]])
            readings["bus_busy_ratio"] = round(min(float(busiest) / capacity, 1.0), 2)
        else:
            faults["bus_busy_ratio"] = Fault.NOT_SUPPORTED
        reasons = {name for name, column in REASON_CHANNELS.items() if rates[column] > 0.5}
        if reasons & {"hw_thermal", "hw_power_brake"}:
            reasons.add("hw_slowdown")
        return SlowSample(readings, faults, frozenset(reasons))

    def rare(self) -> SlowSample | Fault:
        """Read limits, maxima and error counters."""
        now = self._ready(_SCALARS_COST_S)
        if isinstance(now, Fault):
            return now
        card, slot = self._state.card, self._slot
        with self._world.lock:
            replays = float(self._timeline.integrals_at(now)[C["pcie_replays"]])
        readings: Readings = {
            "memory_total_bytes": card.memory_bytes,
            "memory_reserved_bytes": RESERVED_BYTES,
            "power_limit_watts": self._state.power_limit_watts,
            "power_default_limit_watts": card.tdp_watts,
            "temperature_slowdown_celsius": card.slowdown_celsius,
            "sm_clock_max_hertz": card.sm_clock_max_hertz,
            "memory_clock_max_hertz": card.memory_clock_max_hertz,
            "link_generation_max": float(slot.generation_max),
            "link_width_max_lanes": float(slot.lanes_max),
            "card_generation_max": float(card.generation),
            "pcie_replays": math.floor(replays),
            "pcie_correctable_errors": math.floor(replays),
            "pcie_nonfatal_errors": 0.0,
            "pcie_fatal_errors": 0.0,
        }
        faults: dict[str, Fault] = {}
        if card.abilities.ecc == "enabled":
            readings.update(
                {"ecc_corrected": 0.0, "ecc_uncorrected": 0.0, "row_remap_pending": 0.0, "row_remap_failed": 0.0}
            )
        else:
            faults.update(dict.fromkeys(("ecc_corrected", "ecc_uncorrected"), Fault.NOT_SUPPORTED))
        if self._card.nvlink.links:
            readings["nvlink_links_active"] = float(self._card.nvlink.active)
            readings["nvlink_links_inactive"] = float(self._card.nvlink.links - self._card.nvlink.active)
        return SlowSample(readings, faults)

    def processes(self) -> tuple[GpuProcess, ...] | Fault:
        """List the processes on this card."""
        now = self._ready(_LISTING_COST_S)
        if isinstance(now, Fault):
            return now
        with self._world.lock:
            busy = float(self._timeline.rates_at(now)[C["kernel"]])
            listed = [entry for job in self._processes for entry in job.on_card(self._index, now)]
        share = busy / len(listed) if listed else 0.0
        return tuple(GpuProcess(entry.pid, "compute", entry.memory_bytes, sm_ratio=share) for entry in listed)

    def _ready(self, cost_s: float) -> float | Fault:
        """Return the present in seconds of the run with the world simulated up to it, or why the call fails."""
        now = max(self._clock.mono_s() - self._origin_s, 0.0)
        fault = self._fault(now)
        if fault is not None:
            return fault
        self._ledger.spend(cost_s)
        with self._world.lock:
            self._world.advance(now)
        return now

    def _fault(self, now: float) -> Fault | None:
        planned: FaultPlan | None = sensors.fault_at(self._world.scenario.faults, self._index, now)
        if planned is None:
            return None
        reason = _FAULTS[planned.kind]
        if reason is Fault.TIMEOUT:
            self._clock.wait_until(planned.to_s + self._origin_s)
        elif reason is Fault.REJECTED:
            self._ledger.reject("impossible")
        self._ledger.fail(reason)
        return reason

    def _instant_power(self, now: float) -> float:
        """Return power at this moment, watts; NaN where the card lacks the field."""
        return self._power.instant(now) if "power_instant" in self._card.capabilities.features else math.nan

    def _nvlink_bytes(self, now: float) -> tuple[float, float]:
        if self._card.capabilities.nvlink_source is LinkSource.NONE:
            return math.nan, math.nan
        received = self._timeline.integral_at(C["nvlink_rx"], now)
        sent = self._timeline.integral_at(C["nvlink_tx"], now)
        return math.floor(received / _KIB) * _KIB, math.floor(sent / _KIB) * _KIB
