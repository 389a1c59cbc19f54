"""Memory of the fullest card for a layout, part by part.

Bytes for each parameter in training (ZeRO, arXiv 1910.02054): mixed precision 2 weights + 2 gradients + 12 optimizer
(32-bit copy and two moments) = 16; 18 where gradients are kept in 32 bit (stas00/ml-engineering). FP32: 4 + 4 + 8.
Eight-bit Adam keeps its moments in 2 bytes instead of 8 (arXiv 2110.02861). What is sharded over which cards is the
strategy. Not counted: fragmentation beyond the headroom, and evaluation or checkpoint copies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpumon.plan.layouts import Layout
from gpumon.plan.request import Method, Optimizer, Precision, Request, Strategy
from gpumon.plan.shapes import (
    element_bytes,
    embedding_parameters,
    expert_parameters,
    kv_bytes_per_token,
    stored_bytes,
    trainable_parameters,
)

# A context took 426 MiB a process on a published 8-card node; NCCL's buffers and library workspaces take about as much.
RUNTIME_BYTES = 0.9e9
# Above this share of the card a plan is called tight: allocators fragment and the next longer sample is the one too
# many.
TIGHT_RATIO = 0.92
# DeepSpeed's default bucket, elements (reduce_bucket_size, allgather_bucket_size).
ZERO_BUCKET_ELEMENTS = 5e8
# Bytes of activations for each token and unit of width in one block, 16 bit, attention never stored as a matrix
# (arXiv 2205.05198: 34 s b h); tensor parallelism divides 24 of the 34. Full recomputation keeps the block's input: 2.
BLOCK_BYTES, BLOCK_BYTES_SPLIT, BLOCK_INPUT_BYTES = 34, 24, 2
# Logits in 16 bit, their 32-bit copy and the gradient of it in 16 bit, for each token and word of the vocabulary.
LOGIT_BYTES = 8
# A prompt is worked through in pieces of at most this many tokens (vLLM's and SGLang's chunked prefill: 2048 to 8192).
PREFILL_CHUNK = 8192
# Working memory of a prefill piece for each token and unit of width: the widest activations of a block, in 16 bit.
PREFILL_BYTES = 16
# FSDP and ZeRO-3 hold the block in use and the next one whole. An image model's blocks are unequal: counted as 20.
GATHERED_BLOCKS, IMAGE_BLOCKS = 2, 20


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on the fullest card. host_bytes is what all cards together put into the host's memory."""

    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    kv_cache_bytes: float
    buffers_bytes: float
    runtime_bytes: float
    host_bytes: float
    capacity_bytes: float

    @property
    def total_bytes(self) -> float:
        """Return what the fullest card must hold."""
        return (
            self.weights_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
            + self.kv_cache_bytes
            + self.buffers_bytes
            + self.runtime_bytes
        )

    @property
    def used_ratio(self) -> float:
        """Return need over capacity; above 1 the job does not start or dies."""
        return self.total_bytes / self.capacity_bytes

    @property
    def fits(self) -> bool:
        """Return whether the fullest card holds it."""
        return self.used_ratio <= 1

    @property
    def tight(self) -> bool:
        """Return whether it fits with little to spare."""
        return self.fits and self.used_ratio > TIGHT_RATIO


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes for each trainable parameter."""

    weight: float
    gradient: float
    optimizer: float

    @property
    def total(self) -> float:
        """Return all bytes of one trainable parameter."""
        return self.weight + self.gradient + self.optimizer


def state_bytes(precision: Precision, optimizer: Optimizer) -> StateBytes:
    """Return weights, gradients and optimizer state of one trainable parameter."""
    moments = 8.0 if optimizer is Optimizer.ADAM else 2.0
    if precision is Precision.FP32:
        return StateBytes(4, 4, moments)
    return StateBytes(2, 2, 4 + moments)


def memory(request: Request, plan: Layout) -> Memory:
    """Return what the fullest card of this layout must hold."""
    return _training(request, plan) if request.trains else _serving(request, plan)


def model_share(request: Request, plan: Layout) -> float:
    """Return the share of the weights on the fullest card of one copy."""
    model = request.model
    if plan.strategy is Strategy.TP:
        return 1 / plan.group
    if plan.strategy is Strategy.PP:
        ends = embedding_parameters(model) / model.parameters
        blocks = math.ceil(model.layers / plan.group) / model.layers
        return (1 - ends) * blocks + ends * (1.0 if model.tied or plan.group == 1 else 0.5)
    if plan.strategy is Strategy.EP:
        experts = expert_parameters(model) / model.parameters
        return (1 - experts) + experts / plan.cards
    return 1.0


def _training(request: Request, plan: Layout) -> Memory:
    model, strategy, cards = request.model, plan.strategy, plan.cards
    share = model_share(request, plan)
    trained = trainable_parameters(model, request.method) * share
    each = state_bytes(request.precision, request.optimizer)
    frozen = 0.0
    if request.method is not Method.FULL:
        frozen = stored_bytes(model, model.parameters * share, request.precision, request.method)
    weights, gradients, optimizer = frozen + trained * each.weight, trained * each.gradient, trained * each.optimizer
    host = 0.0
    if strategy in (Strategy.ZERO1, Strategy.ZERO2, Strategy.ZERO3, Strategy.FSDP):
        optimizer /= cards
    if strategy in (Strategy.ZERO2, Strategy.ZERO3, Strategy.FSDP):
        gradients /= cards
    if strategy in (Strategy.ZERO3, Strategy.FSDP):
        weights /= cards
    if strategy is Strategy.OFFLOAD:
        host, gradients, optimizer = gradients + optimizer, 0.0, 0.0
    return Memory(
        weights_bytes=weights,
        gradients_bytes=gradients,
        optimizer_bytes=optimizer,
        activations_bytes=_activations(request, plan),
        kv_cache_bytes=0.0,
        buffers_bytes=_buffers(request, plan),
        runtime_bytes=RUNTIME_BYTES,
        host_bytes=host,
        capacity_bytes=request.card.memory_bytes,
    )


def _activations(request: Request, plan: Layout) -> float:
    """Return what the micro-batches in flight leave on the card until their backward pass; a pipeline has several."""
    model, batch = request.model, request.batch
    wide = element_bytes(request.precision) / 2
    if model.kind == "image":
        each = model.recomputed_activation_bytes if request.recompute else model.activation_bytes
        return batch * each * wide
    unit = float(batch * request.sequence * model.hidden) * wide
    tensor = plan.group if plan.strategy is Strategy.TP else 1
    block = unit * (BLOCK_BYTES - BLOCK_BYTES_SPLIT + BLOCK_BYTES_SPLIT / tensor)
    layers, in_flight = model.layers, 1
    if plan.strategy is Strategy.PP:
        # One-forward-one-backward (arXiv 2104.04473): the first stage holds as many micro-batches as there are stages.
        layers, in_flight = math.ceil(model.layers / plan.group), min(plan.group, request.accumulation * plan.group)
    blocks = (
        (unit * BLOCK_INPUT_BYTES * layers * in_flight + block) if request.recompute else block * layers * in_flight
    )
    logits = (
        batch * request.sequence * model.vocabulary * LOGIT_BYTES * wide / tensor if model.kind == "decoder" else 0.0
    )
    return blocks + logits


def _buffers(request: Request, plan: Layout) -> float:
    """Return what sharding holds whole for a moment: gathered blocks, gradient buckets."""
    model, strategy = request.model, plan.strategy
    if plan.cards == 1 and strategy is not Strategy.OFFLOAD:
        return 0.0
    element = element_bytes(request.precision)
    bucket = min(ZERO_BUCKET_ELEMENTS, trainable_parameters(model, request.method)) * element
    gathered = 0.0
    if strategy in (Strategy.FSDP, Strategy.ZERO3):
        blocks = max(GATHERED_BLOCKS, model.layers or IMAGE_BLOCKS)
        whole = stored_bytes(model, model.parameters, request.precision, request.method)
        gathered = whole * GATHERED_BLOCKS / blocks
    if strategy in (Strategy.ZERO1, Strategy.ZERO2, Strategy.ZERO3, Strategy.OFFLOAD):
        gathered += bucket
    return gathered


def _serving(request: Request, plan: Layout) -> Memory:
    model, group = request.model, plan.group
    weights = stored_bytes(model, model.parameters * model_share(request, plan), request.precision, request.method)
    host = 0.0
    if plan.strategy is Strategy.OFFLOAD:
        # Streamed from the host layer by layer: the layer in use and the next one are on the card.
        host, weights = weights, weights * GATHERED_BLOCKS / max(GATHERED_BLOCKS, model.layers)
    # Tensor parallelism cuts the cache by key-value heads; beyond their number cards hold the same heads again.
    cut = min(group, model.kv_heads) if plan.strategy is Strategy.TP else group
    cache = kv_bytes_per_token(model) * request.context * math.ceil(plan.requests(request.concurrency)) / cut
    piece = min(PREFILL_CHUNK, request.context - request.output_tokens)
    return Memory(
        weights_bytes=weights,
        gradients_bytes=0.0,
        optimizer_bytes=0.0,
        activations_bytes=float(piece * model.hidden * PREFILL_BYTES),
        kv_cache_bytes=cache,
        buffers_bytes=0.0,
        runtime_bytes=RUNTIME_BYTES,
        host_bytes=host,
        capacity_bytes=request.card.memory_bytes,
    )
