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
from gpumon.hardware.simulated.scenario import FaultPlan, Identity, JobPlan, NodePlan, Scenario
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.training import Training

KINDS = ("start", "end", "resize", "checkpoint", "evaluation", "lull", "restart", "missed_samples")
DAY_SECONDS = 150.0
DAY_GROUPS = ((0,), (1,), (2, 3), (4, 5, 6, 7))  # cards that one job after the other gets
DAY_TRANSITIONS = 3 * len(DAY_GROUPS)  # of each group: an end, a start, and what the second job does on its way
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
    node = _node(rng, (2, 4, 8), f"sim-healthy-{seed}")
    jobs, faults, restarts = _drawn(rng, kind, node)
    scenario = Scenario(f"healthy-{kind}-{seed}", f"healthy job, {kind}", node, jobs, faults)
    return Transition(scenario, kind, _SECONDS, restarts)


def healthy_day(seed: int) -> Scenario:
    """Return the busy day of a seed, `DAY_SECONDS` long: jobs end, others take their cards or half of them and save,
    evaluate or pause on their way."""
    rng = random.Random(f"day/{seed}")
    node = _node(rng, (8,), f"sim-day-{seed}")
    jobs = [job for number, cards in enumerate(DAY_GROUPS) for job in _lives(rng, number, cards)]
    return Scenario(f"day-{seed}", "a healthy day", node, tuple(jobs))


def _node(rng: random.Random, counts: tuple[int, ...], hostname: str) -> NodePlan:
    node = draw_node(rng, Taste(), counts)
    conditions = {
        index: Conditions(
            speed=rng.gauss(1.0, 0.008), power=max(0.92, rng.gauss(1.0, 0.025)), ambient_celsius=rng.uniform(24, 36)
        )
        for index in range(len(node.slots))
    }
    return replace(node, hostname=hostname, conditions=conditions)


def _lives(rng: random.Random, number: int, cards: tuple[int, ...]) -> tuple[JobPlan, JobPlan]:
    """Return one job that ends and another that takes its cards, or half of them, and does something on its way."""
    ends_s = rng.uniform(40, 65)
    fewer = cards[: max(1, len(cards) // 2)] if rng.random() < 0.5 else cards
    first = JobPlan(f"first-{number}", _training(rng, len(cards)), cards, end_s=ends_s, identity=_identity(number, 1))
    plan = _training(rng, len(fewer))
    ways: list[Training | Serving] = [_saving(rng, plan, (40, 70)), _evaluating(rng, plan, (30, 60))]
    if len(fewer) == 1:
        ways.append(_server(rng))
    then = JobPlan(
        f"then-{number}",
        rng.choice(ways),
        fewer,
        start_s=ends_s + rng.uniform(4, 20),
        identity=_identity(number, 2),
        load_seconds=rng.uniform(3, 15),
    )
    return first, then


def _identity(number: int, life: int) -> Identity:
    kind = ("container", "pod", "unit", "slurm")[number % 4]
    name = "" if kind == "slurm" else f"job-{number}-{life}"
    return Identity(kind=kind, name=name, user_id=1000 + number % 3)


def _drawn(
    rng: random.Random, kind: str, node: NodePlan
) -> tuple[tuple[JobPlan, ...], tuple[FaultPlan, ...], tuple[float, ...]]:
    cards = tuple(range(len(node.slots)))
    plan = _training(rng, len(cards))
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
        return (replace(whole, workload=_saving(rng, plan, (60, 110))),), (), ()
    if kind == "evaluation":
        return (replace(whole, workload=_evaluating(rng, plan, (50, 100))),), (), ()
    if kind == "lull":
        return (replace(whole, workload=_server(rng), cards=cards[:1]),), (), ()
    if kind == "restart":
        return (whole,), (), tuple(sorted(rng.uniform(40, 200) for _ in range(rng.choice((1, 2)))))
    missed = tuple(_missed(rng, cards) for _ in range(rng.randint(2, 6)))
    return (whole,), missed, ()


def _saving(rng: random.Random, plan: Training, every_s: tuple[float, float]) -> Training:
    save_s = rng.uniform(2.0, 8.0)
    every = max(4, round(rng.uniform(*every_s) / (plan.micro_seconds * plan.accumulation)))
    size = 14 * plan.model.parameters
    return replace(plan, checkpoint=Checkpoint(every, size, rng.random() < 0.4, size / save_s))


def _evaluating(rng: random.Random, plan: Training, every_s: tuple[float, float]) -> Training:
    every = max(4, round(rng.uniform(*every_s) / (plan.micro_seconds * plan.accumulation)))
    return replace(plan, evaluation=Evaluation(every, rng.uniform(5, 25)))


def _training(rng: random.Random, cards: int) -> Training:
    """Return a training in which arithmetic is nearly everything."""
    loader = Loader(rng.uniform(0.1, 0.4), 8, rng.uniform(1e6, 20e6), 0.1) if rng.random() < 0.5 else None
    return Training(
        rng.choice((work.GPT_125M, work.BERT_LARGE)),
        "ddp" if cards > 1 else "single",
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
