"""The host's own load: CPU, memory, swap, pressure, disks, loopback. Counters since boot, readable by everyone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from gpumon.hardware.procfs import files
from gpumon.hardware.procfs.cgroups import some_pressure_seconds
from gpumon.hardware.procfs.stat import PAGE_BYTES, TICKS
from gpumon.hardware.sysfs.aer import link_errors
from gpumon.model.fault import Fault
from gpumon.model.process import HostSample

_SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk's own sector is
_LONGEST = 1 << 20  # /proc/stat of a host with 512 CPUs and its interrupts
# Block devices that stand on others, whose bytes would count twice, or that are no disks.
_STACKED = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "drbd", "bcache")


def link_error_counts(sysfs_root: str, uuids_by_address: Mapping[str, str]) -> Mapping[str, Mapping[str, float]]:
    """Read the error counters of the cards' links: uuid -> kind -> count; six small files a card."""
    found = {uuid: link_errors(address, sysfs_root=Path(sysfs_root)) for address, uuid in uuids_by_address.items()}
    return {uuid: counts for uuid, counts in found.items() if not isinstance(counts, Fault)}


def host_sample(
    procfs_root: str, sysfs_root: str, link_errors_by_uuid: Mapping[str, Mapping[str, float]]
) -> HostSample:
    """Read the host's counters, about ten small files, and take the links' errors along."""
    busy, iowait, total = _cpu(_text(f"{procfs_root}/stat"))
    memory = _kilobytes(_text(f"{procfs_root}/meminfo"))
    vm = _words(_text(f"{procfs_root}/vmstat"))
    read_bytes, write_bytes = _disks(_text(f"{procfs_root}/diskstats"), files.names(f"{sysfs_root}/block"))
    return HostSample(
        cpu_busy_seconds=busy,
        cpu_iowait_seconds=iowait,
        cpu_total_seconds=total,
        memory_available_bytes=memory.get("MemAvailable", math.nan),
        memory_total_bytes=memory.get("MemTotal", math.nan),
        swap_in_bytes=vm.get("pswpin", math.nan) * PAGE_BYTES,
        swap_out_bytes=vm.get("pswpout", math.nan) * PAGE_BYTES,
        pressure_cpu_some_seconds=some_pressure_seconds(_text(f"{procfs_root}/pressure/cpu")),
        pressure_io_some_seconds=some_pressure_seconds(_text(f"{procfs_root}/pressure/io")),
        pressure_memory_some_seconds=some_pressure_seconds(_text(f"{procfs_root}/pressure/memory")),
        disk_read_bytes=read_bytes,
        disk_write_bytes=write_bytes,
        loopback_bytes=loopback_bytes(_text(f"{procfs_root}/net/dev")),
        aer_errors=link_errors_by_uuid,
    )


def loopback_bytes(text: str) -> float:
    """Return the bytes that the loopback device received, from a net/dev file; NaN without the line."""
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        if colon and name.strip() == "lo":
            first = rest.split(maxsplit=1)[:1]
            return float(first[0]) if first and first[0].isdigit() else math.nan
    return math.nan


def _text(path: str) -> str:
    text = files.text(path, _LONGEST)
    return "" if isinstance(text, Fault) else text


def _cpu(text: str) -> tuple[float, float, float]:
    """Return busy, I/O wait and total seconds of all CPUs.

    Source: man 5 proc_stat: user nice system idle iowait irq softirq steal; guest time is within user time already.
    """
    words = text.partition("\n")[0].split()
    if len(words) < 9 or words[0] != "cpu" or not all(word.isdigit() for word in words[1:9]):
        return math.nan, math.nan, math.nan
    user, nice, system, idle, iowait, irq, softirq, steal = (int(word) / TICKS for word in words[1:9])
    busy = user + nice + system + irq + softirq + steal
    return busy, iowait, busy + idle + iowait


def _kilobytes(text: str) -> dict[str, float]:
    rows = (line.replace(":", " ").split() for line in text.splitlines())
    return {row[0]: int(row[1]) * 1024.0 for row in rows if len(row) >= 2 and row[1].isdigit()}


def _words(text: str) -> dict[str, float]:
    rows = (line.split() for line in text.splitlines())
    return {row[0]: float(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def _disks(text: str, disks: tuple[str, ...]) -> tuple[float, float]:
    """Return bytes read and written by whole disks. Source: Documentation/admin-guide/iostats.rst, fields 3 and 7."""
    wanted = {name for name in disks if not name.startswith(_STACKED)}
    read, written, found = 0, 0, False
    for line in text.splitlines():
        words = line.split()
        if len(words) > 9 and words[2] in wanted and words[5].isdigit() and words[9].isdigit():
            read, written, found = read + int(words[5]), written + int(words[9]), True
    if not found:
        return math.nan, math.nan
    return float(read * _SECTOR_BYTES), float(written * _SECTOR_BYTES)
