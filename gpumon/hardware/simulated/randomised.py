"""Random instances for measuring accuracy: a node, a job, and how long to watch.

The same seed gives the same instance. A third and more of the draws of every family lie at the border with what the
family is most easily confused with.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from gpumon.hardware.simulated import random_jobs
from gpumon.hardware.simulated.physics import Conditions
from gpumon.hardware.simulated.random_jobs import Draw, Family
from gpumon.hardware.simulated.random_nodes import Taste, draw_identity, draw_node
from gpumon.hardware.simulated.scenario import JobPlan, NodePlan, Scenario

_NEAR_SHARE = 0.45
# Of the draws at these families' borders fewer belong to the class that the family stands for (the others are what it
# is taken for), so that more draws are needed there for a third of that class.
_MORE_NEAR = {"limited": 0.5, "standing": 0.6, "hanging": 0.55}
_CONSUMER = Taste()
_NO_NVLINK = Taste(geforce=0.75, professional=0.25)

# Families with their weight, the nodes they are drawn on, and the counts of cards that make sense.
FAMILIES: tuple[tuple[str, Family, float, Taste, tuple[int, ...]], ...] = (
    ("exchanging", random_jobs.exchanging, 3.2, _CONSUMER, (2, 4, 8)),
    ("tensor_parallel", random_jobs.tensor_parallel, 1.2, _CONSUMER, (2, 4, 8)),
    ("pipeline", random_jobs.pipeline, 1.0, _CONSUMER, (2, 4, 8)),
    ("fed", random_jobs.fed, 1.6, _CONSUMER, (1, 2, 4, 8)),
    ("saving", random_jobs.saving, 0.9, _CONSUMER, (2, 4, 8)),
    ("offloaded", random_jobs.offloaded, 1.0, _NO_NVLINK, (1, 2, 4, 8)),
    ("launching", random_jobs.launching, 1.0, _CONSUMER, (1, 2, 4)),
    ("generating", random_jobs.generating, 3.0, _CONSUMER, (1, 2, 4, 8)),
    ("prompting", random_jobs.prompting, 0.8, _CONSUMER, (2, 4, 8)),
    ("burning", random_jobs.burning, 0.8, _CONSUMER, (1, 2, 4)),
    ("limited", random_jobs.limited, 4.3, _CONSUMER, (1, 2, 4, 8)),
    ("hindered", random_jobs.hindered, 1.6, _CONSUMER, (4, 8)),
    ("through_the_cpu", random_jobs.through_the_cpu, 1.0, _NO_NVLINK, (2, 4)),
    ("standing", random_jobs.standing, 3.9, _CONSUMER, (1, 2, 4, 8)),
    ("hanging", random_jobs.hanging, 3.2, _CONSUMER, (2, 4, 8)),
)


@dataclass(frozen=True, slots=True)
class Instance:
    """One random scenario. Watch it from 0 to `seconds`; its job is the first."""

    scenario: Scenario
    family: str
    near: bool  # drawn at the border with the family's neighbour
    seconds: float
    victim: int = -1  # card that was made slower than the others
    freed: Scenario | None = None  # the same with that card like its neighbour: what the slower one costs


def randomised(seed: int) -> Instance:
    """Return the instance of a seed."""
    rng = random.Random(f"instance/{seed}")
    weights = [family[2] for family in FAMILIES]
    name, family, _, taste, counts = rng.choices(FAMILIES, weights)[0]
    near = rng.random() < _MORE_NEAR.get(name, _NEAR_SHARE)
    node = draw_node(rng, taste, counts)
    drawn = family(Draw(rng, node, near))
    node = replace(node, conditions=_conditions(rng, node, drawn.conditions), hostname=f"sim-{seed}")
    plan = JobPlan(f"job-{seed}", drawn.workload, tuple(range(len(node.slots))), identity=draw_identity(rng))
    scenario = Scenario(f"random-{seed}", f"random instance {seed} of family {name}", node, (plan,))
    freed = None
    if drawn.freed is not None:
        neighbour = (drawn.victim + 1) % len(node.slots)
        alike = {**node.conditions, drawn.victim: node.conditions[neighbour]}
        freed = replace(scenario, node=replace(node, conditions=alike), jobs=(replace(plan, workload=drawn.freed),))
    return Instance(scenario, name, near, drawn.seconds, drawn.victim, freed)


def _conditions(rng: random.Random, node: NodePlan, given: dict[int, Conditions]) -> dict[int, Conditions]:
    """Return the conditions of every card: boards of one product differ in speed, draw and air."""
    spread = {}
    for index in range(len(node.slots)):
        own = given.get(index, Conditions(ambient_celsius=rng.uniform(24, 38)))
        spread[index] = replace(
            own, speed=own.speed * rng.gauss(1.0, 0.01), power=own.power * max(0.9, rng.gauss(1.0, 0.03))
        )
    return spread
