"""One card's driver interface: the physical timeline seen through NVML's own windows, averages and roundings.

Every reading is a function of the caller's time, so calls may come in any order across cards. What is modelled: byte
counters that wrap, a 20 ms traffic window that blocks, power sampled late over a short window (a quarter of the time
only on A100 and H100), a 1 s average where the product has one, an energy counter refreshed every 100 ms, rings of
power and utilization samples, utilization that counts waiting kernels, and calls that fail.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpumon.hardware.simulated.noise import Noise
from gpumon.hardware.simulated.scenario import FaultPlan
from gpumon.hardware.simulated.timeline import Timeline
from gpumon.hardware.simulated.timeline_file import CHANNELS
from gpumon.model.samples import Series

Floats: TypeAlias = npt.NDArray[np.float64]
C = {name: index for index, name in enumerate(CHANNELS)}

WINDOW_S = 0.020
RING_BUSY_S = 0.020
RING_IDLE_S = 1.0
RING_LENGTH = 119
UTILIZATION_RING_S = 0.139
UTILIZATION_RING_LENGTH = 72
ENERGY_REFRESH_S = 0.1
GPM_SHORTEST_S = 0.1
POWER_LAG_S = 0.035
POWER_NOISE_WATTS = 1.2
POWER_QUANTUM_WATTS = 0.01
_POWER = C["power"]
_PCIE = (C["pcie_rx"], C["pcie_tx"])
# Bits of the clock event reasons, by channel.
REASON_CHANNELS = {
    "sw_power_cap": C["sw_power_cap"],
    "sw_thermal": C["sw_thermal"],
    "hw_thermal": C["hw_thermal"],
    "hw_power_brake": C["hw_power_brake"],
    "idle": C["gpu_idle"],
}


class PowerSensor:
    """How one board measures its own power."""

    def __init__(self, timeline: Timeline, window_s: float, refresh_s: float, gain: float, stream: int) -> None:
        self._timeline = timeline
        self._window_s = window_s
        self._refresh_s = refresh_s
        self._gain = gain
        self._noise = Noise(stream)

    def instant(self, time_s: float) -> float:
        """Return what a sample taken at this time shows."""
        made = math.floor(time_s / self._refresh_s + 1e-9)
        end = max(made * self._refresh_s - POWER_LAG_S, self._window_s)
        mean = self._timeline.mean_between(_POWER, end - self._window_s, end)
        return self._shown(self._gain * mean + POWER_NOISE_WATTS * self._noise.at(made))

    def samples(self, times_s: Floats) -> Floats:
        """Return what samples taken at these times show."""
        made = np.floor(times_s / self._refresh_s + 1e-9)
        end = np.maximum(made * self._refresh_s - POWER_LAG_S, self._window_s)
        mean = self._timeline.mean(_POWER, end - self._window_s, end)
        noisy = self._gain * mean + POWER_NOISE_WATTS * self._noise.of(made.astype(np.int64))
        shown: Floats = np.maximum(np.round(noisy / POWER_QUANTUM_WATTS) * POWER_QUANTUM_WATTS, 0.0)
        return shown

    def average(self, time_s: float, over_s: float) -> float:
        """Return the running mean over `over_s` up to a time; the instantaneous value where that is 0."""
        if over_s <= 0:
            return self.instant(time_s)
        end = max(math.floor(time_s / ENERGY_REFRESH_S) * ENERGY_REFRESH_S, ENERGY_REFRESH_S)
        begin = max(end - over_s, 0.0)
        return self._shown(self._gain * self._timeline.mean_between(_POWER, begin, end))

    def energy_joules(self, time_s: float) -> float:
        """Return the cumulative energy as the counter shows it, in whole millijoules."""
        shown = math.floor(time_s / ENERGY_REFRESH_S + 1e-9) * ENERGY_REFRESH_S
        joules = self._gain * self._timeline.integral_at(_POWER, shown)
        return math.floor(joules * 1e3) / 1e3

    @staticmethod
    def _shown(watts: float) -> float:
        return max(round(watts / POWER_QUANTUM_WATTS) * POWER_QUANTUM_WATTS, 0.0)


def power_ring(timeline: Timeline, sensor: PowerSensor, after_s: float, until_s: float) -> Series:
    """Return the ring's samples in (after_s, until_s], at most what the ring holds."""
    earliest = max(after_s, until_s - RING_LENGTH * RING_IDLE_S, timeline.start_s)
    times = _multiples(RING_BUSY_S, earliest, until_s)
    asleep = timeline.mean(C["gpu_idle"], np.maximum(times - 1e-6, 0.0), times) > 0.5 if times.size else times > 0
    each = round(RING_IDLE_S / RING_BUSY_S)
    on_slow_grid = np.round(times / RING_BUSY_S).astype(np.int64) % each == 0
    times = times[~asleep | on_slow_grid][-RING_LENGTH:]
    return Series(times, sensor.samples(times)) if times.size else Series()


def mean_ring(timeline: Timeline, channel: str, after_s: float, until_s: float, quantum: float) -> Series:
    """Return a ring whose samples are means since the sample before: utilization, memory controller, clocks."""
    earliest = max(after_s, until_s - UTILIZATION_RING_LENGTH * UTILIZATION_RING_S, timeline.start_s)
    times = _multiples(UTILIZATION_RING_S, earliest, until_s)
    times = times[times >= UTILIZATION_RING_S][-UTILIZATION_RING_LENGTH:]
    if not times.size:
        return Series()
    means = timeline.mean(C[channel], times - UTILIZATION_RING_S, times)
    return Series(times, np.round(means / quantum) * quantum)


def wrapped_counters(timeline: Timeline, time_s: float, bits: int, base: tuple[int, int]) -> tuple[int, int]:
    """Return the raw PCIe counters (rx, tx); they started at `base` when the driver was loaded long ago."""
    mask = (1 << bits) - 1
    rx, tx = timeline.integrals_of(_PCIE, time_s)
    return base[0] + int(rx) & mask, base[1] + int(tx) & mask


def fault_at(faults: tuple[FaultPlan, ...], card: int, time_s: float) -> FaultPlan | None:
    """Return what is wrong with a card (or with the driver) at a time."""
    for fault in faults:
        if fault.card in (card, -1) and fault.from_s <= time_s < fault.to_s:
            return fault
    return None


def _multiples(step_s: float, after_s: float, until_s: float) -> Floats:
    first = math.floor(after_s / step_s + 1e-9) + 1
    last = math.floor(until_s / step_s + 1e-9)
    return np.arange(first, last + 1, dtype=np.float64) * step_s
