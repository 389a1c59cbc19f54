"""Random jobs by family. Each family lies between two things that look alike, and a draw lies anywhere between them.

A family sets physical parameters only: batch, model, loader, limit. `near` asks for parameters at which the two sides
last about equally long; otherwise they are drawn over a wide range on both sides. What class comes out is for the
event log to say.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.cards import CardSpec
from gpumon.hardware.simulated.engine import Engine
from gpumon.hardware.simulated.fabric import Fabric, Route, ring
from gpumon.hardware.simulated.host_tasks import Checkpoint, Evaluation, Loader
from gpumon.hardware.simulated.physics import Conditions
from gpumon.hardware.simulated.scenario import Burn, NodePlan, Standing, Workload
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.training import Training
from gpumon.hardware.simulated.work import Model

_MODELS = (
    work.GPT_125M,
    work.BERT_LARGE,
    work.GPT2_MEDIUM,
    work.MODEL_1B,
    work.OPT_3B,
    work.MODEL_3B,
    work.MODEL_8B,
)


@dataclass(frozen=True, slots=True)
class Draw:
    """What a family draws from."""

    rng: random.Random
    node: NodePlan
    near: bool  # parameters close to the border with the neighbour

    @property
    def card(self) -> CardSpec:
        """The node's product."""
        return self.node.slots[0].card

    @property
    def cards(self) -> int:
        """How many cards the job gets."""
        return len(self.node.slots)

    def ratio(self, wide: float = 6.0) -> float:
        """Return a factor: about 1 when near, else anywhere up to `wide` times more or less."""
        reach = math.log(1.35) if self.near else math.log(wide)
        return math.exp(self.rng.uniform(-reach, reach))

    def bandwidth(self) -> tuple[Route, float]:
        """Return the ring over all cards, and what it carries alone."""
        members = range(self.cards)
        route = ring(self.node.slots, members, self.node.host)
        fabric = Fabric(Engine(), self.node.slots, self.node.host, lambda _: None, lambda _: None)
        return route, fabric.solo_rate(route)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A job, and what else about the node the family set."""

    workload: Workload
    conditions: dict[int, Conditions]
    seconds: float = 75.0  # how long to watch
    victim: int = -1  # card that was made slower than the others
    freed: Workload | None = None  # the same job without what its process on that card loses


def exchanging(draw: Draw) -> Drawn:
    """Data parallel and sharded training: arithmetic against exchange."""
    rng = draw.rng
    strategy = rng.choice(("ddp", "ddp", "ddp", "zero1", "zero2", "zero3", "fsdp"))
    return Drawn(training(draw, strategy, 0.8 * draw.ratio()), {})


def tensor_parallel(draw: Draw) -> Drawn:
    """Megatron tensor parallelism: arithmetic against all-reduces."""
    rng = draw.rng
    model = rng.choice((work.MODEL_1B, work.MODEL_3B, work.MODEL_8B))
    plan = Training(model, "tp", micro_batch=rng.choice((1, 2, 4)), sequence=rng.choice((1024, 2048, 4096)))
    _, rate = draw.bandwidth()
    activations = plan.micro_batch * plan.sequence * model.hidden * plan.element_bytes
    exchange_s = 4 * model.layers * activations * 2 * (draw.cards - 1) / draw.cards / rate
    seconds = min(max(exchange_s * draw.ratio(), 0.03), 4.0) * draw.cards
    return Drawn(_flavoured(draw, replace(plan, micro_seconds=seconds)), {})


def pipeline(draw: Draw) -> Drawn:
    """Pipeline stages: arithmetic against bubbles; equal at p - 1 micro-batches."""
    micros = max(1, round((draw.cards - 1) * draw.ratio(8.0)))
    model = draw.rng.choice((work.MODEL_1B, work.MODEL_3B, work.MODEL_8B))
    seconds = draw.rng.uniform(0.04, 0.5) * draw.cards
    plan = Training(model, "pp", micro_batch=1, sequence=2048, accumulation=micros, micro_seconds=seconds)
    return Drawn(_flavoured(draw, plan), {})


def fed(draw: Draw) -> Drawn:
    """Image training: arithmetic against loaders; equal when a batch takes as long as a step."""
    rng = draw.rng
    plan = training(draw, "ddp" if draw.cards > 1 else "single", rng.uniform(3.0, 8.0), work.RESNET50)
    workers = rng.choice((0, 1, 2, 4, 8))
    step_s = plan.micro_seconds * plan.accumulation
    batch_s = 1.4 * plan.micro_seconds * draw.ratio(4.0) * max(workers, 1)
    waits = workers > 0
    # With no worker the batch is made between two steps and adds to them; with workers only what is too slow shows.
    batch_s *= 2.0 if waits else 1.0
    loader = Loader(
        batch_s,
        workers,
        batch_bytes=rng.uniform(2e6, 60e6),
        card_bytes=rng.choice((0.0, rng.uniform(5e6, 150e6))),
        spread=rng.uniform(0.05, 0.3),
    )
    return Drawn(replace(plan, loader=loader), {}, seconds=max(75.0, 40 * step_s))


def saving(draw: Draw) -> Drawn:
    """Training with checkpoints: steps against saves."""
    rng = draw.rng
    plan = training(draw, "ddp", rng.uniform(2.0, 8.0))
    save_s = rng.uniform(3.0, 18.0)
    step_s = max(plan.micro_seconds * plan.accumulation * 1.1, 0.05)
    every = max(1, round(save_s * draw.ratio(5.0) / step_s))
    size = plan.model.parameters * 14
    checkpoint = Checkpoint(every, size, sharded=rng.random() < 0.25, bytes_per_second=size / save_s)
    return Drawn(replace(plan, checkpoint=checkpoint), {}, seconds=max(90.0, 5 * (save_s + every * step_s)))


def offloaded(draw: Draw) -> Drawn:
    """Optimizer or weights in host memory: arithmetic against copies and CPU work."""
    rng = draw.rng
    if rng.random() < 0.3:
        plan = Serving(
            work.MODEL_70B,
            "tp",
            batch=1,
            prompt_tokens=rng.choice((500, 2000, 6000)),
            output_tokens=rng.choice((100, 300)),
            weight_bytes=rng.uniform(60e9, 240e9),
            host_share=rng.uniform(0.2, 0.8),
        )
        return Drawn(plan, {}, seconds=120.0)
    model = rng.choice((work.MODEL_3B, work.MODEL_8B))
    host_s = model.parameters / draw.node.host.sockets / 1.1e9 + 4 * model.parameters / draw.cards / 20e9
    accumulation = rng.choice((1, 2, 4))
    seconds = min(max(host_s * draw.ratio() / accumulation, 0.05), 12.0)
    training = Training(model, "offload", micro_batch=2, accumulation=accumulation, micro_seconds=seconds)
    return Drawn(_flavoured(draw, training), {}, seconds=max(75.0, 8 * (host_s + accumulation * seconds)))


def launching(draw: Draw) -> Drawn:
    """Small kernels: running against being launched."""
    share = draw.rng.uniform(0.42, 0.58) if draw.near else draw.rng.uniform(0.1, 0.7)
    plan = Training(
        draw.rng.choice((work.GPT_125M, work.BERT_LARGE)),
        "single" if draw.cards == 1 else "ddp",
        micro_batch=1,
        micro_seconds=draw.rng.uniform(0.05, 0.3),
        accumulation=draw.rng.choice((4, 8, 16)),
        kernel_share=share,
        jitter=draw.rng.uniform(0.01, 0.05),
    )
    return Drawn(plan, {})


def generating(draw: Draw) -> Drawn:
    """Token generation: device memory against the latency of small all-reduces, or against prompts."""
    rng = draw.rng
    model = rng.choice((work.MODEL_8B, work.MODEL_13B, work.MODEL_32B, work.MODEL_70B))
    element = rng.choice((0.55, 1.0, 2.0))
    weights = model.parameters * element
    batch = rng.choice((1, 2, 8, 16, 32, 64))
    plan = Serving(
        model,
        "tp" if draw.cards > 1 else "single",
        batch=batch,
        prompt_tokens=rng.choice((50, 200, 800)),
        output_tokens=rng.choice((300, 800, 1600)),
        weight_bytes=weights,
        context_tokens=rng.choice((500, 2000, 6000)),
        jitter=rng.uniform(0.01, 0.04),
    )
    if draw.cards == 1:
        # Prompts against tokens: how long each takes follows from their numbers.
        prompt_s = work.prefill_seconds(draw.card, model, 1, 1)
        token_s = work.decode_seconds(draw.card, weights, batch * 2000 * model.cache_bytes_per_token(), 1)
        tokens = max(50, round(plan.output_tokens))
        prompts = max(20, round(tokens * token_s / (prompt_s * batch) * draw.ratio()))
        return Drawn(replace(plan, prompt_tokens=prompts, output_tokens=tokens), {}, seconds=120.0)
    route, _ = draw.bandwidth()
    wanted_s = 2 * model.layers * route.latency_s * draw.ratio(4.0)
    cache = model.cache_bytes_per_token() * batch
    held = wanted_s * draw.cards * 0.85 * draw.card.memory_bytes_per_second - weights
    return Drawn(replace(plan, context_tokens=min(max(round(held / cache), 64), 60000)), {}, seconds=120.0)


def prompting(draw: Draw) -> Drawn:
    """Prompt processing over several cards: arithmetic against all-reduces, as model and links make it."""
    model = draw.rng.choice((work.MODEL_8B, work.MODEL_13B, work.MODEL_32B))
    chunk = draw.rng.choice((1024, 2048, 8192))
    plan = Serving(model, "tp", batch=8, prompt_tokens=4000, prompt_chunk=chunk, prompts_only=True)
    return Drawn(plan, {})


def burning(draw: Draw) -> Drawn:
    """One kernel over and over: dense, small, filler, or bound by memory."""
    kind = draw.rng.choice(("small", "filler", "copy") if draw.near else ("dense", "dense", "small", "copy"))
    return Drawn(Burn(kind, intensity=draw.rng.uniform(0.3, 1.0)), {})


def limited(draw: Draw) -> Drawn:
    """All cards under a lowered limit, in heat, or braked: held down against just warm or just capped."""
    rng, spec = draw.rng, draw.card
    cause = rng.choice(("power", "power", "thermal", "thermal", "brake"))
    intensity = rng.uniform(0.65, 1.0)
    demand = min(spec.watts.awake + intensity * (spec.watts.compute - spec.watts.awake), spec.tdp_watts)
    conditions: dict[int, Conditions] = {}
    for index in range(draw.cards):
        if cause == "power":
            share = rng.uniform(0.82, 0.98) if draw.near else rng.uniform(0.5, 1.0)
            limit = max(share * spec.tdp_watts, spec.minimum_limit_watts)
            conditions[index] = Conditions(power_limit_watts=round(limit))
        elif cause == "thermal":
            # How hot the card would get at this work, against where it slows down.
            beyond = rng.uniform(-4, 8) if draw.near else rng.uniform(-15, 40)
            resistance = (spec.slowdown_celsius + beyond - 35) / demand
            conditions[index] = Conditions(ambient_celsius=35, celsius_per_watt=resistance, heat_seconds=12)
        else:
            conditions[index] = Conditions(brake_from_s=rng.uniform(0, 20))
    if cause == "power":
        first = conditions[0]
        conditions = dict.fromkeys(conditions, first)
    workload: Workload = Burn("dense", intensity=intensity)
    if draw.cards > 1 and rng.random() < 0.6:
        workload = replace(training(draw, "ddp", rng.uniform(4.0, 10.0)), intensity=intensity)
    return Drawn(workload, conditions, seconds=90.0)


def hindered(draw: Draw) -> Drawn:
    """One card of a synchronous job is slower, by anything from nothing to three quarters of a step."""
    rng, spec = draw.rng, draw.card
    plan = training(draw, "ddp", rng.uniform(2.0, 6.0))
    plan = replace(plan, intensity=rng.uniform(0.75, 1.0), jitter=rng.uniform(0.005, 0.02))
    victim = rng.randrange(draw.cards)
    cost = rng.uniform(0.04, 0.2) if draw.near else rng.choice((0.0, rng.uniform(0.15, 0.75)))
    cause = rng.choice(("host", "power", "thermal", "clock"))
    if cause == "host":
        seconds = plan.micro_seconds * cost / (1 - min(cost, 0.7))
        return Drawn(replace(plan, slow_rank=victim, slow_seconds=seconds), {}, victim=victim, freed=plan)
    if cause == "clock":
        return Drawn(plan, {victim: Conditions(speed=1 - cost)}, victim=victim, freed=plan)
    speed = 1 - cost
    watts = spec.watts.awake + plan.intensity * (spec.watts.compute - spec.watts.awake)
    allowed = spec.watts.awake + (watts - spec.watts.awake) * speed ** (1 / 0.65)
    if cause == "power":
        limited = Conditions(power_limit_watts=max(round(allowed), 60))
        return Drawn(plan, {victim: limited}, victim=victim, freed=plan)
    resistance = (spec.slowdown_celsius - 40) / allowed
    heated = Conditions(ambient_celsius=40, celsius_per_watt=resistance, heat_seconds=12)
    return Drawn(plan, {victim: heated}, 90.0, victim=victim, freed=plan)


def through_the_cpu(draw: Draw) -> Drawn:
    """gloo, sockets, one process for all cards, layers in turn: exchanges and turns that the CPU or one card paces."""
    rng = draw.rng
    kind = rng.choice(("gloo", "sockets", "dataparallel", "device_map", "layers"))
    if kind == "layers":
        weights = rng.uniform(15e9, 60e9)
        return Drawn(Serving(work.MODEL_70B, "layers", batch=1, output_tokens=400, weight_bytes=weights), {}, 120.0)
    model = rng.choice((work.GPT_125M, work.BERT_LARGE, work.MODEL_1B))
    part = (draw.cards - 1) / draw.cards
    exchange_s = 2 * part * 2 * model.parameters / draw.node.host.socket_loopback_bytes_per_second
    if kind in ("dataparallel", "device_map"):
        exchange_s = (draw.cards - 1) * 4 * model.parameters / 20e9
    seconds = min(max(exchange_s * draw.ratio(), 0.03), 4.0)
    strategy = "ddp" if kind == "sockets" else kind
    transport = "sockets" if kind == "sockets" else ""
    plan = Training(model, strategy, micro_batch=8, sequence=512, micro_seconds=seconds, transport=transport)
    return Drawn(_flavoured(draw, plan), {})


def standing(draw: Draw) -> Drawn:
    """Cards held and not used, or a server with little traffic: nothing against something."""
    rng = draw.rng
    if not draw.near and rng.random() < 0.8:
        return Drawn(Standing(rng.uniform(0.5e9, 20e9), contexts=rng.random() < 0.85), {})
    busy = rng.uniform(4.0, 12.0)
    plan = Serving(
        rng.choice((work.MODEL_8B, work.MODEL_13B)),
        "tp" if draw.cards > 1 else "single",
        batch=rng.choice((1, 4, 16)),
        prompt_tokens=200,
        output_tokens=rng.choice((40, 100)),
        weight_bytes=rng.choice((5e9, 14e9)),
        busy_seconds=busy,
        lull_seconds=busy * draw.ratio(8.0),
    )
    return Drawn(plan, {}, seconds=180.0)


def hanging(draw: Draw) -> Drawn:
    """A collective that never ends, against one long wait for a checkpoint."""
    rng = draw.rng
    plan = training(draw, "ddp", rng.uniform(1.0, 6.0))
    if draw.near and rng.random() < 0.4:
        save_s = rng.uniform(80.0, 260.0)
        step_s = max(plan.micro_seconds * plan.accumulation * 1.1, 0.05)
        checkpoint = Checkpoint(max(1, round(20.0 / step_s)), 60e9, bytes_per_second=60e9 / save_s)
        return Drawn(replace(plan, checkpoint=checkpoint), {}, seconds=2 * save_s + 60)
    hangs_at_s = rng.uniform(10.0, 40.0)
    lasting_s = rng.uniform(345.0, 375.0) if draw.near else rng.uniform(400.0, 460.0)
    return Drawn(replace(plan, hangs_at_s=hangs_at_s), {}, seconds=hangs_at_s + lasting_s)


Family = Callable[[Draw], Drawn]


def training(draw: Draw, strategy: str, arithmetic_over_exchange: float, model: Model | None = None) -> Training:
    """Return a training whose arithmetic lasts the given multiple of the exchange that shows, if that is sensible."""
    rng = draw.rng
    accumulation = rng.choice((1, 1, 1, 2, 4, 8))
    overlap = rng.random() < 0.65
    if draw.cards == 1:
        plan = Training(model or rng.choice(_MODELS), strategy, micro_batch=8, accumulation=accumulation)
        return _flavoured(draw, replace(plan, micro_seconds=rng.uniform(0.05, 1.0)))
    _, rate = draw.bandwidth()
    every_micro = strategy in ("zero2", "zero3", "fsdp")
    crossings = 3 if strategy in ("zero3", "fsdp") else 2
    sent_per_parameter = crossings * (draw.cards - 1) / draw.cards * 2.0
    lasting = [each for each in _MODELS if 0.06 <= sent_per_parameter * each.parameters / rate <= 3.0]
    chosen = model or rng.choice(lasting or [work.BERT_LARGE])
    exchange_s = sent_per_parameter * chosen.parameters / rate
    exchanges = accumulation if every_micro else 1
    # What of the exchange shows: all of it, or what lasts longer than the passes it runs behind.
    hidden = 0.0 if not overlap else (1.0 if strategy in ("zero3", "fsdp") else 2 / 3) * exchanges / accumulation
    arithmetic_s = exchanges * exchange_s / (1.0 / arithmetic_over_exchange + hidden)
    plan = Training(
        chosen,
        strategy,
        micro_batch=rng.choice((1, 2, 4, 8, 16)),
        accumulation=accumulation,
        overlap=overlap,
        micro_seconds=min(max(arithmetic_s / accumulation, 0.03), 3.0),
    )
    return _flavoured(draw, plan)


def _flavoured(draw: Draw, plan: Training) -> Training:
    """Return the plan with the power, spread and odd evaluation of one run."""
    rng = draw.rng
    evaluation = Evaluation(rng.randint(30, 80), rng.uniform(2.0, 8.0)) if rng.random() < 0.1 else None
    return replace(
        plan,
        utilization=rng.uniform(0.35, 0.8),
        gap_seconds=rng.choice((0.0, rng.uniform(0.0, 0.1) * plan.micro_seconds)),
        intensity=rng.uniform(0.55, 1.0),
        jitter=rng.uniform(0.004, 0.03),
        evaluation=evaluation,
    )
