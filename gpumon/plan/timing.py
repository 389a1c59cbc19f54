"""How long a step, a token or a prompt takes on a layout: computing, exchanging, waiting.

step = computing + what of the exchange does not overlap + latencies + pipeline bubble + host work. The typical value
lets nothing overlap: fitted to published runs, one bandwidth for each box then explains its half and its full precision
runs alike (median ratio 1.07 over 27 box sizes). The best case lets everything overlap that the strategy allows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gpumon.data import tables
from gpumon.plan.bandwidth import host_copy_rate, peer_latency, peer_rate
from gpumon.plan.layouts import Layout
from gpumon.plan.memory import model_share
from gpumon.plan.request import TF32_ARCHITECTURES, Estimate, Method, Precision, Request, Strategy
from gpumon.plan.shapes import (
    expert_parameters,
    forward_flops,
    kv_bytes_per_token,
    stored_bytes,
    trainable_parameters,
)
from gpumon.plan.traffic import Transfer, prompt_traffic, token_traffic, training_traffic

# Share of the dense tensor rate that a whole training step reaches. One-card BERT-large runs of
# lambdal/deeplearning-benchmark: A100 0.23, H100 SXM 0.24, RTX 4090 0.44, RTX 3090 0.51; eight RTX 4090 on a 3.5B
# decoder 0.71 (infini-ai). Large cards need large batches, small cards reach a larger share.
COMPUTE_SHARE = Estimate(0.25, 0.45, 0.70)
# Share of the memory bandwidth that decoding reaches: weights and cache read once a token. Computed from
# XiongjieDai/GPU-Benchmarks-on-LLM-Inference: RTX 4090 0.63 (8B Q4) and 0.76 (70B Q4), RTX 3090 0.59 and 0.70, H100
# PCIe 0.35.
MEMORY_SHARE = Estimate(0.35, 0.65, 0.85)
# Dequantising the base model costs QLoRA this much more time than LoRA (Lightning AI's LoRA experiments: 39 % longer,
# UNVERIFIED).
QLORA_SLOWDOWN = 1.39
# FP32 runs on tensor cores as TF32 at half of the 16-bit rate from Ampere on.
TF32_SHARE = 0.5
# Passes of the cost of a forward one: backward is two (gradients of inputs and of weights). Frozen weights need only
# the first. Full recomputation adds one.
BACKWARD_FULL, BACKWARD_ADAPTERS = 2, 1
# Adam on the host reads and writes about 28 bytes for each parameter; the node's memory gives so many bytes per
# second. A rule of ours; a published step of 22.9 s with 0.38 s of forward pass (deepspeedai/DeepSpeed#1635) shows
# how bad it gets.
HOST_ADAM_BYTES = 28
HOST_MEMORY_BYTES_PER_SECOND = Estimate(50e9, 100e9, 200e9)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One assumption about everything that is not known, each 'low', 'typical' or 'high' in speed."""

    compute: Literal["low", "typical", "high"]
    links: Literal["low", "typical", "high"]
    overlaps: bool


