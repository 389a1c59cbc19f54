"""The sub-second reading of one card: byte counters, and power in the same breath.

Source: nvmlDeviceGetFieldValues (197, 198; 186; 138 and 139 or 202 and 204).
"""

from __future__ import annotations

import math

from gpumon.hardware.nvidia import fields, nvlink
from gpumon.hardware.nvidia.fields import FieldBatch
from gpumon.hardware.nvidia.nvlink import NvLinkTotal
from gpumon.hardware.nvidia.plausible import Sieve
from gpumon.hardware.nvml import GONE, Device, fault_of
from gpumon.hardware.reader import CounterSample
from gpumon.model.card import Card
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault

# A driver's stamp of a field value is believed when it lies this close before the call.
_STAMP_MARGIN_S = 0.1
# Places in the seven numbers that a field value is (fields.py), and how many they are.
_STAMP, _STATUS, _BITS, _SIZE = 2, 5, 6, 7
_MASK_32, _MASK_64 = (1 << 32) - 1, (1 << 64) - 1

# Fields that travelled with the counters are as good as their own call's for so long.
_RIDDEN_FRESH_S = 0.15


class Counters:
    """The sub-second reading: byte counters and power in one call, into memory allocated once.

    Runs about 18 times a second for each card, so the numbers are taken out of the array in place.
    """

    __slots__ = ("_batch", "_clock", "_device", "_has_pcie", "_mask", "_nvlink", "_power_at",
                 "_receive", "_ridden", "_ridden_s", "_rider", "_rider_due_s", "_sieve", "_transmit",
                 "_wanted", "_wide", "_wide_fields")  # fmt: skip

    def __init__(self, device: Device, card: Card, clock: Clock, sieve: Sieve, rider: FieldBatch) -> None:
        """Prepare the reading. `rider`: fields of another reading that travel with this one when asked to."""
        features = card.capabilities.features
        self._device = device
        self._clock = clock
        self._sieve = sieve
        self._has_pcie = "pcie_counter" in features
        self._mask = _MASK_64 if card.capabilities.counter_bits == 64 else _MASK_32
        wanted: list[tuple[int, int]] = []
        if self._has_pcie:
            wanted += [(fields.PCIE_RX_BYTES, 0), (fields.PCIE_TX_BYTES, 0)]
        self._power_at = len(wanted) * _SIZE if "power_instant" in features else -1
        if self._power_at >= 0:
            wanted.append((fields.POWER_INSTANT, 0))
        self._nvlink = nvlink.find_counters(device) if "nvlink" in features else None
        self._receive = self._transmit = NvLinkTotal(summed=True)
        if self._nvlink is not None:
            self._receive, self._transmit = NvLinkTotal(self._nvlink.summed), NvLinkTotal(self._nvlink.summed)
            wanted += [*self._nvlink.receive, *self._nvlink.transmit]
        self._wanted = tuple(wanted)
        self._batch = self._wide = FieldBatch(device, wanted, fixed=True)
        self._wide_fields: tuple[tuple[int, int], ...] = ()  # the rider's fields in the wide batch
        self._rider = rider
        self._rider_due_s = math.inf
        self._ridden: tuple[int, ...] = ()
        self._ridden_s = -math.inf

    def read(self) -> CounterSample | Fault:
        """Read the counters; NOT_SUPPORTED on a card that has none."""
        if not self._has_pcie and self._nvlink is None:
            return Fault.NOT_SUPPORTED
        clock = self._clock
        before_s = clock.mono_s()
        numbers = self._batch.numbers() if before_s < self._rider_due_s else self._numbers_with_rider()
        if isinstance(numbers, Fault):
            return numbers
        after_s = clock.mono_s()
        rx: int | None = None
        tx: int | None = None
        if self._has_pcie:
            if numbers[_STATUS] or numbers[_SIZE + _STATUS]:
                fault = self._failed(numbers[_STATUS] or numbers[_SIZE + _STATUS])
                if fault in GONE:
                    return fault
            else:
                rx, tx = numbers[_BITS] & self._mask, numbers[_SIZE + _BITS] & self._mask
        nvlink_rx, nvlink_tx = (math.nan, math.nan) if self._nvlink is None else self._nvlink_bytes(numbers)
        return CounterSample(
            self._when(numbers[_STAMP], before_s, after_s),
            rx,
            tx,
            self._power(numbers),
            nvlink_rx,
            nvlink_tx,
        )

    def take_along(self, due_s: float) -> None:
        """Read the rider's fields, too, in the first call after due_s: a call less for the driver."""
        self._rider_due_s = due_s if self._wanted else math.inf

    def taken_along(self) -> tuple[int, ...]:
        """Return the rider's numbers as `FieldBatch.numbers` would, if any were read in the last moments."""
        fresh = self._clock.mono_s() - self._ridden_s <= _RIDDEN_FRESH_S
        return self._ridden if fresh and self._wide_fields == self._rider.wanted else ()

    def _numbers_with_rider(self) -> tuple[int, ...] | Fault:
        self._rider_due_s = math.inf
        if self._wide_fields != self._rider.wanted:
            self._wide_fields = self._rider.wanted
            self._wide = FieldBatch(self._device, self._wanted + self._wide_fields, fixed=True)
        numbers = self._wide.numbers()
        if isinstance(numbers, Fault):
            return numbers
        self._ridden_s = self._clock.mono_s()
        own = len(self._wanted) * _SIZE
        self._ridden = numbers[own:]
        return numbers[:own]

    def power_watts(self) -> float:
        """Return the instantaneous power alone. NaN where the card has none."""
        if self._power_at < 0:
            return math.nan
        numbers = self._batch.numbers()
        return math.nan if isinstance(numbers, Fault) else self._power(numbers)

    def _when(self, stamp_us: int, before_s: float, after_s: float) -> float:
        """Return when the driver sampled: its own wall stamp where that lies by the call, else the call's middle."""
        stamped_s = after_s - (self._clock.wall_s() - stamp_us / 1e6)
        if before_s - _STAMP_MARGIN_S <= stamped_s <= after_s:
            return stamped_s
        return (before_s + after_s) / 2

    def _power(self, numbers: tuple[int, ...]) -> float:
        at = self._power_at
        if at < 0 or numbers[at + _STATUS]:
            return math.nan
        return self._sieve.power(numbers[at + _BITS] & _MASK_32)

    def _nvlink_bytes(self, numbers: tuple[int, ...]) -> tuple[float, float]:
        counters = self._nvlink
        if counters is None:
            return math.nan, math.nan
        links = len(counters.receive)
        start = len(numbers) - 2 * links * _SIZE
        failed = next((status for status in numbers[start + _STATUS :: _SIZE] if status), 0)
        if failed:
            self._failed(failed)
            return math.nan, math.nan
        counts = numbers[start + _BITS :: _SIZE]
        return (
            self._receive.add(counts[:links]) * counters.unit_bytes,
            self._transmit.add(counts[links:]) * counters.unit_bytes,
        )

    def _failed(self, status: int) -> Fault:
        fault = fault_of(status)
        self._device.meter.failed(fault)
        if fault in GONE:
            self._device.gone = fault
        return fault
