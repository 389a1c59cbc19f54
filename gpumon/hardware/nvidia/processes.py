"""The processes on a card, merged by pid, from lists whose entry size the driver does not tell.

Sources: nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses, nvmlDeviceGetProcessUtilization. About 4.5 ms
under a driver lock for each list. An entry was 16 bytes (first symbols), 24 (v2, v3), 32 (v3 of 535.43 to 535.86), and
a later report has 16 again under v3: read with the wrong size, pids and memory change places (XuehaiPan/nvitop#79).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpumon.hardware.nvidia.arrays import (
    PROCESS_FILLER,
    PROCESS_SAMPLE_BYTES,
    PROCESS_SAMPLE_LAYOUT,
    Filled,
    process_list,
    process_utilization,
)
from gpumon.hardware.nvml import Device
from gpumon.hardware.reader import CONTEXT_BYTES
from gpumon.model.card import MigSlice
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.samples import GpuProcess

# In the order in which they name a process that is on several lists.
_KINDS = (("mps", "MPSCompute"), ("compute", "Compute"), ("graphics", "Graphics"))
_MEMORY_NOT_AVAILABLE = (1 << 64) - 1
_HEAD = struct.Struct("=I4xQ")  # pid and memory stand at the same place in every layout
# By how often they were seen; the first symbols (version 1) have the short one only.
_STRIDES = {1: (16,), 2: (24, 32, 16), 3: (24, 32, 16)}
_PID_MAX = 1 << 22  # the kernel's own limit on 64-bit machines
# Utilization stamped longer ago than the last look says nothing about now; the first look goes back this far.
_FIRST_LOOK_S = 5.0
# Each list holds a driver lock for about 4.5 ms (MangoHud #2104). On a node of compute jobs those of graphics and MPS
# are empty for weeks: an empty one is asked again after this time, or when the card's memory has moved by a context's.
_EMPTY_STAYS_S = 60.0
_STAMP_TOLERANCE_S = 1.0  # the driver samples up to once a second and stamps by another clock


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a list. Memory is NaN when the driver does not tell."""

    pid: int
    memory_bytes: float


def pid_max(procfs_root: Path) -> int:
    """Return the greatest pid the kernel gives out."""
    try:
        return int((procfs_root / "sys/kernel/pid_max").read_text("ascii"))
    except (OSError, ValueError):
        return _PID_MAX


def parse(filled: Filled, memory_total_bytes: float, pid_limit: int) -> tuple[list[Entry], int] | None:
    """Return (possible entries, impossible ones dropped), or None when the list as a whole makes no sense.

    The entry size is the one whose entries are possible, and of several the one that ends where the driver stopped
    writing. An impossible entry has a pid outside 1..pid_limit or more memory than the card.
    """
    count, content = filled.count, filled.content
    if count == 0:
        return [], 0
    written = len(content.rstrip(bytes((PROCESS_FILLER,))))
    best: list[Entry] = []
    best_rank = (-1, False)
    for stride in _STRIDES[filled.version]:
        entries = list(_possible(content, stride, count, memory_total_bytes, pid_limit))
        rank = (len(entries), (count - 1) * stride < written <= count * stride)
        if rank > best_rank:
            best, best_rank = entries, rank
    return None if 2 * len(best) <= count else (best, count - len(best))


def _possible(content: bytes, stride: int, count: int, memory_total_bytes: float, pid_limit: int) -> Iterator[Entry]:
    for start in range(0, min(count * stride, len(content) - _HEAD.size + 1), stride):
        pid, memory = _HEAD.unpack_from(content, start)
        if memory == _MEMORY_NOT_AVAILABLE:
            memory = math.nan
        if 0 < pid <= pid_limit and not memory > memory_total_bytes:
            yield Entry(pid, float(memory))


