"""Communication, host path: collectives through the CPU: gloo, or NCCL over the loopback network.

Looks like: utilization low on all cards at once, CPU busy, the loopback interface of the job's network namespace
carrying the gradients, link traffic in turn (down to the host, then up again).
Confused with: input-bound (no loopback traffic, the disk or loader processes work), offload (no loopback traffic).
Source: recorded 2x TITAN X run: 0.70 s a step with gloo, 0.19 s with nccl, utilization 28 %; NVIDIA/nccl shm.cc.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import Case, Suspicion, gigabytes, mean_of, percent
from gpumon.analysis.gaps import LOOPBACK_BYTES
from gpumon.model.verdict import JobClass


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where the job's own loopback carries real traffic, or it was launched with gloo."""
    if len(case.cards) < 2:
        return None
    loopback = case.host("loopback_bytes_per_second")
    gloo = case.job.layout.backend == "gloo"
    if not loopback >= LOOPBACK_BYTES and not gloo:
        return None
    sentences = []
    if loopback >= LOOPBACK_BYTES:
        sentences.append(f"{gigabytes(loopback)} pass through the loopback network of the job")
    if gloo:
        sentences.append("the job was started with the gloo backend")
    utilization = mean_of(case.cards, "utilization")
    if not math.isnan(utilization):
        sentences.append(f"kernels run {percent(utilization)} of the time")
    return Suspicion(
        JobClass.COMMUNICATION,
        "host_path",
        0.9 if loopback >= LOOPBACK_BYTES else 0.55,
        tuple(sentences),
        "no loopback traffic while the cards wait",
    )
