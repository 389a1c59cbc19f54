"""Host, input: the cards wait for data to be read, decoded or tokenised.

Looks like: utilization in a sawtooth below 95 %, loader processes or the main thread busy, disk reads or waits for
the disk, small spiky RX and no TX.
Confused with: launch-bound (no loader, no reads; one thread at 100 %), offload (RX and TX in bursts), a checkpoint
(writes). One core at 100 % proves nothing: waiting for a card spins.
Source: pytorch/examples#387, lightning#2701; loader table 0 to 3 workers: 1.12 to 1.84 steps a second.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import Case, Suspicion, gigabytes, mean_of, percent
from gpumon.model.verdict import JobClass

READS = 20e6
LOADERS_CPUS = 0.5


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where kernels have gaps; loaders and disk reads make it likelier."""
    gap = mean_of(case.cards, "gap")
    if not gap >= 0.05:
        return None
    read, loaders = case.host("read_bytes_per_second"), case.host("relatives_cpus")
    throttled = case.host("throttled_ratio")
    waits = case.host("io_wait_ratio")
    sentences = [f"no kernel runs {percent(gap)} of the time"]
    weight = 0.4
    if case.waiting.by_host and case.host("write_bytes_per_second") < READS:
        weight += 0.2
        sentences.append("one rank is late and the others wait for it; nothing is written meanwhile")
    if loaders >= LOADERS_CPUS:
        weight += 0.3
        sentences.append(f"loader processes use {loaders:.1f} CPUs")
    if read >= READS:
        weight += 0.2
        sentences.append(f"the job reads {gigabytes(read)} from disk")
    if waits >= 0.3:
        weight += 0.15
        sentences.append(f"its processes wait for the disk {percent(min(1.0, waits))} of the time")
    if throttled >= 0.2:
        weight += 0.2
        sentences.append(f"its CPU quota held it in {percent(throttled)} of the periods")
    if math.isnan(loaders) and math.isnan(read):
        sentences.append("its processes cannot be read, so the reason is not known")
    return Suspicion(
        JobClass.HOST, "input", min(0.9, weight), tuple(sentences), "kernels without gaps while the loaders are as busy"
    )
