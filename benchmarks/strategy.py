"""How often the strategy is recognised: random simulated jobs on several cards, with and without their command line.

    python benchmarks/strategy.py                    # 400 jobs, both ways
    python benchmarks/strategy.py --jobs 100 --first 1000000

Seeds 0 to 399 are the report's; thresholds are worked out on seeds from 1,000,000 on. Jobs are drawn over what a job
on several cards can be: replicas, sharded, cut in layers or stages, through the host, one process for all, servers.
*Clear* are those that work (at least half of their time is not idle, and nothing hangs) and whose exchange can be seen
at all: not those that use NVLink on cards that do not tell what it carries. Without a command line the job
is put together as usual and then everything that launchers, variables and files said of its layout is taken away.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpumon import analysis, jobs
from gpumon.hardware.simulated import random_jobs
from gpumon.hardware.simulated.footprint import CONTEXT_BYTES, memory_bytes
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.random_jobs import Draw, Family
from gpumon.hardware.simulated.random_nodes import Taste, draw_identity, draw_node
from gpumon.hardware.simulated.scenario import JobPlan, NodePlan, Scenario
from gpumon.hardware.simulated.serving import Serving
from gpumon.model.job import Job, Layout
from gpumon.model.settings import Settings
from gpumon.model.verdict import JobClass
from gpumon.sampling import simulated_time

REPORT_JOBS = 400
SECONDS = 75.0
FULL = 0.955  # of a card's memory
FAMILIES: tuple[tuple[str, Family, float], ...] = (
    ("exchanging", random_jobs.exchanging, 4.0),
    ("tensor_parallel", random_jobs.tensor_parallel, 1.0),
    ("pipeline", random_jobs.pipeline, 1.5),
    ("offloaded", random_jobs.offloaded, 1.5),
    ("generating", random_jobs.generating, 1.0),
    ("prompting", random_jobs.prompting, 1.0),
    ("through_the_cpu", random_jobs.through_the_cpu, 2.5),
)
# What may be said of each truth. ZeRO-1 and ZeRO-2 are one row of the vocabulary, as are ZeRO-3 and FSDP; gloo and
# sockets are ways for DDP's gradients; layers that take turns are a pipeline without micro-batches.
RIGHT: dict[str, frozenset[str]] = {
    "ddp": frozenset({"ddp"}),
    "gloo": frozenset({"ddp"}),
    "zero1": frozenset({"zero1", "zero2"}),
    "zero2": frozenset({"zero1", "zero2"}),
    "zero3": frozenset({"zero3", "fsdp"}),
    "fsdp": frozenset({"zero3", "fsdp"}),
    "tp": frozenset({"tp"}),
    "pp": frozenset({"pp"}),
    "offload": frozenset({"offload"}),
    "dataparallel": frozenset({"dataparallel"}),
    "device_map": frozenset({"device_map"}),
    "layers": frozenset({"device_map", "pp"}),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One job: what was so, and what was said."""

    seed: int
    truth: str
    clear: bool
    said: str
    about: str  # card, number of cards, link source

    @property
    def right(self) -> bool:
        """True where the answer names the strategy."""
        return self.said in RIGHT.get(self.truth, frozenset())


def scenario(seed: int) -> Scenario:
    """Return the job of a seed on its node; the same seed gives the same one."""
    rng = random.Random(f"strategy/{seed}")
    while True:
        _, family, _ = rng.choices(FAMILIES, [weight for _, _, weight in FAMILIES])[0]
        node = draw_node(rng, Taste(), (2, 4, 8))
        drawn = family(Draw(rng, node, rng.random() < 0.45))
        plan = JobPlan(f"job-{seed}", drawn.workload, tuple(range(len(node.slots))), identity=draw_identity(rng))
        if _fits(plan, node):
            return Scenario(f"strategy-{seed}", "", replace(node, conditions=drawn.conditions), (plan,))