TYPICAL = Scenario("typical", "typical", overlaps=False)
SLOWEST = Scenario("low", "low", overlaps=False)
FASTEST = Scenario("high", "high", overlaps=True)
# Fast computing makes links matter more: the least and the most efficient case.
LEAST_EFFICIENT = Scenario("high", "low", overlaps=False)
MOST_EFFICIENT = Scenario("low", "high", overlaps=True)


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one unit of work. exchange is the whole time on the links, hidden the part of it under computing."""

    compute_seconds: float
    exchange_seconds: float
    hidden_seconds: float
    latency_seconds: float
    bubble_seconds: float
    host_seconds: float

    @property
    def total_seconds(self) -> float:
        """Return the length of the step."""
        return (
            self.compute_seconds
            + self.exchange_seconds
            - self.hidden_seconds
            + self.latency_seconds
            + self.bubble_seconds
            + self.host_seconds
        )

    @property
    def link_ratio(self) -> float:
        """Return the share of the step spent waiting for links."""
        return (self.exchange_seconds - self.hidden_seconds + self.latency_seconds) / self.total_seconds


def training_step(request: Request, plan: Layout, scenario: Scenario) -> StepTime:
    """Return the time of one optimizer step; every card contributes batch x accumulation samples."""
    micro = _micro_batch_seconds(request, scenario)
    compute = micro * request.accumulation
    passes = _passes(request)
    backward = micro * (passes - 1) / passes
    room = {"nothing": 0.0, "backward": backward, "all": compute}
    exchange, hidden, latency = _exchange(request, plan, training_traffic(request, plan), scenario, room)
    bubble = 0.0
    if plan.strategy is Strategy.PP:
        # (p-1)/m of the ideal time for m micro-batches (arXiv 2104.04473); every card brings its own m =
        # accumulation x p.
        bubble = compute * (plan.group - 1) / (request.accumulation * plan.group)
    host = 0.0
    if plan.strategy is Strategy.OFFLOAD:
        updated = trainable_parameters(request.model, request.method) * HOST_ADAM_BYTES
        host = updated / _pick(HOST_MEMORY_BYTES_PER_SECOND, scenario.links)
    return StepTime(compute, exchange, hidden, latency, bubble, host)


def modelled_one_card_rate(request: Request) -> float:
    """Return what one card of unlimited memory typically does: samples per second, or output tokens per second."""
    unmeasured = replace(request, one_card_rate=None)
    if not request.trains:
        return _modelled_rate(unmeasured, TYPICAL)
    return request.batch / _micro_batch_seconds(unmeasured, TYPICAL)


def carry_rate(request: Request, changed: Request) -> Request:
    """Return the changed request with the measured one-card rate of the first, in proportion to what is modelled.

    A rate measured for full training says how well this job uses the card: that holds for LoRA too, the rate does not.
    """
    if request.one_card_rate is None:
        return changed
    factor = modelled_one_card_rate(changed) / modelled_one_card_rate(request)
    return replace(changed, one_card_rate=request.one_card_rate * factor)


def ideal_training_seconds(request: Request, scenario: Scenario) -> float:
    """Return the time of the same step on one card of unlimited memory: what efficiency is measured against."""
    return _micro_batch_seconds(request, scenario) * request.accumulation


@dataclass(frozen=True, slots=True)
class ServingTime:
    """Times of one copy of the model that serves `requests` at once.

    token: each of them gains one token. prompt: one prompt is worked through, beside the others.
    """

    token: StepTime
    prompt: StepTime
    requests: float

    def output_tokens_per_second(self, output_tokens: int) -> float:
        """Return generated tokens per second of one copy whose requests each prefill and then generate."""
        seconds = self.requests * self.prompt.total_seconds + output_tokens * self.token.total_seconds
        return self.requests * output_tokens / seconds

    def link_ratio(self, output_tokens: int) -> float:
        """Return the share of that time spent waiting for links."""
        prompts, tokens = self.requests * self.prompt.total_seconds, output_tokens * self.token.total_seconds
        waited = prompts * self.prompt.link_ratio + tokens * self.token.link_ratio
        return waited / (prompts + tokens)


def serving(request: Request, plan: Layout, scenario: Scenario) -> ServingTime:
    """Return the times of one copy of the model in this layout."""
    speed = 1.0
    if request.one_card_rate is not None:
        # The card's speed is measured, so it is no longer a question of scenarios.
        scenario = replace(scenario, compute="typical")
        speed = request.one_card_rate / _modelled_rate(request, scenario)
    return ServingTime(
        _token(request, plan, scenario, speed),
        _prompt(request, plan, scenario, speed),
        plan.requests(request.concurrency),
    )


def ideal_output_tokens_per_second(request: Request, scenario: Scenario) -> float:
    """Return the output rate of one card of unlimited memory serving all requests: what efficiency is measured by."""
    return _modelled_rate(request, scenario) if request.one_card_rate is None else request.one_card_rate


def _modelled_rate(request: Request, scenario: Scenario) -> float:
    alone = Layout(Strategy.DDP, 1, 1)
    time = ServingTime(
        _token(request, alone, scenario, 1.0), _prompt(request, alone, scenario, 1.0), float(request.concurrency)
    )
    return time.output_tokens_per_second(request.output_tokens)


def _token(request: Request, plan: Layout, scenario: Scenario, speed: float) -> StepTime:
    """Return the time in which every request of the copy gains one token.

    A pipeline of p stages works on p parts of the requests at once, and each part passes every stage once a token. With
    fewer requests than stages some stages idle: one request alone passes one stage after the other.
    """
    requests = plan.requests(request.concurrency)
    stages = plan.group if plan.strategy is Strategy.PP else 1
    compute = stages * _decode_seconds(request, plan, scenario, max(1.0, requests / stages)) / speed
    exchange, hidden, latency = _exchange(request, plan, token_traffic(request, plan), scenario, {})
    if plan.strategy is Strategy.PP and stages > 1:
        # Between a token's passes lie p - 1 boundaries, and the way back to the first stage.
        latency = (stages if requests > 1 else stages - 1) * _boundary(scenario)
        exchange *= 1 if requests > 1 else stages - 1
    return StepTime(compute, exchange, hidden, latency, 0.0, 0.0)


def _prompt(request: Request, plan: Layout, scenario: Scenario, speed: float) -> StepTime:
    """Return the time one prompt takes of a copy's cards. Stages of a pipeline work on different prompts at once."""
    requests = plan.requests(request.concurrency)
    working = min(plan.group, requests) if plan.strategy is Strategy.PP else plan.group
    flops = forward_flops(request.model, request.context - request.output_tokens) / working
    compute = flops / _flops_per_second(request, scenario) / speed
    exchange, hidden, latency = _exchange(request, plan, prompt_traffic(request, plan), scenario, {})
    return StepTime(compute, exchange, hidden, latency, 0.0, 0.0)


