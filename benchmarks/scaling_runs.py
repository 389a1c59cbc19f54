"""Random workloads on several counts of cards of one simulated node: what is true, and runs as gpumon would know them.

The truth is the event log's alone. A run record is made from the truth and blurred as far as a time split and a period
are uncertain; `watch` instead takes the long way: telemetry, pipeline, history.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpumon.hardware.simulated.footprint import memory_bytes
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.random_jobs import Draw, Family, exchanging, fed, pipeline, tensor_parallel
from gpumon.hardware.simulated.random_nodes import Taste, draw_node
from gpumon.hardware.simulated.scenario import JobPlan, NodePlan, Scenario
from gpumon.hardware.simulated.training import Training
from gpumon.hardware.simulated.truth import JobTruth, job_truths
from gpumon.hardware.simulated.world import World
from gpumon.model.past import Past, Run, Shares
from gpumon.model.settings import Settings
from gpumon.model.topology import CardPath, Topology
from gpumon.model.verdict import JobClass, Verdict
from gpumon.pipeline import State, initial_state, step
from gpumon.sampling.clocks import CountingClock
from gpumon.sampling.simulated_time import ticks
from gpumon.scaling.judge import Node

WARM_S = 4.0
FAMILIES: tuple[tuple[Family, float], ...] = ((exchanging, 6.0), (tensor_parallel, 2.0), (pipeline, 1.0), (fed, 1.0))
_TASTE = Taste(geforce=0.75, professional=0.25)
# A stated split claims to be within this of the truth, at two sigma.
SPLIT_WITHIN = 0.06
STEP_NOISE = 0.004
FEWEST_STEPS = 3
DAY_TO_DAY = 0.008  # the same job another day: clocks, temperature


@dataclass(frozen=True, slots=True)
class Truth:
    """One count of cards: samples a second, and the event log's account."""

    throughput: float
    job: JobTruth
    held_bytes: float


@dataclass(frozen=True, slots=True)
class Instance:
    """A workload on a node, and what is true of it by the count of cards."""

    seed: int
    family: str
    node: NodePlan
    workload: Training
    truths: Mapping[int, Truth]

    @property
    def most(self) -> int:
        """How many cards the node has."""
        return len(self.node.slots)

    def efficiency(self, cards: int) -> float:
        """Return throughput over the count of cards times one card's."""
        return self.truths[cards].throughput / (cards * self.truths[1].throughput)

    def fits(self, cards: int) -> bool:
        """Return whether the model could be held by so many cards: the simulation runs it all the same."""
        plan = JobPlan("job", self.workload, tuple(range(cards)))
        card = self.node.slots[0].card
        roomy = replace(card, memory_bytes=1e15)
        return all(memory_bytes(plan, rank, roomy) <= 0.95 * card.memory_bytes for rank in range(cards))

    def slower_than(self, cards: int, margin: float) -> bool:
        """Return whether fewer cards did more by this margin."""
        return any(
            self.truths[fewer].throughput > (1.0 + margin) * self.truths[cards].throughput
            for fewer in self.truths
            if fewer < cards
        )

    def scenario(self, cards: int) -> Scenario:
        """Return the node with the job on its first cards: the same command but for the count."""
        plan = JobPlan(f"job-{self.seed}-{cards}", self.workload, tuple(range(cards)))
        return Scenario(f"scaling-{self.seed}-{cards}", "", self.node, (plan,))


def instance(seed: int) -> Instance:
    """Return the instance of a seed, with the truth of every count of cards: powers of two up to the node's."""
    rng = random.Random(f"scaling/{seed}")
    node = draw_node(rng, _TASTE, (2, 4, 8))
    family = rng.choices([one for one, _ in FAMILIES], [weight for _, weight in FAMILIES])[0]
    drawn = family(Draw(rng, node, near=rng.random() < 0.3))
    assert isinstance(drawn.workload, Training)
    workload = replace(drawn.workload, checkpoint=None, evaluation=None)
    bare = Instance(seed, family.__name__, node, workload, {})
    counts = [2**power for power in range(len(node.slots).bit_length())]
    return replace(bare, truths={cards: _truth(bare, cards) for cards in counts})


