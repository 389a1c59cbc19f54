"""Time without a kernel: is the host at work for the job meanwhile, or is there nothing to do?

A process that waits for its card, or for a request, often spins: one CPU each proves nothing. Work on the host shows as
loaders, disk traffic, a CPU quota in force, or more CPUs than processes (an optimizer in host memory).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gpumon.model.job import Job, Layout

# Frameworks whose processes wait for requests.
SERVERS = frozenset({"vllm", "sglang", "llama.cpp", "tgi", "tensorrt-llm"})
RELATIVES_CPUS = 0.5  # half a core all the time is more than a waiting process's heartbeat
DISK_BYTES = 20e6  # bytes per second from or to disk
QUOTA_PERIODS = 0.2  # of the periods held back
IO_WAIT = 0.3  # seconds per second
MORE_THAN_SPINNING = 1.3  # CPUs of one process: a spinning thread is 1
HARDLY = 0.25  # of a CPU
LOOPBACK_BYTES = 50e6  # bytes per second; rendezvous and metrics stay far below


def host_works(host: Mapping[str, float], processes: int) -> bool:
    """Return True where the job's processes work on the host in a way that waiting does not."""

    def rate(name: str) -> float:
        value = host.get(name, math.nan)
        return 0.0 if math.isnan(value) else value

    return (
        rate("relatives_cpus") >= RELATIVES_CPUS
        or rate("read_bytes_per_second") + rate("write_bytes_per_second") >= DISK_BYTES
        or rate("throttled_ratio") >= QUOTA_PERIODS
        or rate("io_wait_ratio") >= IO_WAIT
        or rate("gpu_process_cpus") >= MORE_THAN_SPINNING * max(1, processes)
    )


def nothing_to_do(host: Mapping[str, float], job: Job, busy: float) -> bool:
    """Return True where the gaps between kernels are nobody's work.

    Args:
        busy: share of time with a kernel, mean over the job's cards: a process spins at least as long.
    """
    cpus = host.get("gpu_process_cpus", math.nan)
    if math.isnan(cpus) or host_works(host, len(job.processes)):
        return False
    if job.layout.framework in SERVERS:
        return True
    return cpus / max(1, len(job.processes)) <= busy + HARDLY * (1.0 - busy)


def through_host(host: Mapping[str, float], layout: Layout) -> bool:
    """Return True where the job's collectives go through the CPU: gloo, or real traffic on its loopback network."""
    return layout.backend == "gloo" or host.get("loopback_bytes_per_second", math.nan) >= LOOPBACK_BYTES