def _fits(plan: JobPlan, node: NodePlan) -> bool:
    """Return True where the job could run: the simulation gives a job that does not fit all the memory there is."""
    if isinstance(plan.workload, Serving):
        return True
    cards = [node.slots[index].card for index in plan.cards]
    held = (memory_bytes(plan, rank, card) + CONTEXT_BYTES for rank, card in enumerate(cards))
    return all(bytes_held < FULL * card.memory_bytes for bytes_held, card in zip(held, cards, strict=True))


def without_command_line(job: Job) -> Job:
    """Return the job as it would be if nothing could be read of how it was started."""
    return replace(job, layout=Layout())


def watch(seed: int, command_line: bool) -> Outcome:
    """Simulate a job and return what was said of it at the end."""
    chosen, settings = scenario(seed), Settings()
    node = SimulatedNode(chosen, seed)
    attributed, judged = jobs.initial_memory(), analysis.initial_memory()
    said: Counter[str] = Counter()
    for tick in simulated_time.ticks(node, node, settings.sampling, SECONDS):
        attributed, found = jobs.attribute(attributed, tick, settings)
        if not command_line:
            found = tuple(map(without_command_line, found))
        judged, meaning = analysis.analyse(judged, tick, found, settings)
        said = Counter({meaning.verdicts[job.gpu_job].strategy: len(job.cards) for job in found})
        visible = all(
            card.nvlink.links == 0 or read.nvlink.t1_s.size > 0
            for card, read in zip(tick.cards, tick.card_ticks, strict=True)
        )
    (truth,) = node.truth(SECONDS / 2, SECONDS)
    working = visible and truth.split["idle"] < 0.5 and truth.job_class is not JobClass.HUNG
    about = f"{len(truth.cards)} x {chosen.node.slots[0].card.name}"
    return Outcome(seed, truth.strategy, working, said.most_common(1)[0][0] if said else "", about)


def _outcomes(seeds: range, command_line: bool, processes: int) -> Iterator[Outcome]:
    work = [(seed, command_line) for seed in seeds]
    if processes == 1:
        yield from (watch(*each) for each in work)
        return
    with multiprocessing.Pool(processes) as pool:
        yield from pool.starmap(watch, work, chunksize=4)


def table(outcomes: list[Outcome]) -> str:
    """Return the counts by true strategy, and the shares over all clear jobs."""
    clear = [outcome for outcome in outcomes if outcome.clear]
    by_truth: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in clear:
        by_truth[outcome.truth].append(outcome)
    lines = [f"{'strategy':14}{'jobs':>6}{'right':>7}{'none':>6}{'wrong':>7}  wrongly said"]
    for truth, own in sorted(by_truth.items()):
        right, silent = sum(o.right for o in own), sum(not o.said for o in own)
        wrong = Counter(o.said for o in own if o.said and not o.right)
        named = ", ".join(f"{said} {count}" for said, count in wrong.most_common())
        lines.append(f"{truth:14}{len(own):6}{right:7}{silent:6}{sum(wrong.values()):7}  {named}")
    right, silent = sum(o.right for o in clear), sum(not o.said for o in clear)
    lines.append(f"{'all':14}{len(clear):6}{right:7}{silent:6}{len(clear) - right - silent:7}")
    lines.append(f"right {right / len(clear):.3f}, wrong {(len(clear) - right - silent) / len(clear):.3f}")
    return "\n".join(lines)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=REPORT_JOBS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--wrong", action="store_true", help="list the wrong answers")
    asked = parser.parse_args()
    for command_line in (True, False):
        outcomes = list(_outcomes(range(asked.first, asked.first + asked.jobs), command_line, asked.processes))
        print(f"\n{'with' if command_line else 'without'} command line, {len(outcomes)} jobs")
        print(table(outcomes))
        if asked.wrong:
            for o in outcomes:
                if o.clear and not o.right:
                    print(f"  seed {o.seed}: {o.truth} said {o.said or 'nothing'} ({o.about})")


if __name__ == "__main__":
    main()
