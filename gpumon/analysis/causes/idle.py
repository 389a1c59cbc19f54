"""Idle: cards are held and nothing is done with them.

Looks like: no kernel for the whole window on any card, power at the context level, links quiet, and no work of the
job's processes on the host.
Confused with: a job whose host works while its cards wait (loading a model, an offloaded optimizer: 22 s without a
kernel in a step); then its processes use CPU or disk. A notebook between two cells is idle.
Source: recorded 8x H100 run, contexts open without kernels for 100 s at 117 W; nvml.h on utilization.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import Case, Suspicion, mean_of, percent
from gpumon.model.verdict import JobClass

QUIET_UTILIZATION = 0.05  # mean of a window that may begin with the last kernels
LATE_UTILIZATION = 0.005  # of its second half
HOST_WORKS_CPUS = 0.5  # half a core all the time is more than a waiting process's heartbeat
HOST_WORKS_BYTES = 20e6  # bytes per second from or to disk
SHORTEST_S = 15.0  # without host figures a shorter gap may still be a step


def host_works(case: Case) -> bool:
    """Return True where the job's processes use CPU or disk in a way that waiting does not."""
    cpus = [case.host("gpu_process_cpus"), case.host("relatives_cpus")]
    disk = [case.host("read_bytes_per_second"), case.host("write_bytes_per_second")]
    busy_cpus = sum(value for value in cpus if not math.isnan(value))
    busy_disk = sum(value for value in disk if not math.isnan(value))
    return busy_cpus >= HOST_WORKS_CPUS or busy_disk >= HOST_WORKS_BYTES


def without_kernels(case: Case) -> bool:
    """Return True where no card ran a kernel and no link moved anything to speak of."""
    if not case.cards:
        return False
    for card in case.cards:
        if not card.utilization <= QUIET_UTILIZATION or not card.late_utilization <= LATE_UTILIZATION:
            return False
    return all(card.pcie.quiet for card in case.cards if card.pcie.known)


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion, or None where a card worked."""
    if not case.cards:
        return None
    if case.evidence.processes_known and case.evidence.processes == 0:
        return Suspicion(
            JobClass.IDLE,
            "",
            0.95,
            (f"the job holds {len(case.evidence.cards)} cards and no process of it uses one",),
            "a process of the job on one of its cards",
            decisive=True,
        )
    if not without_kernels(case) or host_works(case):
        return None
    told = not math.isnan(case.host("gpu_process_cpus"))
    if not told and case.evidence.seconds < SHORTEST_S:
        return None
    utilization = mean_of(case.cards, "utilization")
    power = mean_of(case.cards, "power_mean")
    evidence = [f"utilization {percent(utilization)} on all {len(case.cards)} cards for {case.evidence.seconds:.0f} s"]
    if not math.isnan(power):
        evidence.append(f"{power:.0f} W a card")
    if told:
        evidence.append("its processes use no CPU or disk")
    return Suspicion(
        JobClass.IDLE,
        "",
        0.95 if told else 0.85,
        tuple(evidence),
        "kernels, link traffic, or CPU and disk work of the job within the window",
        decisive=True,
    )
