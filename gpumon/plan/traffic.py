"""Bytes that each card sends and receives over its links, by strategy.

N cards, e bytes an element, b s h micro-batch, sequence and width, L layers. Ring collectives (nccl-tests,
doc/PERFORMANCE.md): an all-reduce of S bytes sends and receives 2(N-1)/N S on each card, an all-gather or
reduce-scatter (N-1)/N S. Strategies: ZeRO (arXiv 1910.02054), Megatron (arXiv 1909.08053, 2104.04473), ZeRO-Offload
(arXiv 2101.06840).

The bytes of a card do not depend on P2P: without it the same bytes cross the same two links with a stop in host memory
(NCCL, src/transport/shm.cc), so host memory is written and read once more for each byte, and the rate is lower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gpumon.plan.layouts import Layout
from gpumon.plan.memory import model_share
from gpumon.plan.request import Method, Request, Strategy
from gpumon.plan.shapes import element_bytes, expert_parameters, stored_bytes, trainable_parameters

# PyTorch DDP's default bucket; DeepSpeed's are larger, and either way the latencies are small beside the bytes.
BUCKET_BYTES = 25e6


@dataclass(frozen=True, slots=True)
class Transfer:
    """One kind of traffic of the busiest card for one optimizer step (inference: one generated token, or one prompt).

    members: cards that take part in one exchange. calls: how many exchanges, each paying the latency once.
    hides: what the computing it can overlap with is, at best: 'nothing', 'backward' (of the last micro-batch), 'all'.
    """

    name: str
    sent_bytes: float
    received_bytes: float
    calls: int
    members: int
    way: Literal["peers", "host"]
    hides: Literal["nothing", "backward", "all"]


def training_traffic(request: Request, plan: Layout) -> tuple[Transfer, ...]:
    """Return what the busiest card exchanges for one optimizer step."""
    gradients = trainable_parameters(request.model, request.method) * element_bytes(request.precision)
    strategy, cards = plan.strategy, plan.cards
    if strategy is Strategy.OFFLOAD:
        return (*_sharded(request, gradients, cards), *_offload(request, gradients, cards))
    if cards == 1:
        return ()
    if strategy in (Strategy.DDP, Strategy.ZERO1):
        return (_all_reduce("gradients", gradients, cards),)
    if strategy is Strategy.ZERO2:
        return _sharded(request, gradients, cards)
    if strategy in (Strategy.FSDP, Strategy.ZERO3):
        return _fully_sharded(request, gradients, cards)
    inner = {Strategy.TP: _tensor, Strategy.PP: _pipeline, Strategy.EP: _experts}[strategy](request, plan)
    shared = gradients * model_share(request, plan)
    if strategy is Strategy.EP:
        own = expert_parameters(request.model) / request.model.parameters * gradients / cards
        return (*inner, _all_reduce("gradients", shared - own, cards))
    if plan.copies == 1:
        return inner
    return (*inner, _all_reduce("gradients", shared, plan.copies))


def token_traffic(request: Request, plan: Layout) -> tuple[Transfer, ...]:
    """Return what the busiest card exchanges while every request of its copy gains one token."""
    requests = plan.requests(request.concurrency)
    return _serving_traffic(request, plan, requests, plan.group if plan.strategy is Strategy.PP else 1)


def prompt_traffic(request: Request, plan: Layout) -> tuple[Transfer, ...]:
    """Return what the busiest card exchanges for one prompt."""
    return _serving_traffic(request, plan, float(request.context - request.output_tokens), 1)


def _serving_traffic(request: Request, plan: Layout, tokens: float, pieces: int) -> tuple[Transfer, ...]:
    model, group = request.model, plan.group
    activations = tokens * model.hidden * element_bytes(request.precision)
    if plan.strategy is Strategy.OFFLOAD:
        weights = stored_bytes(model, model.parameters, request.precision, request.method)
        return (Transfer("weights", 0.0, weights, model.layers, 1, "host", "nothing"),)
    if group == 1:
        return ()
    if plan.strategy is Strategy.PP:
        return (Transfer("activations", activations, activations, pieces, group, "peers", "nothing"),)
    moved = 2 * model.layers * activations * 2 * (group - 1) / group
    return (Transfer("activations", moved, moved, 2 * model.layers, group, "peers", "nothing"),)


def _all_reduce(name: str, size: float, members: int) -> Transfer:
    moved = 2 * (members - 1) / members * size
    return Transfer(name, moved, moved, math.ceil(size / BUCKET_BYTES), members, "peers", "backward")


def _sharded(request: Request, gradients: float, cards: int) -> tuple[Transfer, ...]:
    """Gradients are reduced to their owner after every micro-batch, weights gathered once after the step."""
    if cards == 1:
        return ()
    part = (cards - 1) / cards * gradients
    buckets = math.ceil(gradients / BUCKET_BYTES)
    reduced = part * request.accumulation
    return (
        Transfer("gradients", reduced, reduced, buckets * request.accumulation, cards, "peers", "backward"),
        Transfer("weights", part, part, buckets, cards, "peers", "nothing"),
    )


def _fully_sharded(request: Request, gradients: float, cards: int) -> tuple[Transfer, ...]:
    """Weights are gathered for both passes of every micro-batch; accumulation saves nothing."""
    model, times = request.model, request.accumulation
    if request.method is Method.FULL:
        weights = gradients
    else:
        weights = stored_bytes(model, model.parameters, request.precision, request.method) + gradients
    layers = model.layers or 1
    part = (cards - 1) / cards * times
    return (
        Transfer("weights", 2 * part * weights, 2 * part * weights, 2 * layers * times, cards, "peers", "all"),
        Transfer("gradients", part * gradients, part * gradients, layers * times, cards, "peers", "all"),
    )


def _activation_bytes(request: Request) -> float:
    return float(request.batch * request.sequence * request.model.hidden * element_bytes(request.precision))


def _tensor(request: Request, plan: Layout) -> tuple[Transfer, ...]:
    """Two all-reduces forward and two backward a layer and micro-batch; recomputation repeats the forward ones."""
    if plan.group == 1:
        return ()
    calls = (6 if request.recompute else 4) * request.model.layers * request.accumulation * plan.group
    moved = calls * _activation_bytes(request) * 2 * (plan.group - 1) / plan.group
    return (Transfer("activations", moved, moved, calls, plan.group, "peers", "nothing"),)


def _pipeline(request: Request, plan: Layout) -> tuple[Transfer, ...]:
    """Each boundary hands activations on and gradients back; a middle stage has two boundaries."""
    if plan.group == 1:
        return ()
    pieces = request.accumulation * plan.group
    moved = pieces * _activation_bytes(request) * (2 if plan.group > 2 else 1)
    return (Transfer("activations", moved, moved, 2 * pieces, plan.group, "peers", "all"),)


def _experts(request: Request, plan: Layout) -> tuple[Transfer, ...]:
    """Tokens go to their experts and back, in the forward and in the backward pass: four all-to-alls in each layer."""
    model, cards = request.model, plan.cards
    calls = (6 if request.recompute else 4) * model.layers * request.accumulation
    moved = calls * _activation_bytes(request) * model.experts_per_token * (cards - 1) / cards
    return (Transfer("tokens", moved, moved, calls, cards, "peers", "nothing"),)


def _offload(request: Request, gradients: float, cards: int) -> tuple[Transfer, ...]:
    """Gradients go down to the host, updated weights come up: each card carries its shard."""
    return (
        Transfer("gradients", gradients / cards, 0.0, 1, 1, "host", "backward"),
        Transfer("weights", 0.0, gradients / cards, 1, 1, "host", "nothing"),
    )
