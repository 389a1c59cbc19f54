"""/proc/PID/stat and /proc/PID/status of one process."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from gpumon.hardware.procfs.numa import mask_of

TICKS = float(os.sysconf("SC_CLK_TCK"))
PAGE_BYTES = float(os.sysconf("SC_PAGE_SIZE"))


@dataclass(frozen=True, slots=True)
class Stat:
    """What changes with every reading, and the identity. Source: man 5 proc_pid_stat, field numbers beside."""

    comm: str  # 2
    state: str  # 3
    ppid: int  # 4
    session: int  # 6
    cpu_seconds: float  # 14 + 15: user and system time of all threads, ended ones too
    threads: int  # 20
    start_ticks: int  # 22: since boot, in the reader's time namespace
    rss_bytes: float  # 24
    io_wait_seconds: float  # 42: needs the kernel's delay accounting, else 0


def parse(raw: bytes) -> Stat | None:
    """Return the fields of a stat file, None when it is cut short.

    The name may hold blanks and parentheses, so fields are counted from the last closing one.
    """
    opening, closing = raw.find(b"("), raw.rfind(b")")
    if opening < 0 or closing < opening:
        return None
    fields = raw[closing + 2 :].split()
    try:
        return Stat(
            comm=raw[opening + 1 : closing].decode("utf-8", "replace"),
            state=fields[0].decode("ascii", "replace"),
            ppid=int(fields[1]),
            session=int(fields[3]),
            cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS,
            threads=int(fields[17]),
            start_ticks=int(fields[19]),
            rss_bytes=int(fields[21]) * PAGE_BYTES,
            io_wait_seconds=int(fields[39]) / TICKS if len(fields) > 39 else math.nan,
        )
    except (ValueError, IndexError):
        return None


@dataclass(frozen=True, slots=True)
class Status:
    """What seldom changes. Source: man 5 proc_pid_status."""

    uid: int = -1  # real user
    swap_bytes: float = math.nan
    cpus_mask: int = 0  # bit n: it may run on CPU n; 0 unknown

    @property
    def cpus_allowed(self) -> int:
        """How many CPUs it may run on."""
        return self.cpus_mask.bit_count()


def parse_status(text: str) -> Status:
    """Return the wanted lines of a status file."""
    uid, swap_bytes, cpus = -1, math.nan, 0
    for line in text.split("\n"):
        if line.startswith("Uid:"):
            words = line.split()
            uid = int(words[1]) if len(words) > 1 and words[1].isdigit() else -1
        elif line.startswith("VmSwap:"):
            words = line.split()
            swap_bytes = int(words[1]) * 1024.0 if len(words) > 1 and words[1].isdigit() else math.nan
        elif line.startswith("Cpus_allowed:"):
            cpus = mask_of(line.partition(":")[2])
    return Status(uid, swap_bytes, cpus)
