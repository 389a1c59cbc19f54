"""Host, checkpoint: one rank writes the model while the others wait for it.

Looks like: one card without kernels, the others at utilization 100 % and waiting power with quiet links; or all cards
without kernels; the job writes to disk meanwhile.
Confused with: input (reads instead of writes), a hang (nothing is written), evaluation on one rank (its card works).
Source: recorded 8x H100 run: rank 0 at 0 to 5 %, the other seven at 100 % and 150 of 700 W for 14 to 20 s a save.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import Case, Suspicion, gigabytes, percent
from gpumon.model.verdict import JobClass

WRITES = 50e6  # bytes per second


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where the host holds one rank, or all, and the job writes."""
    written, read = case.host("write_bytes_per_second"), case.host("read_bytes_per_second")
    writes = written >= WRITES and not read > written
    inverted = bool(case.waiting.culprits) and case.waiting.by_host
    if not writes and not inverted:
        return None
    if inverted and not math.isnan(written) and not writes:
        return None  # disk figures are there and show no writing
    sentences = []
    if inverted:
        names = ", ".join(str(card.gpu) for card in case.cards if card.uuid in case.waiting.culprits)
        rest = [card for card in case.cards if card.uuid not in case.waiting.culprits]
        high = sum(card.utilization for card in rest) / max(1, len(rest))
        sentences.append(
            f"card {names} runs no kernels while the others spin at {percent(high)} utilization and waiting power"
        )
    if writes:
        sentences.append(f"the job writes {gigabytes(written)} to disk")
    return Suspicion(
        JobClass.HOST,
        "checkpoint",
        0.92 if writes and inverted else 0.75 if writes else 0.6,
        tuple(sentences),
        "no disk writes of the job while its cards wait",
    )