def _decode_seconds(request: Request, plan: Layout, scenario: Scenario, requests: float) -> float:
    """Return the time in which one card moves so many requests through its part of the model by one token.

    The slower of reading weights and cache from the card's memory, and of computing.
    """
    model, group = request.model, plan.group
    share = 1 / group if plan.strategy is Strategy.PP else model_share(request, plan)
    weights = stored_bytes(model, model.parameters, request.precision, request.method) * share
    weights *= _touched_share(request, requests)
    cut = min(group, model.kv_heads) if plan.strategy is Strategy.TP else group
    cache = kv_bytes_per_token(model) * request.context * requests / cut
    read = (weights + cache) / (request.card.memory_bandwidth_bytes_per_second * _pick(MEMORY_SHARE, scenario.compute))
    flops = 2 * model.active_parameters * requests / group
    return max(read, flops / _flops_per_second(request, scenario))


def _touched_share(request: Request, requests: float) -> float:
    """Return the share of the weights that so many tokens read: of the experts only those some token is sent to."""
    model = request.model
    if model.experts == 0:
        return 1.0
    experts = expert_parameters(model) / model.parameters
    missed = (1 - model.experts_per_token / model.experts) ** requests
    return (1 - experts) + experts * float(1 - missed)


def _micro_batch_seconds(request: Request, scenario: Scenario) -> float:
    if request.one_card_rate is not None:
        return request.batch / request.one_card_rate
    flops = request.batch * forward_flops(request.model, request.sequence) * _passes(request)
    slowdown = QLORA_SLOWDOWN if request.method is Method.QLORA else 1.0
    return flops / _flops_per_second(request, scenario) * slowdown


def _passes(request: Request) -> int:
    backward = BACKWARD_FULL if request.method is Method.FULL else BACKWARD_ADAPTERS
    return 1 + backward + (1 if request.recompute else 0)


def _flops_per_second(request: Request, scenario: Scenario) -> float:
    card = request.card
    rate = card.tensor_flops
    if request.precision is Precision.FP32:
        rate = rate * TF32_SHARE if card.architecture in TF32_ARCHITECTURES else card.fp32_flops
    return rate * _pick(COMPUTE_SHARE, scenario.compute)


def _exchange(
    request: Request, plan: Layout, transfers: tuple[Transfer, ...], scenario: Scenario, room: dict[str, float]
) -> tuple[float, float, float]:
    """Return seconds on the links, the part of them hidden under computing, and seconds of latency.

    The two directions of a link work at the same time, so the busier one counts.
    """
    total = latency = 0.0
    by_cover: dict[str, float] = {}
    for transfer in transfers:
        size = max(transfer.sent_bytes, transfer.received_bytes)
        if transfer.way == "host":
            rate = _pick(host_copy_rate(request), scenario.links)
        else:
            rate = _pick(peer_rate(request, transfer.members, plan.cards).bytes_per_second, scenario.links)
            latency += transfer.calls * peer_latency(request, transfer.members)
        seconds = size / rate
        total += seconds
        by_cover[transfer.hides] = by_cover.get(transfer.hides, 0.0) + seconds
    hidden = 0.0
    if scenario.overlaps:
        hidden = sum(min(seconds, room.get(cover, 0.0)) for cover, seconds in by_cover.items())
        hidden = min(hidden, room.get("all", 0.0))
    return total, hidden, latency


def _boundary(scenario: Scenario) -> float:
    row = tables.links().layer_boundary
    return {"low": row.high_seconds, "typical": row.typical_seconds, "high": row.low_seconds}[scenario.links]


def _pick(value: Estimate, which: Literal["low", "typical", "high"]) -> float:
    return value.low if which == "low" else value.high if which == "high" else value.typical
