"""What the host gives to jobs and to gpumon: process visibility, /dev/shm, clocks, configuration.

A simulated node has no host of its own to judge.
"""

from __future__ import annotations

import math

from gpumon.doctor.examination import Examination
from gpumon.doctor.result import Result, failed, passed, warned

# Docker gives 64 MB unless told otherwise; NCCL without peer access and data loaders move their bytes through
# /dev/shm and die there (NVIDIA/nccl#290, #342; pytorch/pytorch#58386).
_SMALL_SHM_BYTES = 1 << 30

# 2025-01-01: no node that runs this program can honestly have an earlier date.
_EARLIEST_WALL_S = 1735689600.0

# Clock sources whose reads leave the CPU: each costs microseconds instead of some 20 ns.
_SLOW_CLOCK_SOURCES = frozenset({"hpet", "acpi_pm", "refined-jiffies", "jiffies"})


def process_visibility(examination: Examination) -> tuple[Result, ...]:
    """procfs shows the processes that the driver lists."""
    if examination.facts.simulated:
        return ()
    seen = examination.processes
    if seen.foreign:
        return (
            warned(
                "processes",
                "The driver's process numbers are another namespace's: processes here are known by the device files "
                "they hold, all others not at all.",
                "Start gpumon with the host's processes (--pid=host), or mount the host's procfs and name it in "
                "GPUMON_PROCFS_ROOT.",
            ),
        )
    if seen.hidden:
        return (
            warned(
                "processes",
                f"{seen.hidden} of {seen.listed} processes on the cards are hidden from this user: their jobs have no "
                "name.",
                "Run gpumon as root, or mount procfs without hidepid; in a unit set ProtectProc=default.",
            ),
        )
    if examination.hidepid and examination.user_id != 0:
        return (
            warned(
                "processes",
                f"procfs is mounted with hidepid={examination.hidepid}: other users' jobs cannot be named.",
                "Add gpumon's user to the group of the mount option gid=, or run gpumon as root.",
            ),
        )
    return (passed("processes", "procfs shows all processes of this pid namespace."),)


def sliced_cards(examination: Examination) -> tuple[Result, ...]:
    """No library cuts cards into slices behind the driver's back."""
    if not examination.processes.slice_hooks:
        return ()
    names = ", ".join(examination.processes.slice_hooks)
    return (
        warned(
            "slices",
            f"Containers here get slices of cards from a library ({names}) that answers for the driver inside them.",
            "gpumon shows whole cards; limits of memory and time inside a slice are the library's and not seen here.",
        ),
    )


def shared_memory(examination: Examination) -> tuple[Result, ...]:
    """/dev/shm is large enough for cards that talk through host memory."""
    if examination.facts.simulated:
        return ()
    size = examination.shm_bytes
    if math.isnan(size):
        return (
            warned("shm", "/dev/shm is not mounted: multi-card jobs here fall back to sockets or fail.", _SHM_REMEDY),
        )
    if size < _SMALL_SHM_BYTES:
        return (
            warned("shm", f"/dev/shm holds {size / 1e6:.0f} MB: too small for multi-card jobs run here.", _SHM_REMEDY),
        )
    return (passed("shm", f"/dev/shm holds {size / 1e9:.1f} GB."),)


_SHM_REMEDY = "Start the container with --shm-size=16g or --ipc=host; in Kubernetes mount an emptyDir of medium Memory."


def clock(examination: Examination) -> tuple[Result, ...]:
    """The wall clock is plausible and kept, and reading the clock is cheap."""
    if examination.facts.simulated:
        return ()
    if examination.wall_s < _EARLIEST_WALL_S:
        return (failed("clock", "The wall clock is years behind.", "Set it, and enable chrony or systemd-timesyncd."),)
    results = []
    if examination.clock_synchronised is False:
        results.append(
            warned(
                "clock",
                "Nothing keeps the wall clock right: times in reports and alerts may be off.",
                "Enable chrony or systemd-timesyncd. gpumon's own intervals use the monotonic clock.",
            )
        )
    if examination.clock_source in _SLOW_CLOCK_SOURCES:
        results.append(
            warned(
                "clock",
                f"The kernel reads time from {examination.clock_source}, which makes every time stamp slow.",
                "Read `dmesg | grep -i tsc` for why the TSC was given up.",
            )
        )
    if not results:
        kept = {True: "synchronised", None: "synchronisation not readable"}[examination.clock_synchronised]
        results.append(passed("clock", f"Wall clock {kept}, source {examination.clock_source or 'unknown'}."))
    return tuple(results)


def config(examination: Examination) -> tuple[Result, ...]:
    """The configuration has no mistakes."""
    problems = examination.config_problems
    if problems is None:
        return ()
    if problems:
        return tuple(failed("config", problem, "`gpumon check-config FILE` lists all of them.") for problem in problems)
    return (passed("config", "Valid."),)
