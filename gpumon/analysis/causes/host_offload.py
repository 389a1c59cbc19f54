"""Host, offload: weights, gradients or optimizer state live in host memory and are moved or updated there.

Looks like: long gaps without kernels and busy CPUs; bursts on the link in one direction, then in the other, with equal
means; or RX far above TX on the card that is fed.
Confused with: collectives (both directions in the same instant, kernels resident), input (small RX, no TX).
Source: deepspeedai/DeepSpeed#1635: a step of 22.9 s around a forward pass of 0.38 s; llama.cpp expert offload: RX 4.9
to 9.2 GB/s against TX 0.8 to 1.7 on the feeding card.
"""

from __future__ import annotations

import math

from gpumon.analysis import gaps
from gpumon.analysis.case import Case, Suspicion, gigabytes, mean_of, percent
from gpumon.model.verdict import JobClass

IN_TURN = 0.35
LOPSIDED = 4.0
MOVES = 0.01  # of the ceiling


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where gaps come with traffic in turn or one way."""
    gap = mean_of(case.cards, "gap")
    moving = [card for card in case.cards if card.pcie.known and card.pcie.rate >= MOVES * card.pcie.ceiling]
    if not moving or not gap >= 0.05 or (case.waiting.culprits and not case.job.layout.offload):
        return None
    together = [card.pcie.same_instant for card in moving if not math.isnan(card.pcie.same_instant)]
    in_turn = bool(together) and sum(together) / len(together) <= IN_TURN
    busiest = max(moving, key=lambda card: card.pcie.rate)
    lopsided = busiest.pcie.rx >= LOPSIDED * busiest.pcie.tx
    if not in_turn and not lopsided and not case.job.layout.offload:
        return None
    cpus = case.host("gpu_process_cpus")
    if not case.job.layout.offload and cpus <= gaps.MORE_THAN_SPINNING * max(1, len(case.job.processes)):
        return None  # whoever keeps weights or optimizer on the host computes there as well
    sentences = [f"no kernel runs {percent(gap)} of the time"]
    sentences.append(f"card {busiest.gpu} moves {gigabytes(busiest.pcie.rx)} in and {gigabytes(busiest.pcie.tx)} out")
    if in_turn:
        sentences.append("the directions move in turn, not in the same instant")
    weight = 0.55 + 0.2 * in_turn + 0.15 * case.job.layout.offload
    if cpus >= 2.0:
        weight += 0.1
        sentences.append(f"its processes use {cpus:.1f} CPUs")
    return Suspicion(
        JobClass.HOST,
        "offload",
        min(0.95, weight),
        tuple(sentences),
        "both directions busy in the same instant, or kernels without gaps",
    )
