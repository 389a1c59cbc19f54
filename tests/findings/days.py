"""Busy days of a healthy node: jobs end, others take their cards, save, evaluate, pause. Nothing is wrong with any.

Every job computes nearly all the time and fits its cards: what gpumon says of it is that it is well.
"""

from __future__ import annotations

import random
from dataclasses import replace

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.host_tasks import Checkpoint, Evaluation, Loader
from gpumon.hardware.simulated.physics import Conditions
from gpumon.hardware.simulated.random_nodes import Taste, draw_node
from gpumon.hardware.simulated.scenario import Identity, JobPlan, Scenario
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.training import Training

SECONDS = 150.0
GROUPS = ((0,), (1,), (2, 3), (4, 5, 6, 7))  # cards that one job after the other gets
TRANSITIONS_A_DAY = 3 * len(GROUPS)  # of each group: an end, a start, and what the second job does on its way


def day(seed: int) -> Scenario:
    """Return the day of a seed; the same seed gives the same one."""
    rng = random.Random(f"day/{seed}")
    node = draw_node(rng, Taste(), (8,))
    conditions = {
        index: Conditions(speed=rng.gauss(1.0, 0.008), ambient_celsius=rng.uniform(24, 34)) for index in range(8)
    }
    jobs = [job for number, cards in enumerate(GROUPS) for job in _lives(rng, number, cards)]
    return Scenario(f"day-{seed}", "a healthy day", replace(node, conditions=conditions), tuple(jobs))


def _lives(rng: random.Random, number: int, cards: tuple[int, ...]) -> tuple[JobPlan, JobPlan]:
    """One job that ends, and another that takes its cards, or half of them, and does something on its way."""
    ends_s = rng.uniform(40, 65)
    starts_s = ends_s + rng.uniform(4, 20)
    fewer = cards[: max(1, len(cards) // 2)] if rng.random() < 0.5 else cards
    first = JobPlan(f"first-{number}", _training(rng, len(cards)), cards, end_s=ends_s, identity=_identity(number, 1))
    then = JobPlan(
        f"then-{number}",
        _on_its_way(rng, len(fewer)),
        fewer,
        start_s=starts_s,
        identity=_identity(number, 2),
        load_seconds=rng.uniform(3, 15),
    )
    return first, then


def _identity(number: int, life: int) -> Identity:
    kind = ("container", "pod", "unit", "slurm")[number % 4]
    name = "" if kind == "slurm" else f"job-{number}-{life}"
    return Identity(kind=kind, name=name, user_id=1000 + number % 3)


def _training(rng: random.Random, cards: int) -> Training:
    """A training with large batches that exchanges its gradients seldom."""
    loader = Loader(rng.uniform(0.1, 0.4), 8, rng.uniform(1e6, 20e6), 0.1) if rng.random() < 0.5 else None
    return Training(
        rng.choice((work.GPT_125M, work.BERT_LARGE)),
        "ddp" if cards > 1 else "single",
        micro_batch=16,
        accumulation=rng.choice((2, 4, 8)),
        micro_seconds=rng.uniform(0.25, 0.8),
        intensity=rng.uniform(0.75, 1.0),
        jitter=rng.uniform(0.004, 0.02),
        loader=loader,
    )


def _on_its_way(rng: random.Random, cards: int) -> Training | Serving:
    """A job that saves, evaluates, or serves traffic with lulls."""
    if cards == 1 and rng.random() < 0.4:
        return Serving(
            work.MODEL_8B,
            "single",
            batch=rng.choice((16, 32)),
            prompt_tokens=100,
            output_tokens=rng.choice((200, 400)),
            weight_bytes=9e9,
            busy_seconds=rng.uniform(25, 60),
            lull_seconds=rng.uniform(3, 12),
        )
    plan = _training(rng, cards)
    step_s = plan.micro_seconds * plan.accumulation
    if rng.random() < 0.5:
        every = max(4, round(rng.uniform(40, 70) / step_s))
        save_s = rng.uniform(2.0, 6.0)
        size = 14 * plan.model.parameters
        return replace(plan, checkpoint=Checkpoint(every, size, rng.random() < 0.4, size / save_s))
    return replace(plan, evaluation=Evaluation(max(4, round(rng.uniform(30, 60) / step_s)), rng.uniform(5, 20)))
