"""Field values: several readings of one card in one driver call, in an array that is allocated once.

Source: nvmlDeviceGetFieldValues. Each value carries its own return code, type and time stamp.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from gpumon.hardware.nvml import GONE, INVALID_ARGUMENT, Device, fault_of, field_values, symbol
from gpumon.model.fault import Fault

# Ids from nvml.h, by what they hold. Byte counters count from the card's side.
PCIE_TX_BYTES = 197  # R555 and newer; wraps
PCIE_RX_BYTES = 198
NVLINK_DATA_TX = 138  # KiB without protocol; scope: the link, or SCOPE_ALL for the sum
NVLINK_DATA_RX = 139
NVLINK5_TX_BYTES = 202  # Blackwell, where 138 and 139 are not filled; scope: the link
NVLINK5_RX_BYTES = 204
NVLINK_SPEED_COMMON = 90  # MB/s of one link
POWER_INSTANT = 186  # mW; about 3 us, where 185 (its 1 s mean) takes 3.3 ms
MEMORY_TEMPERATURE = 82
THROTTLE_POWER = 74  # cumulative ns, as the following four
THROTTLE_SYNC_BOOST = 76
# Two bindings (12.575.51, 13.580.65) number these three 251 to 253, which are power-smoothing switches elsewhere: the
# numbers below are the released ones. A driver that lacks them says so for each field.
THROTTLE_SW_THERMAL = 269
THROTTLE_HW_THERMAL = 270
THROTTLE_HW_POWER_BRAKE = 271
PCIE_CORRECTABLE_ERRORS = 173
PCIE_NONFATAL_ERRORS = 179
PCIE_FATAL_ERRORS = 180
SCOPE_ALL = 0xFFFFFFFF  # UINT_MAX: the sum over links

UNSIGNED_INT = 1  # nvmlValueType_t
_UNSIGNED_LONGS = (2, 3)

# nvmlFieldValue_t as seven numbers: id, scope, stamp (us, wall), latency (us), value type, return code, value bits.
_NUMBERS = 7
_LAYOUT = "IIqqIIQ"


class FieldBatch:
    """The fields wanted of one card. Those that it refuses for good leave the batch; the others keep their places."""

    __slots__ = ("_array", "_count", "_device", "_fields", "_function", "_places", "_unpack")

    def __init__(self, device: Device, fields: Sequence[int | tuple[int, int]], *, fixed: bool = False) -> None:
        """Prepare a batch of field ids, or (field id, scope).

        `fixed`: all are asked for each time, so that `numbers` has every field at its place.
        """
        self._device = device
        self._function = symbol("nvmlDeviceGetFieldValues")
        self._fields = tuple((entry, 0) if isinstance(entry, int) else entry for entry in fields)
        self._keep([place for place, entry in enumerate(self._fields) if fixed or _key(entry) not in device.refused])

    def _keep(self, places: Sequence[int]) -> None:
        self._places = tuple(places)
        self._count = len(self._places)
        self._array = field_values([self._fields[place] for place in self._places])
        self._unpack = struct.Struct(_LAYOUT * self._count).unpack_from

    def read(self) -> list[float | Fault] | Fault:
        """Return the values in the order given, whole numbers as int. What is missing is a Fault in its place."""
        numbers = self.numbers()
        return numbers if isinstance(numbers, Fault) else self.values(numbers)

    @property
    def wanted(self) -> tuple[tuple[int, int], ...]:
        """The (field id, scope) still in the batch, in the order of `numbers`."""
        return tuple(self._fields[place] for place in self._places)

    def values(self, numbers: Sequence[int]) -> list[float | Fault] | Fault:
        """Return what `read` does from numbers that a call for the `wanted` fields brought."""
        values: list[float | Fault] = [Fault.NOT_SUPPORTED] * len(self._fields)
        refused = []
        for index, place in enumerate(self._places):
            value_type, status, bits = numbers[index * _NUMBERS + 4 : index * _NUMBERS + 7]
            value = number(value_type, bits) if status == 0 else self._refusal(status)
            values[place] = value
            if value is Fault.NOT_SUPPORTED:
                self._device.refused[_key(self._fields[place])] = (value, math.inf)
                refused.append(place)
        if refused:
            self._keep([place for place in self._places if place not in refused])
        return self._device.gone or values

    def numbers(self) -> tuple[int, ...] | Fault:
        """Return seven numbers for each field still in the batch, as the driver wrote them."""
        device = self._device
        if device.gone is not None:
            return device.gone
        if not self._count:
            return ()
        code = device.timed(self._function, self._count, self._array)
        return device.failed(code, "nvmlDeviceGetFieldValues") if code else self._unpack(self._array)

    def _refusal(self, status: int) -> Fault:
        # An id that this driver does not know is an invalid argument of the field, not of the handle.
        fault = Fault.NOT_SUPPORTED if status == INVALID_ARGUMENT else fault_of(status)
        self._device.meter.failed(fault)
        if fault in GONE:
            self._device.gone = fault
        return fault


def _key(field: tuple[int, int]) -> tuple[str, int, int]:
    """Return under what a refused field is remembered."""
    return ("field", *field)


def number(value_type: int, bits: int) -> float:
    """Return a field's value from its union, read as its nvmlValueType_t says: unused bytes may hold anything."""
    if value_type in _UNSIGNED_LONGS:
        return bits
    if value_type == UNSIGNED_INT:
        return bits & 0xFFFFFFFF
    raw = bits.to_bytes(8, "little")
    if value_type == 0:
        return float(struct.unpack("<d", raw)[0])
    if value_type == 4:
        return int(struct.unpack("<q", raw)[0])
    if value_type == 5:
        return int(struct.unpack_from("<i", raw)[0])
    if value_type == 6:
        return bits & 0xFFFF
    return math.nan
