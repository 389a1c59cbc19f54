"""Processes and the host as procfs and cgroupfs show them. What cannot be read is a Fault, never a guess.

Command lines, environments and names may hold secrets and hostile text: nothing here becomes a label, a log line at
info level, or part of a recording that was not asked to carry it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.model.fault import Fault


@dataclass(frozen=True, slots=True)
class Process:
    """A process is (pid, start_ticks): the pid alone is reused."""

    pid: int
    start_ticks: int  # field 22 of /proc/PID/stat: clock ticks since boot, immune to clock steps
    ppid: int
    session: int  # session leader's pid
    uid: int  # -1 when unknown
    state: str  # R, S, D, Z, ...
    comm: str
    cmdline: tuple[str, ...] | Fault
    cgroup: str | Fault  # text of /proc/PID/cgroup
    environ: Mapping[str, str] | Fault  # allow-listed variables only
    cpu_seconds: float  # user + system, this process; NaN when unknown
    threads: int  # 0 when unknown
    # N of /dev/nvidiaN: given to its container by mountinfo, or, where ProcessTable.foreign_pids, held open by it.
    gpu_minors: frozenset[int] | Fault
    shm_size_bytes: float = math.nan  # size of its /dev/shm
    io_wait_seconds: float = math.nan  # delayacct_blkio_ticks
    cpus_allowed: int = 0  # how many CPUs its affinity mask has; 0 unknown
    loopback_bytes: float = math.nan  # lo line of /proc/PID/net/dev (its network namespace), rx
    net_namespace: int = 0  # inode when readable, else 0
    rss_bytes: float = math.nan
    swap_bytes: float = math.nan
    thread_names: str = ""  # names of its threads that frameworks give (pt_nccl_watchdg, pt_data_pin, ...), by blanks
    numa_nodes: frozenset[int] = frozenset()  # of the CPUs in its affinity mask; empty unknown
    folder: str = ""  # it works in, as it sees it itself; "" when that may not be read
    slice_hook: str = ""  # a library that cuts the card into slices and answers NVML in the container: "hami"


@dataclass(frozen=True, slots=True)
class CgroupSample:
    """Counters of one control group (v2 names), cumulative. NaN where absent."""

    path: str
    cpu_seconds: float = math.nan
    throttled_seconds: float = math.nan
    throttled_periods: float = math.nan
    periods: float = math.nan
    cpu_quota_cpus: float = math.nan  # cpu.max as a number of CPUs; NaN = no limit or unknown
    read_bytes: float = math.nan
    write_bytes: float = math.nan
    io_pressure_some_seconds: float = math.nan


@dataclass(frozen=True, slots=True)
class Container:
    """What the container runtime's API or files tell of one container. Text a tenant chose: never a label as it is."""

    container_id: str  # full id
    name: str
    runtime: str  # docker, podman, containerd, ...
    image: str
    labels: Mapping[str, str]
    gpu_minors: frozenset[int] | Fault = Fault.NOT_FOUND  # cards it was given, by device file
    gpu_request: str | None = None  # cards it was given, in a form of NVIDIA_VISIBLE_DEVICES; None when not said
    owner_uid: int = -1  # of a rootless runtime; -1 for the host's own runtime


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """GPU processes and their relatives, read every 2 to 5 s; the same object between reads."""

    read_s: float = math.nan  # monotonic
    processes: tuple[Process, ...] = ()
    cgroups: Mapping[str, CgroupSample] = field(default_factory=dict)
    containers: Mapping[str, Container] = field(default_factory=dict)  # by full id
    hidden: int = 0  # GPU pids that procfs does not show (hidepid, other namespace)
    users: Mapping[int, str] = field(default_factory=dict)  # uid -> name from the passwd database
    # Allow-listed keys of configuration files named on command lines: (pid, start_ticks) -> dotted key -> value.
    configs: Mapping[tuple[int, int], Mapping[str, str]] = field(default_factory=dict)
    containers_pending: frozenset[str] = frozenset()  # full ids whose name is being asked for
    # The driver's pids are of a namespace that this procfs does not show: `processes` are those found by open
    # device files, and must not be joined to the driver's lists by pid.
    foreign_pids: bool = False


@dataclass(frozen=True, slots=True)
class HostSample:
    """The host's own load. Counters are cumulative; NaN where absent."""

    cpu_busy_seconds: float = math.nan  # all CPUs together
    cpu_iowait_seconds: float = math.nan
    cpu_total_seconds: float = math.nan
    memory_available_bytes: float = math.nan
    memory_total_bytes: float = math.nan
    swap_in_bytes: float = math.nan
    swap_out_bytes: float = math.nan
    pressure_cpu_some_seconds: float = math.nan
    pressure_io_some_seconds: float = math.nan
    pressure_memory_some_seconds: float = math.nan
    disk_read_bytes: float = math.nan
    disk_write_bytes: float = math.nan
    loopback_bytes: float = math.nan
    aer_errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # uuid -> kind -> count
