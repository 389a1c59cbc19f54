"""Healthy jobs in which something ordinary happens: none of it may alarm anybody.

Jobs start, end, come back on other cards, save now and then, evaluate, serve traffic that ebbs, and the sampler misses
a few seconds. What is drawn is well inside "nothing is wrong": arithmetic dominates, saves are short and rare.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.host_tasks import Checkpoint, Evaluation, Loader
from gpumon.hardware.simulated.physics import Conditions
from gpumon.hardware.simulated.random_nodes import Taste, draw_identity, draw_node
from gpumon.hardware.simulated.scenario import FaultPlan, JobPlan, NodePlan, Scenario
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.training import Training

KINDS = ("start", "end", "resize", "checkpoint", "evaluation", "lull", "restart", "missed_samples")
_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Transition:
    """A scenario to watch from 0 to `seconds`. `restarts_s`: the watcher is to be restarted at these times."""

    scenario: Scenario
    kind: str
    seconds: float
    restarts_s: tuple[float, ...] = ()


def healthy_transition(seed: int) -> Transition:
    """Return the transition of a seed; the same seed gives the same one."""
    rng = random.Random(f"transition/{seed}")
    kind = KINDS[seed % len(KINDS)]
    node = draw_node(rng, Taste(), (2, 4, 8))
    node = replace(
        node,
        hostname=f"sim-healthy-{seed}",
        conditions={
            index: Conditions(
                speed=rng.gauss(1.0, 0.008), power=max(0.92, rng.gauss(1.0, 0.025)), ambient_celsius=rng.uniform(24, 36)
            )
            for index in range(len(node.slots))
        },
    )
    jobs, faults, restarts = _drawn(rng, kind, node)
    scenario = Scenario(f"healthy-{kind}-{seed}", f"healthy job, {kind}", node, jobs, faults)
    return Transition(scenario, kind, _SECONDS, restarts)


def _drawn(
    rng: random.Random, kind: str, node: NodePlan
) -> tuple[tuple[JobPlan, ...], tuple[FaultPlan, ...], tuple[float, ...]]:
    cards = tuple(range(len(node.slots)))
    plan = _training(rng)
    whole = JobPlan("job", plan, cards, identity=draw_identity(rng))
    at = rng.uniform(60, 120)
    if kind == "start":
        return (replace(whole, start_s=at, load_seconds=rng.uniform(5, 40)),), (), ()
    if kind == "end":
        return (replace(whole, end_s=at),), (), ()
    if kind == "resize":
        fewer = cards[: max(1, len(cards) // 2)]
        again = replace(
            whole, name="again", cards=fewer, start_s=at + rng.uniform(5, 30), load_seconds=rng.uniform(5, 20)
        )
        return (replace(whole, end_s=at), again), (), ()
    if kind == "checkpoint":
        save_s = rng.uniform(2.0, 8.0)
        every = max(4, round(rng.uniform(60, 110) / (plan.micro_seconds * plan.accumulation)))
        size = 14 * plan.model.parameters
        saved = replace(plan, checkpoint=Checkpoint(every, size, rng.random() < 0.4, size / save_s))
        return (replace(whole, workload=saved),), (), ()
    if kind == "evaluation":
        every = max(4, round(rng.uniform(50, 100) / (plan.micro_seconds * plan.accumulation)))
        evaluated = replace(plan, evaluation=Evaluation(every, rng.uniform(5, 25)))
        return (replace(whole, workload=evaluated),), (), ()
    if kind == "lull":
        return (replace(whole, workload=_server(rng), cards=cards[:1]),), (), ()
    if kind == "restart":
        return (whole,), (), tuple(sorted(rng.uniform(40, 200) for _ in range(rng.choice((1, 2)))))
    missed = tuple(_missed(rng, cards) for _ in range(rng.randint(2, 6)))
    return (whole,), missed, ()


def _training(rng: random.Random) -> Training:
    """Return a training in which arithmetic is nearly everything."""
    loader = Loader(rng.uniform(0.1, 0.4), 8, rng.uniform(1e6, 20e6), 0.1) if rng.random() < 0.5 else None
    return Training(
        rng.choice((work.GPT_125M, work.BERT_LARGE)),
        "ddp",
        micro_batch=16,
        sequence=1024,
        accumulation=rng.choice((2, 4, 8)),
        micro_seconds=rng.uniform(0.25, 0.8),
        gap_seconds=rng.uniform(0.0, 0.03),
        utilization=rng.uniform(0.4, 0.8),
        intensity=rng.uniform(0.7, 1.0),
        jitter=rng.uniform(0.004, 0.02),
        loader=loader,
    )


def _server(rng: random.Random) -> Serving:
    """Return a server of one card whose traffic ebbs for seconds, never for minutes."""
    return Serving(
        work.MODEL_8B,
        "single",
        batch=rng.choice((16, 32)),
        prompt_tokens=100,
        output_tokens=rng.choice((200, 400)),
        busy_seconds=rng.uniform(25, 60),
        lull_seconds=rng.uniform(3, 12),
    )


def _missed(rng: random.Random, cards: tuple[int, ...]) -> FaultPlan:
    begin = rng.uniform(20, 220)
    return FaultPlan(rng.choice((-1, *cards)), "unknown", begin, begin + rng.uniform(0.5, 4.0))
