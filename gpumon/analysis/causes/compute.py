"""Compute: the cards do arithmetic most of the time, and the links are not what holds them.

Looks like: utilization at least 0.9, power near what the card draws at its best, memory controller moderate, links
quiet or busy in the shadow of the work.
Confused with: waiting inside a collective (as high a utilization, a fraction of the power), decode (memory controller
above 0.8), a filler kernel or small matmuls (0.65 of the power, and still compute: nothing else could be waited for).
Source: nanoGPT and PRO 6000 recordings; cluster studies on SM activity against utilization.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import Case, Suspicion, gigabytes, mean_of, percent
from gpumon.model.verdict import JobClass


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion with its evidence; its weight is the time split's share."""
    if case.split is None or not case.cards:
        return None
    share = case.split.mean("compute") + case.split.mean("overlap")
    evidence = []
    utilization, power = mean_of(case.cards, "utilization"), mean_of(case.cards, "power_mean")
    if not math.isnan(utilization):
        evidence.append(f"kernels run {percent(utilization)} of the time")
    limit = mean_of(case.cards, "power_limit")
    if not math.isnan(power):
        of_limit = f" of {limit:.0f} W" if not math.isnan(limit) else ""
        evidence.append(f"{power:.0f} W{of_limit} a card, the level of work and not of waiting")
    sm_active = mean_of(case.cards, "sm_active")
    if not math.isnan(sm_active):
        evidence.append(f"SMs active {percent(sm_active)}")
    overlap = case.split.mean("overlap")
    rates = [card.pcie.rate for card in case.cards if card.pcie.known]
    if rates and overlap >= 0.1:
        evidence.append(f"the link moves {gigabytes(max(rates))} meanwhile without stopping the work")
    elif rates and max(rates) < 1e9:
        evidence.append(f"links carry at most {gigabytes(max(rates))}")
    return Suspicion(
        JobClass.COMPUTE,
        "",
        share,
        tuple(evidence),
        "power falling while the links are busy, or SM activity below a half",
    )
