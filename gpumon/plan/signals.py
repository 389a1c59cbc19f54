"""When cards without NVLink are the wrong answer: three signals, each with what it was judged by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gpumon.plan.answer import Plan
from gpumon.plan.layouts import Layout
from gpumon.plan.memory import memory
from gpumon.plan.request import CARDS_PER_NODE, Method, Strategy

# Waiting for links more than this share of the step: a rule of ours. A published tensor-parallel run over PCIe spent
# 0.38 of its step communicating and 0.10 over NVLink (mli/transformers-benchmarks).
HEAVY_RATIO = 0.30
# The 70B class begins here: the smallest published shapes called 70B have 68.9e9 parameters.
LARGE_PARAMETERS = 60e9
# Sending for more than a quarter of the computing time takes the efficiency below 0.8.
NETWORK_RATIO = 0.25


@dataclass(frozen=True, slots=True)
class Signal:
    """One reason to move to a data-centre platform. values: what it was judged by."""

    key: Literal["heavy_and_too_large", "full_training_70b", "beyond_one_node"]
    applies: bool
    link_ratio: float
    network_ratio: float


def signals(answer: Plan) -> tuple[Signal, ...]:
    """Return the three signals, in this order, whether or not they apply."""
    request, chosen = answer.request, answer.chosen
    # One sample, one user, activations recomputed: what does not fit even so cannot be mended by a smaller batch.
    least = replace(request, batch=1, concurrency=1, recompute=request.trains)
    too_large = not memory(least, Layout(Strategy.DDP, 1, 1)).fits
    large = request.method is Method.FULL and request.model.parameters >= LARGE_PARAMETERS
    network = _network_ratio(answer)
    return (
        Signal("heavy_and_too_large", too_large and chosen.link_ratio > HEAVY_RATIO, chosen.link_ratio, network),
        Signal("full_training_70b", large, chosen.link_ratio, network),
        Signal(
            "beyond_one_node", request.cards > CARDS_PER_NODE and network > NETWORK_RATIO, chosen.link_ratio, network
        ),
    )


def _network_ratio(answer: Plan) -> float:
    """Return the time the network between nodes needs for the chosen layout's traffic, over the computing time."""
    sent = sum(
        max(transfer.sent_bytes, transfer.received_bytes)
        for transfer in answer.chosen.traffic
        if transfer.way == "peers" and transfer.members > CARDS_PER_NODE
    )
    return sent / answer.request.network_bytes_per_second / answer.chosen.time.compute_seconds
