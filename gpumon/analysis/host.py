"""What a job does on the host: CPU, disk, loopback, throttling, as rates between two reads of the process table.

CUDA waits spin, so one core at 100 % proves nothing by itself; these figures are only read together with gaps in the
utilization ring.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.model.job import Job
from gpumon.model.process import CgroupSample, Process, ProcessTable

READINGS_KEPT = 24  # reads are 2 to 5 s apart: at least the last minute


@dataclass(frozen=True, slots=True)
class HostRates:
    """One job's host activity between two reads. Rates per second; NaN where not readable."""

    t0_s: float
    t1_s: float
    gpu_process_cpus: float = math.nan  # CPUs used by its GPU processes together
    busiest_process_cpus: float = math.nan  # of one GPU process
    relatives_cpus: float = math.nan  # loaders, launchers
    read_bytes_per_second: float = math.nan  # from disk, cgroup
    write_bytes_per_second: float = math.nan
    throttled_ratio: float = math.nan  # periods in which the CPU quota held it
    io_wait_ratio: float = math.nan  # waits for disk, seconds per second of all its processes
    io_pressure_ratio: float = math.nan
    loopback_bytes_per_second: float = math.nan


@dataclass(frozen=True, slots=True)
class HostLevels:
    """Cumulative counters at the last read, to make the next rates from."""

    read_s: float = math.nan
    cpu: Mapping[tuple[int, int], float] = field(default_factory=dict)  # (pid, start) -> CPU seconds
    io_wait: Mapping[tuple[int, int], float] = field(default_factory=dict)
    cgroups: Mapping[str, CgroupSample] = field(default_factory=dict)
    loopback: Mapping[int, float] = field(default_factory=dict)  # by network namespace, or pid where unknown


@dataclass(frozen=True, slots=True)
class HostPast:
    """A job's recent host activity, oldest first."""

    levels: HostLevels = field(default_factory=HostLevels)
    rates: tuple[HostRates, ...] = ()


def _growth(
    now: Mapping[tuple[int, int], float], before: Mapping[tuple[int, int], float]
) -> dict[tuple[int, int], float]:
    return {
        key: max(0.0, value - before[key])
        for key, value in now.items()
        if key in before and not math.isnan(value) and not math.isnan(before[key])
    }


def _cgroup_growth(now: Mapping[str, CgroupSample], before: Mapping[str, CgroupSample], name: str) -> float:
    grown = [getattr(now[path], name) - getattr(before[path], name) for path in now if path in before]
    known = [max(0.0, value) for value in grown if not math.isnan(value)]
    return sum(known) if known else math.nan


def _levels(job: Job, table: ProcessTable) -> tuple[HostLevels, frozenset[tuple[int, int]]]:
    mine = set(job.processes) | set(job.relatives)
    found: list[Process] = [p for p in table.processes if (p.pid, p.start_ticks) in mine]
    return (
        HostLevels(
            read_s=table.read_s,
            cpu={(p.pid, p.start_ticks): p.cpu_seconds for p in found},
            io_wait={(p.pid, p.start_ticks): p.io_wait_seconds for p in found},
            cgroups={path: table.cgroups[path] for path in job.cgroups if path in table.cgroups},
            loopback={p.net_namespace or -p.pid: p.loopback_bytes for p in found if not math.isnan(p.loopback_bytes)},
        ),
        frozenset(job.processes),
    )


def extend(past: HostPast, job: Job, table: ProcessTable) -> HostPast:
    """Return the job's host activity with the newest read of the process table, if it is new."""
    if math.isnan(table.read_s) or table.read_s == past.levels.read_s:
        return past
    now, gpu_processes = _levels(job, table)
    before = past.levels
    span_s = now.read_s - before.read_s
    if math.isnan(span_s) or span_s <= 0.0:
        return HostPast(now, past.rates)
    cpu = _growth(now.cpu, before.cpu)
    own = [seconds / span_s for key, seconds in cpu.items() if key in gpu_processes]
    others = [seconds / span_s for key, seconds in cpu.items() if key not in gpu_processes]
    waits = _growth(now.io_wait, before.io_wait)
    loopback = [max(0.0, now.loopback[key] - before.loopback[key]) for key in now.loopback if key in before.loopback]
    periods = _cgroup_growth(now.cgroups, before.cgroups, "periods")
    throttled = _cgroup_growth(now.cgroups, before.cgroups, "throttled_periods")
    rates = HostRates(
        before.read_s,
        now.read_s,
        gpu_process_cpus=sum(own) if own else math.nan,
        busiest_process_cpus=max(own) if own else math.nan,
        relatives_cpus=sum(others) if cpu else math.nan,
        read_bytes_per_second=_cgroup_growth(now.cgroups, before.cgroups, "read_bytes") / span_s,
        write_bytes_per_second=_cgroup_growth(now.cgroups, before.cgroups, "write_bytes") / span_s,
        throttled_ratio=throttled / periods if periods > 0.0 else math.nan,
        io_wait_ratio=sum(waits.values()) / span_s if waits else math.nan,
        io_pressure_ratio=_cgroup_growth(now.cgroups, before.cgroups, "io_pressure_some_seconds") / span_s,
        loopback_bytes_per_second=sum(loopback) / span_s if loopback else math.nan,
    )
    return HostPast(now, (*past.rates, rates)[-READINGS_KEPT:])


def mean(past: HostPast, name: str, from_s: float) -> float:
    """Return the mean of one rate over the reads that end after a time; NaN where it was never readable."""
    total, weight = 0.0, 0.0
    for rates in past.rates:
        value = getattr(rates, name)
        if rates.t1_s > from_s and not math.isnan(value):
            total += value * (rates.t1_s - rates.t0_s)
            weight += rates.t1_s - rates.t0_s
    return total / weight if weight > 0.0 else math.nan
