"""Lists and rings that the driver writes into buffers of ours: processes, per-process utilization, samples.

The binding sizes these arrays by a first call and reads them with one struct size. Lists grow between two calls, and
drivers changed the size of an entry under the same symbol, so the bytes are handed on as they were written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from gpumon.hardware.nvml import INSUFFICIENT_SIZE, Device
from gpumon.model.fault import Fault

# A list that grew between sizing and reading is asked for again this often; then the tick does without it.
_SIZE_ATTEMPTS = 5
# The largest struct any driver filled in for a running process (535.43 to 535.86); smaller ones fit too.
PROCESS_STRIDE_MAX = 32
# What a process buffer holds before the call: bytes that still hold it afterwards were not written by the driver.
PROCESS_FILLER = 0xA5
# nvmlProcessUtilizationSample_t: pid, padding, stamp (us, wall), SM, memory, encoder, decoder percent.
PROCESS_SAMPLE_LAYOUT = "I4xQIIII"
PROCESS_SAMPLE_BYTES = 32
SAMPLE_BYTES = 16  # nvmlSample_t: stamp (us, wall) and a union of eight bytes


@dataclass(frozen=True, slots=True)
class Filled:
    """What the driver wrote: `count` entries at the start of `content`."""

    count: int
    content: bytes
    version: int = 1  # of the symbol that answered
    value_type: int = 0  # nvmlValueType_t of samples


def process_list(device: Device, kind: str, capacity: int) -> Filled | Fault:
    """List processes of a kind ("Compute", "Graphics", "MPSCompute") by the newest symbol the driver has.

    The symbol does not tell the size of an entry: `nvidia.processes` finds it. About 4.5 ms under a driver lock.
    """
    for version in (3, 2, 1):
        name = f"nvmlDeviceGet{kind}RunningProcesses" + (f"_v{version}" if version > 1 else "")
        barred = device.barred(name)
        answer = barred if barred is not None else _processes(device, name, version, capacity)
        if answer is not Fault.NOT_SUPPORTED:
            return answer
    return Fault.NOT_SUPPORTED


def _processes(device: Device, name: str, version: int, capacity: int) -> Filled | Fault:
    function = device.symbol(name)
    code, filled = _until_it_fits(
        capacity,
        PROCESS_STRIDE_MAX,
        PROCESS_FILLER,
        lambda count, content: device.timed(function, ctypes.byref(count), content),
    )
    return device.failed(code, name) if code else Filled(filled.count, filled.content, version)


def process_utilization(device: Device, since_us: int, capacity: int) -> Filled | Fault:
    """Read per-process utilization newer than a stamp; NOT_FOUND when nothing is. Unfilled entries are all zero."""
    name = "nvmlDeviceGetProcessUtilization"
    barred = device.barred(name)
    if barred is not None:
        return barred
    function, since = device.symbol(name), ctypes.c_ulonglong(since_us)
    code, filled = _until_it_fits(
        capacity,
        PROCESS_SAMPLE_BYTES,
        0,
        lambda count, content: device.timed(function, content, ctypes.byref(count), since),
    )
    return device.failed(code, name) if code else filled


def _until_it_fits(
    capacity: int, stride: int, filler: int, call: Callable[[ctypes.c_uint, ctypes.Array[ctypes.c_char]], int]
) -> tuple[int, Filled]:
    code = INSUFFICIENT_SIZE
    for _ in range(_SIZE_ATTEMPTS):
        content = ctypes.create_string_buffer(capacity * stride)
        ctypes.memset(content, filler, capacity * stride)
        count = ctypes.c_uint(capacity)
        code = call(count, content)
        if code != INSUFFICIENT_SIZE:
            return code, Filled(min(count.value, capacity), content.raw)
        # Half as much again: it may go on growing while we ask. The count the driver names may be stale, or zero.
        capacity = max(capacity, count.value) * 3 // 2 + 1
    return code, Filled(0, b"")


def samples(device: Device, kind: int, since_us: int, capacity: int) -> Filled | Fault:
    """Read a sample ring (nvmlSamplingType_t) newer than a stamp; NOT_FOUND when nothing is."""
    key = ("nvmlDeviceGetSamples", kind)
    barred = device.barred(key)
    if barred is not None:
        return barred
    content = ctypes.create_string_buffer(capacity * SAMPLE_BYTES)
    count, value_type = ctypes.c_uint(capacity), ctypes.c_uint()
    code = device.timed(
        device.symbol(key[0]),
        ctypes.c_uint(kind),
        ctypes.c_ulonglong(since_us),
        ctypes.byref(value_type),
        ctypes.byref(count),
        content,
    )
    if code:
        return device.failed(code, key)
    filled = min(count.value, capacity)
    return Filled(filled, ctypes.string_at(content, filled * SAMPLE_BYTES), value_type=value_type.value)
