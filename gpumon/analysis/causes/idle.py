"""Idle: cards are held and nothing is done with them.

Looks like: no kernel for more than half of the time on the job's cards, power at the context level, links quiet, and
nothing of the job at work on the host meanwhile.
Confused with: a job whose host works while its cards wait (loading a model, an offloaded optimizer: 22 s without a
kernel in a step); then its processes use more CPUs than spinning takes, or the disk. A server between two requests and
a notebook between two cells are idle; their processes may spin.
Source: recorded 8x H100 run, contexts open without kernels for 100 s at 117 W; nvml.h on utilization.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import DOUBTFUL, Case, Suspicion, confidence_of, mean_of, percent
from gpumon.analysis.gaps import host_works
from gpumon.model.text import counted
from gpumon.model.verdict import JobClass

QUIET_UTILIZATION = 0.05  # mean of a window that may begin with the last kernels
LATE_UTILIZATION = 0.005  # of its second half
MOSTLY = 0.85  # of the window without a kernel, where nothing is known of the host
SURE = 0.99
PAUSE, PAUSES_S = 0.4, 10.0  # the doubt of a window of no length, and how fast it fades
SPINNING = 0.08
UNTOLD = 0.8  # nothing is known of the host
RARELY = 0.7  # nothing is known of the host, and a kernel runs now and then
SHORTEST_S = 15.0  # without host figures a shorter gap may still be a step


def without_kernels(case: Case) -> bool:
    """Return True where no card ran a kernel and no link moved anything to speak of."""
    if not case.cards:
        return False
    for card in case.cards:
        if not card.utilization <= QUIET_UTILIZATION or not card.late_utilization <= LATE_UTILIZATION:
            return False
    return all(card.pcie.quiet for card in case.cards if card.pcie.known)


def works_on_host(case: Case) -> bool:
    """Return True where the host is at work for the job."""
    return host_works(case.evidence.host, len(case.job.processes))


def _mostly_without(case: Case) -> bool:
    """Return True where kernels are a rare thing on every card and the links are quiet: a burst now and then."""
    rare = all(card.gap >= MOSTLY for card in case.cards)
    return (
        rare and case.evidence.seconds >= SHORTEST_S and all(card.pcie.quiet for card in case.cards if card.pcie.known)
    )


def _confidence(case: Case) -> float:
    """Return the confidence that a job without a kernel in the window has nothing to do.

    It grows with the window: a pause of seconds ends with the next request, save or batch. Processes that keep a CPU
    busy may be about to start something.
    """
    spins = min(1.0, case.host("gpu_process_cpus") / max(1, len(case.job.processes)))
    return SURE - PAUSE * math.exp(-case.evidence.seconds / PAUSES_S) - SPINNING * spins


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where the job's cards have nothing to do for most of their time."""
    if not case.cards:
        return None
    if case.evidence.processes_known and case.evidence.processes == 0:
        said = f"the job holds {counted(len(case.evidence.cards), 'card')} and no process of it uses one"
        return Suspicion(JobClass.IDLE, "", SURE, (said,), "a process of the job on one of its cards", decisive=True)
    told = not math.isnan(case.host("gpu_process_cpus"))
    nothing = without_kernels(case) and not works_on_host(case)
    idle_share = case.split.mean("idle") if case.split is not None else 0.0
    if nothing:
        if not told and case.evidence.seconds < SHORTEST_S:
            return None
        confidence = _confidence(case) if told else UNTOLD
    elif idle_share >= DOUBTFUL:
        confidence = confidence_of(idle_share)
    elif not told and not case.waiting.culprits and _mostly_without(case):
        confidence = RARELY
    else:
        return None
    seconds = f"{case.evidence.seconds:.0f} s"
    utilization = mean_of(case.cards, "utilization")
    evidence = [f"kernels run {percent(utilization)} of the time on {counted(len(case.cards), 'card')} over {seconds}"]
    power = mean_of(case.cards, "power_mean")
    if not math.isnan(power):
        evidence.append(f"{power:.0f} W a card")
    if told:
        evidence.append("its processes do no work on the host meanwhile")
    against = "kernels, link traffic, or CPU and disk work of the job within the window"
    return Suspicion(JobClass.IDLE, "", confidence, tuple(evidence), against, decisive=True)
