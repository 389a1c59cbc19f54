"""Random jobs whose behaviour changes at a known time: for measuring how soon a verdict follows.

The same processes on the same cards go on with other work: a longer exchange, a slower loader, smaller kernels; or the
node brakes its cards; or a collective never ends. Both sides lie well away from the borders between classes, since the
question is when a change is seen, not whether a border case is told apart.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from gpumon.hardware.simulated import random_jobs, work
from gpumon.hardware.simulated.host_tasks import Loader
from gpumon.hardware.simulated.physics import Conditions
from gpumon.hardware.simulated.random_jobs import Draw
from gpumon.hardware.simulated.random_nodes import Taste, draw_identity, draw_node
from gpumon.hardware.simulated.scenario import JobPlan, Scenario
from gpumon.hardware.simulated.training import Training

_AFTER_S = 75.0  # to watch after a change, the end of the step that runs then included
_HANG_S = 640.0  # to watch a hang: a collective may rest ten minutes before it must be called hung


@dataclass(frozen=True, slots=True)
class Change:
    """A scenario to watch from 0 to `seconds`. At `at_s`, or when the step that runs then ends, its job changes."""

    scenario: Scenario
    at_s: float
    seconds: float


def class_change(seed: int) -> Change:
    """Return the change of a seed; the same seed gives the same one."""
    rng = random.Random(f"change/{seed}")
    draw = Draw(rng, draw_node(rng, Taste(), (2, 4)), near=False)
    at_s = rng.uniform(45.0, 80.0)
    before, after = rng.sample(_SIDES, 2)
    conditions: dict[int, Conditions] = {}
    if rng.random() < 0.2:
        plan = _computing(draw)
        conditions = {index: Conditions(ambient_celsius=30, brake_from_s=at_s) for index in range(draw.cards)}
    else:
        plan = _turning(before(draw), after(draw), at_s)
    scenario = _scenario(f"change-{seed}", draw, plan, conditions)
    return Change(scenario, at_s, at_s + _AFTER_S)


def hang(seed: int) -> Change:
    """Return a job of a seed that hangs."""
    rng = random.Random(f"hang/{seed}")
    draw = Draw(rng, draw_node(rng, Taste(), (2, 4)), near=False)
    at_s = rng.uniform(30.0, 60.0)
    plan = replace(rng.choice((_computing, _exchanging))(draw), hangs_at_s=at_s)
    return Change(_scenario(f"hang-{seed}", draw, plan, {}), at_s, at_s + _HANG_S)


def _scenario(name: str, draw: Draw, plan: Training, conditions: dict[int, Conditions]) -> Scenario:
    node = replace(draw.node, conditions=conditions, hostname=f"sim-{name}")
    job = JobPlan("job", plan, tuple(range(draw.cards)), identity=draw_identity(draw.rng))
    return Scenario(name, "a job whose behaviour changes", node, (job,))


def _turning(before: Training, after: Training, at_s: float) -> Training:
    """Return a training that goes on as another one, with the loaders it has had from the start."""
    if after.loader is not None:
        quick = replace(after.loader, batch_seconds=0.2 * before.micro_seconds * after.loader.workers)
        before = replace(before, loader=before.loader or quick)
    return replace(before, then=after, then_at_s=at_s)


def _computing(draw: Draw) -> Training:
    return random_jobs.training(draw, "ddp", draw.rng.uniform(6.0, 10.0))


def _exchanging(draw: Draw) -> Training:
    return random_jobs.training(draw, draw.rng.choice(("ddp", "zero3")), draw.rng.uniform(0.2, 0.45))


def _loading(draw: Draw) -> Training:
    plan = random_jobs.training(draw, "ddp", draw.rng.uniform(3.0, 8.0), work.RESNET50)
    workers = draw.rng.choice((1, 2, 4))
    batch_s = plan.micro_seconds * draw.rng.uniform(3.0, 5.0) * workers
    return replace(plan, loader=Loader(batch_s, workers, batch_bytes=draw.rng.uniform(2e6, 60e6)))


def _launching(draw: Draw) -> Training:
    return replace(_computing(draw), kernel_share=draw.rng.uniform(0.1, 0.25), micro_batch=1)


_SIDES: tuple[Callable[[Draw], Training], ...] = (_computing, _exchanging, _loading, _launching)