class ProcessReader:
    """Lists one card's processes, on a MIG board those of each slice."""

    def __init__(
        self,
        device: Device,
        clock: Clock,
        slices: Sequence[tuple[Device, MigSlice]],
        memory_total_bytes: float,
        pid_limit: int,
    ) -> None:
        self._device = device
        self._clock = clock
        self._slices = slices
        self._memory_total_bytes = memory_total_bytes
        self._pid_limit = pid_limit
        self._capacity = 64
        self._empty_until_s: dict[tuple[str, str], float] = {}  # by (mig_uuid, kind)
        self._used_bytes: dict[str, float] = {}  # by mig_uuid: memory in use at the last look
        self._since_us = 0  # newest utilization stamp this card returned
        self._looked_s = math.nan
        self._wall_offset_s = math.nan
        self._utilization_seen = False

    def read(self) -> tuple[GpuProcess, ...] | Fault:
        """Return the processes, each with its share of utilization samples since the last look.

        REJECTED when half of a list's entries cannot be: the binding and the driver disagree about its layout.
        """
        merged: dict[tuple[int, str], GpuProcess] = {}
        for device, mig_uuid in self._sources():
            fault = self._list(device, mig_uuid, merged)
            if fault is not None:
                return fault
        ratios = self._utilization({pid for pid, _ in merged}) if merged else {}
        return tuple(
            replace(process, sm_ratio=ratios.get(process.pid, 0.0 if self._utilization_seen else math.nan))
            for process in merged.values()
        )

    def _sources(self) -> Iterator[tuple[Device, str]]:
        # A board in MIG mode tells its processes to the privileged only, each slice its own to everyone.
        if not self._slices:
            yield self._device, ""
        for device, mig_slice in self._slices:
            yield device, mig_slice.mig_uuid

    def _list(self, device: Device, mig_uuid: str, merged: dict[tuple[int, str], GpuProcess]) -> Fault | None:
        now_s = self._clock.mono_s()
        moved = self._memory_moved(device, mig_uuid)
        for kind, name in _KINDS:
            if not moved and now_s < self._empty_until_s.get((mig_uuid, kind), -math.inf):
                continue
            filled = process_list(device, name, self._capacity)
            if isinstance(filled, Fault):
                if kind == "compute" or device.gone is not None:
                    return filled
                continue
            parsed = parse(filled, self._memory_total_bytes, self._pid_limit)
            if parsed is None:
                device.meter.reject("process_list")
                return Fault.REJECTED
            entries, dropped = parsed
            if dropped:
                device.meter.reject("process", dropped)
            self._capacity = max(self._capacity, 2 * filled.count)
            if not entries and kind != "compute":
                self._empty_until_s[mig_uuid, kind] = now_s + _EMPTY_STAYS_S
            for entry in entries:
                _merge(merged, GpuProcess(entry.pid, kind, entry.memory_bytes, mig_uuid))
        return None

    def _memory_moved(self, device: Device, mig_uuid: str) -> bool:
        memory = device.memory_bytes()
        used = math.nan if isinstance(memory, Fault) else float(memory[1])
        before = self._used_bytes.get(mig_uuid, math.nan)
        self._used_bytes[mig_uuid] = used
        return abs(used - before) > CONTEXT_BYTES

    def _utilization(self, pids: set[int]) -> dict[int, float]:
        """Return each process's newest share of SM samples since the last look. Unknown pids are left out."""
        wall_s, mono_s = self._clock.wall_s(), self._clock.mono_s()
        since_s = _FIRST_LOOK_S if math.isnan(self._looked_s) else mono_s - self._looked_s
        self._looked_s = mono_s
        self._follow_wall_clock(mono_s - wall_s)
        filled = process_utilization(self._device, self._since_us, max(self._capacity, 128))
        if isinstance(filled, Fault):
            return {}
        oldest_us = (wall_s - since_s - _STAMP_TOLERANCE_S) * 1e6
        newest_us = (wall_s + _STAMP_TOLERANCE_S) * 1e6
        newest: dict[int, tuple[int, float]] = {}
        size = filled.count * PROCESS_SAMPLE_BYTES
        for pid, stamp_us, sm_percent, *_ in struct.iter_unpack(PROCESS_SAMPLE_LAYOUT, filled.content[:size]):
            if pid == 0 and stamp_us == 0:
                continue  # an entry counted but not filled (Syllo/nvtop#110)
            if stamp_us > newest_us or sm_percent > 100:
                self._device.meter.reject("process_utilization")
                continue
            self._since_us = max(self._since_us, stamp_us)
            if stamp_us >= oldest_us and pid in pids and stamp_us >= newest.get(pid, (0, 0.0))[0]:
                newest[pid] = (stamp_us, sm_percent / 100.0)
        self._utilization_seen |= bool(newest)
        return {pid: ratio for pid, (_, ratio) in newest.items()}

    def _follow_wall_clock(self, offset_s: float) -> None:
        """Move the last stamp with a wall clock that was stepped, or a step back would silence the call for as long."""
        step_s = offset_s - self._wall_offset_s
        self._wall_offset_s = offset_s
        if self._since_us and abs(step_s) > _STAMP_TOLERANCE_S:
            self._since_us = max(1, self._since_us - round(step_s * 1e6))


def _merge(merged: dict[tuple[int, str], GpuProcess], process: GpuProcess) -> None:
    """Add a process; on a second list it keeps its first kind and the greater memory, which is the whole of it."""
    key = (process.pid, process.mig_uuid)
    known = merged.get(key)
    if known is None:
        merged[key] = process
    elif math.isnan(known.used_memory_bytes) or process.used_memory_bytes > known.used_memory_bytes:
        merged[key] = replace(known, used_memory_bytes=process.used_memory_bytes)
