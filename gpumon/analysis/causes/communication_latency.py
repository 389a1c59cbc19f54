"""Communication, latency: many small messages; the links look quiet and the cards still wait for each other.

Looks like: kernels resident all the time, low power, small steady traffic the same in both directions and on all
cards, far from any limit. Tensor-parallel decode is the common case: two all-reduces a layer at 20 to 25 us each.
Confused with: single-card decode (no traffic, memory controller above 0.8), small matmuls without peers (no traffic),
a straggler (one card is different).
Source: derived from published all-reduce latencies: 60 layers x 2 x 25 us = 3 ms a token; vllm-project/vllm#1873.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import Case, Suspicion, gigabytes
from gpumon.analysis.causes.communication_bandwidth import busiest_link, level, traffic_evidence
from gpumon.analysis.time_split import LARGE_MESSAGES
from gpumon.model.verdict import JobClass

REPLICAS = 0.4  # gradients travel in large buckets: a low rate is a slow path then


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion; it fits the better the less of the waiting the bytes explain."""
    if case.split is None or len(case.cards) < 2:
        return None
    links = [link for link in map(busiest_link, case.cards) if link is not None]
    if not links or all(link.quiet for link in links):
        return None
    levels = [full for full in (level(case, link) for link in links) if not math.isnan(full)]
    fits = 0.5
    if levels:
        fits = 0.15 + 0.6 / (1.0 + math.exp((max(levels) - 0.3) / 0.05))
    if case.job.layout.asked in LARGE_MESSAGES:
        fits *= REPLICAS
    rates = [link.rate for link in links if not math.isnan(link.rate)]
    return Suspicion(
        JobClass.COMMUNICATION,
        "latency",
        fits,
        (f"messages are small: busy links reach {gigabytes(max(rates, default=0.0))} only", *traffic_evidence(case)),
        "no traffic at all between the cards, or a memory controller above 0.8",
    )