def _truth(bare: Instance, cards: int) -> Truth:
    """Simulate until 24 optimizer steps have ended, between 8 and 60 s; longer only until there are three."""
    world = World(bare.scenario(cards), 0, keeps_all=True)
    log = world.jobs[0].log
    seconds = 8.0 + WARM_S
    world.advance(seconds)
    while len(log.optimizer_steps_s) < FEWEST_STEPS or (len(log.optimizer_steps_s) < 24 and seconds < 60.0):
        seconds += 8.0
        world.advance(seconds)
    (job,) = job_truths(world, WARM_S, seconds)
    # Whole optimizer steps: the micro-steps of one differ in what they exchange.
    ends = log.optimizer_steps_s
    samples = bare.workload.accumulation * log.samples / len(log.micro_steps_s)
    throughput = samples * (len(ends) - 1) / (ends[-1] - ends[0])
    plan = JobPlan("job", bare.workload, tuple(range(cards)))
    held = sum(memory_bytes(plan, rank, bare.node.slots[0].card) for rank in range(cards))
    return Truth(throughput, job, held)


def uuids(cards: int) -> tuple[str, ...]:
    """Return the names of a node's first cards in run records."""
    return tuple(f"GPU-{number:02d}" for number in range(cards))


def record(made: Instance, cards: int, rng: random.Random, *, today: int = 0) -> Run:
    """Return the run as the history would hold it: the truth, blurred.

    Args:
        today: runs of different days do not share their drift.
    """
    truth = made.truths[cards]
    drift = 1.0 + rng.gauss(0.0, DAY_TO_DAY)
    step_s = truth.job.optimizer_step_s
    return Run(
        gpu_job=f"container:{made.seed:06d}{cards:02d}{today:04d}",
        workload=f"{made.seed:016x}",
        tenant="acme",
        uuids=uuids(cards),
        gpus=tuple(range(cards)),
        card=made.node.slots[0].card.name,
        topology="",
        strategy=made.workload.strategy if cards > 1 else "single",
        watched_s=600.0,
        ended=True,
        step_s=step_s * drift * (1.0 + rng.gauss(0.0, STEP_NOISE)),
        step_spread=STEP_NOISE,
        micro_batch=int(made.workload.micro_batch),
        accumulation=made.workload.accumulation,
        shares=_blurred(truth.job, rng),
        job_class=truth.job.job_class.value,
    )


def _blurred(job: JobTruth, rng: random.Random) -> Shares:
    """Return where the time goes, each part moved within its uncertainty; sums to 1."""
    split = {
        state: max(0.0, share + (rng.gauss(0.0, SPLIT_WITHIN / 2) if share > 0.01 else 0.0))
        for state, share in job.split.items()
    }
    busy = sum(split.values()) - split["idle"]
    return Shares(
        own=(split["compute"] + split["overlap"] + split["memory"]) / busy,
        host=split["host_wait"] / busy,
        exchange=split["communication"] / busy,
        waiting=split["peer_wait"] / busy,
        hidden=split["overlap"] / busy,
        memory=split["memory"] / busy,
        width=SPLIT_WITHIN,
    )


def judged_on(made: Instance, cards: int) -> Node:
    """Return the node as the judgement of a run on so many cards sees it."""
    truth = made.truths[cards]
    names = uuids(made.most)
    paths = tuple(
        CardPath(uuid, "", (), f"pci{slot.socket}", slot.socket)
        for uuid, slot in zip(names, made.node.slots, strict=True)
    )
    return Node(
        indices={uuid: number for number, uuid in enumerate(names)},
        topology=Topology(paths=paths),
        detail=truth.job.detail if truth.job.job_class is JobClass.COMMUNICATION else "",
        held_bytes=truth.held_bytes,
        card_bytes=made.node.slots[0].card.memory_bytes,
    )


def watch(made: Instance, cards: int, past: Past, seconds: float) -> tuple[State, Verdict]:
    """Return the pipeline's state and verdict after watching the job's telemetry on so many cards."""
    node = SimulatedNode(made.scenario(cards), clock=CountingClock())
    settings = Settings()
    state = initial_state()
    for tick in ticks(node, node, settings.sampling, seconds):
        state = step(state, tick, settings, past)
    assert state.view is not None
    return state, state.view.jobs[0].verdict


def known(*runs: Run) -> Past:
    """Return what a history with these runs hands to the pipeline."""
    by_workload: dict[str, tuple[Run, ...]] = {}
    for run in runs:
        if run.workload:
            by_workload[run.workload] = (run, *by_workload.get(run.workload, ()))
    return Past(by_workload)


def best_counts(made: Instance, cards: int, seen: tuple[int, ...]) -> tuple[int, float]:
    """Return the smallest count that reaches 95 % of the best, and the best.

    Among the present count, those that were seen, and fewer where the model fits.
    """
    options = [
        count for count in made.truths if count == cards or count in seen or (count < cards and made.fits(count))
    ]
    best = max(made.truths[count].throughput for count in options)
    return min(count for count in options if made.truths[count].throughput >= 0.95 * best), best
