"""GPM: means between two samples of the card's own performance monitors, on Hopper and newer and some GeForce.

Source: nvmlGpmSampleGet and nvmlGpmMetricsGet, R520 and newer. Whether a card has it is asked, never told by its name.
"""

from __future__ import annotations

import ctypes
import math

from gpumon.hardware.nvidia.plausible import Sieve
from gpumon.hardware.nvml import Device, gpm_query
from gpumon.hardware.reader import GpmSample
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault

# nvmlGpmMetricId_t. Ratios are percent, rates MiB/s; TX is from the card. The two link pairs are told RX first for
# NVLink and TX first for PCIe in nvml.h.
_PCIE_TX, _PCIE_RX, _NVLINK_RX, _NVLINK_TX = 20, 21, 60, 61
_RATIOS = {2: "sm_active_ratio", 3: "sm_occupancy_ratio", 5: "tensor_active_ratio", 10: "dram_active_ratio"}
_METRICS = (_PCIE_TX, _PCIE_RX, _NVLINK_RX, _NVLINK_TX, *_RATIOS)
_MEBIBYTE = 1 << 20
# nvml.h asks for more than 100 ms between the two samples of a pair.
MIN_INTERVAL_S = 0.1


class GpmQuery:
    """Two sample buffers of one card that take turns, and the metrics wanted of the pair."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._query = gpm_query(_METRICS)
        self._older, self._newer = ctypes.c_void_p(), ctypes.c_void_p()

    def open(self) -> Fault | None:
        """Ask the card for GPM and get the buffers."""
        supported = self._device.gpm_supported()
        if isinstance(supported, Fault):
            return supported
        if not supported:
            return Fault.NOT_SUPPORTED
        for buffer in (self._older, self._newer):
            fault = self._device.call("nvmlGpmSampleAlloc", ctypes.byref(buffer))
            if fault is not None:
                return fault
        return None

    def sample(self) -> Fault | None:
        """Take a sample into the older buffer, which becomes the newer one."""
        fault = self._device.fill("nvmlGpmSampleGet", self._older)
        if fault is None:
            self._older, self._newer = self._newer, self._older
        return fault

    def metrics(self) -> dict[int, float] | Fault:
        """Return the metrics between the two samples by id, NaN for one that the card does not fill."""
        query = self._query
        query.sample1 = ctypes.cast(self._older, type(query.sample1))
        query.sample2 = ctypes.cast(self._newer, type(query.sample2))
        fault = self._device.call("nvmlGpmMetricsGet", ctypes.byref(query))
        if fault is not None:
            return fault
        return {
            metric: float(entry.value) if entry.nvmlReturn == 0 else math.nan
            for metric, entry in zip(_METRICS, query.metrics, strict=False)
        }

    def close(self) -> None:
        """Free the buffers; nothing is freed into a library that is gone."""
        for buffer in (self._older, self._newer):
            if buffer:
                self._device.call("nvmlGpmSampleFree", buffer)
        self._older, self._newer = ctypes.c_void_p(), ctypes.c_void_p()


class GpmReader:
    """One card's GPM samples, each compared with the one before."""

    def __init__(self, device: Device, clock: Clock, sieve: Sieve) -> None:
        self._query = GpmQuery(device)
        self._clock = clock
        self._sieve = sieve
        self._opened: Fault | None = self._query.open()
        self._taken_s = math.nan  # when the newer buffer was filled; NaN when it holds nothing

    def read(self) -> GpmSample | Fault:
        """Take a sample and return the means since the previous one. NO_DATA at first, and within 0.1 s."""
        if self._opened is not None:
            return self._opened
        if self._clock.mono_s() - self._taken_s <= MIN_INTERVAL_S:
            return Fault.NO_DATA
        fault = self._query.sample()
        # After a failed call nothing may be compared with what a buffer still holds.
        t0_s, self._taken_s = self._taken_s, self._clock.mono_s() if fault is None else math.nan
        if fault is not None:
            return fault
        if math.isnan(t0_s):
            return Fault.NO_DATA
        values = self._query.metrics()
        return values if isinstance(values, Fault) else self._means(values, t0_s, self._taken_s)

    def _means(self, values: dict[int, float], t0_s: float, t1_s: float) -> GpmSample:
        readings = {
            key: self._sieve.ratio(values[metric] / 100.0, "gpm")
            for metric, key in _RATIOS.items()
            if not math.isnan(values[metric])
        }
        seconds = t1_s - t0_s
        return GpmSample(
            t0_s,
            t1_s,
            pcie_rx_bytes=self._pcie(values[_PCIE_RX]) * seconds,
            pcie_tx_bytes=self._pcie(values[_PCIE_TX]) * seconds,
            nvlink_rx_bytes=values[_NVLINK_RX] * _MEBIBYTE * seconds,
            nvlink_tx_bytes=values[_NVLINK_TX] * _MEBIBYTE * seconds,
            readings={key: ratio for key, ratio in readings.items() if not math.isnan(ratio)},
        )

    def _pcie(self, mebibytes_per_second: float) -> float:
        if math.isnan(mebibytes_per_second):
            return math.nan
        return self._sieve.link(mebibytes_per_second * _MEBIBYTE, "gpm_pcie")

    def close(self) -> None:
        """Free the buffers."""
        self._query.close()


class GpmProbe:
    """A GPM pair begun at probing: the first sample is taken, the second tells what the card fills in."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._query = GpmQuery(device)

    def begin(self) -> Fault | None:
        """Take the first sample."""
        return self._query.open() or self._query.sample()

    def finish(self) -> tuple[bool, bool] | Fault:
        """Return (PCIe traffic is filled, NVLink traffic is filled), more than MIN_INTERVAL_S after the first."""
        fault = self._query.sample()
        values = fault or self._query.metrics()
        self._query.close()
        if isinstance(values, Fault):
            return values
        return (
            not (math.isnan(values[_PCIE_RX]) or math.isnan(values[_PCIE_TX])),
            not (math.isnan(values[_NVLINK_RX]) or math.isnan(values[_NVLINK_TX])),
        )


def probe_gpm(device: Device) -> GpmProbe | Fault:
    """Begin a GPM pair, or return why the card has none."""
    begun = GpmProbe(device)
    return begun.begin() or begun
