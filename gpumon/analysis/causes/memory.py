"""Memory: the cards' own memory is what limits them, as in single-card decode or a copy kernel.

Looks like: the memory controller busy 0.8 and more (or DRAM activity above a half with SM activity below it), clocks
at their highest, power clearly below the limit, links quiet.
Confused with: tensor-parallel decode (memory controller 0.3 to 0.6 with small, steady, symmetric traffic: that is
latency), large matmuls (0.3 to 0.6), waiting (near 0).
Source: a dmon sample at sm 99 to 100, mem 85 to 87; RTX PRO 6000 copy kernel 404 of 600 W; H200 decode 137 to 300 of
700 W; DCGM guide on DRAM activity.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import Case, Suspicion, mean_of, percent
from gpumon.model.verdict import JobClass


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion with its evidence; its weight is the time split's share."""
    if case.split is None or case.split.mean("memory") < 0.05:
        return None
    evidence = []
    controller, dram = mean_of(case.cards, "memory_controller"), mean_of(case.cards, "dram_active")
    if not math.isnan(dram):
        evidence.append(f"card memory moves data {percent(dram)} of the time (GPM)")
    elif not math.isnan(controller):
        evidence.append(f"card memory is read or written {percent(controller)} of the time")
    power, limit = mean_of(case.cards, "power_mean"), mean_of(case.cards, "power_limit")
    if power < 0.85 * limit:
        evidence.append(f"{power:.0f} of {limit:.0f} W: the arithmetic units are not full")
    return Suspicion(
        JobClass.MEMORY,
        "",
        case.split.mean("memory"),
        tuple(evidence),
        "memory controller activity below 0.6",
    )
