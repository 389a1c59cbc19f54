"""Host, launch: kernels are so small that starting them takes longer than running them.

Looks like: many short gaps (utilization 30 to 95 %), low power, links quiet, one thread of each process at 100 %, no
loaders and no disk.
Confused with: input-bound (loaders, reads), one core that spins in a wait (no gaps then), idle (no CPU).
Source: kempnerpulse's class "busy, low SM"; a case of 7 % model FLOP use at 61 % utilization.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import Case, Suspicion, mean_of, percent
from gpumon.model.verdict import JobClass

FULL_CORE = 0.85
SHORT = 0.5  # of the gaps that last longer than a sample of utilization: launches never do


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where gaps come with one busy thread a process and nothing else on the host."""
    gap = mean_of(case.cards, "gap")
    if not 0.05 <= gap <= 0.9 or case.waiting.culprits:
        return None
    busiest, loaders = case.host("busiest_process_cpus"), case.host("relatives_cpus")
    read, written = case.host("read_bytes_per_second"), case.host("write_bytes_per_second")
    if not busiest >= FULL_CORE or loaders >= 0.5 or read >= 20e6 or written >= 20e6:
        return None
    lull = mean_of(case.cards, "lull")
    short = not lull > SHORT * gap
    return Suspicion(
        JobClass.HOST,
        "launch",
        0.7 if short and not math.isnan(loaders) else 0.35,
        (
            f"no kernel runs {percent(gap)} of the time, in many short gaps",
            f"one process uses {busiest:.1f} CPUs; no loaders, no disk",
        ),
        "longer kernels (a larger batch, CUDA graphs) leaving the speed as it is",
    )
