"""A scenario brought to life: cards, links and jobs on one engine, simulated as far as somebody asks."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.engine import Engine, Program, Signal
from gpumon.hardware.simulated.fabric import Fabric
from gpumon.hardware.simulated.footprint import CONTEXT_BYTES, memory_bytes
from gpumon.hardware.simulated.host_tasks import evaluate, save
from gpumon.hardware.simulated.job import Job, Log
from gpumon.hardware.simulated.physics import CardState, Conditions
from gpumon.hardware.simulated.pipeline import Pipeline, device_map, one_process_replicas
from gpumon.hardware.simulated.scenario import Burn, JobPlan, Scenario, Standing
from gpumon.hardware.simulated.serving import Server, Serving
from gpumon.hardware.simulated.timeline import Label, Timeline
from gpumon.hardware.simulated.training import (
    Replicas,
    Training,
    data_parallel,
    full_shard,
    host_optimizer,
    sharded_optimizer,
    tensor_parallel,
    through_the_cpu,
)

STRATEGIES: dict[str, Callable[[Replicas, int], Program]] = {
    "single": data_parallel,
    "ddp": data_parallel,
    "zero1": sharded_optimizer,
    "zero2": sharded_optimizer,
    "zero3": full_shard,
    "fsdp": full_shard,
    "tp": tensor_parallel,
    "offload": host_optimizer,
    "gloo": through_the_cpu,
    "dataparallel": one_process_replicas,
    "device_map": device_map,
}
ONE_PROCESS = ("dataparallel", "device_map")
_CUT_MODEL = ("tp", "pp", "device_map")
# How far the engine runs ahead of a question at least: fewer, larger flushes.
_AHEAD_S = 1.0
_BURN_STRETCH_S = 0.25
_Steps: TypeAlias = tuple[Replicas, Callable[[int], Program]]
_LARGEST_LOAD_BYTES = 16e9  # weights of one card, of what its job will hold


class World:
    """The physical node. Readers ask timelines; `advance` makes sure the answer exists."""

    def __init__(self, scenario: Scenario, seed: int, keeps_all: bool = False) -> None:
        self.scenario = scenario
        self.lock = threading.RLock()  # readers of several threads share one world
        self.engine = Engine()
        self._keeps_all = keeps_all
        self._rng = random.Random(f"{scenario.name}/{seed}")
        self.timelines = [Timeline(keeps_all) for _ in scenario.node.slots]
        self.fabric = Fabric(
            self.engine, scenario.node.slots, scenario.node.host, self._before_change, self._after_change
        )
        self.cards = [
            CardState(self.engine, index, slot, self._conditions(index), self.timelines[index])
            for index, slot in enumerate(scenario.node.slots)
        ]
        self.jobs = [self._plan_job(plan) for plan in scenario.jobs]
        self._simulated_s = 0.0
        self.advance(0.0)

    def advance(self, until_s: float) -> None:
        """Simulate at least up to a time."""
        if until_s < self._simulated_s or self._simulated_s == float("inf"):
            return
        self._simulated_s = until_s + _AHEAD_S
        self.engine.run_until(self._simulated_s)
        for card in self.cards:
            card.close()
            card.timeline.flush()

    def _conditions(self, index: int) -> Conditions:
        given = self.scenario.node.conditions.get(index)
        if given is not None:
            return given
        # Boards of one product differ: 1 % in speed, 3 % in power, a few degrees.
        return Conditions(
            speed=self._rng.gauss(1.0, 0.008),
            power=self._rng.gauss(1.0, 0.025),
            ambient_celsius=self._rng.uniform(26, 36),
        )

    def _before_change(self, cards: Sequence[int]) -> None:
        for index in cards:
            self.cards[index].close()

    def _after_change(self, cards: Sequence[int]) -> None:
        for index in cards:
            state = self.cards[index]
            state.transfers = [transfer for transfer in self.fabric.active if index in transfer.route.cards]
            state.settle()

    def _plan_job(self, plan: JobPlan) -> Job:
        workload = plan.workload
        job = Job(
            engine=self.engine,
            fabric=self.fabric,
            host=self.scenario.node.host,
            cards=[self.cards[index] for index in plan.cards],
            rng=random.Random(f"{self.scenario.name}/{plan.name}/{self._rng.random()}"),
            jitter=getattr(workload, "jitter", 0.0),
            start_s=plan.start_s,
            end_s=plan.end_s,
            log=Log(self._keeps_all),
            hangs_at_s=getattr(workload, "hangs_at_s", float("inf")),
            turns_at_s=getattr(workload, "then_at_s", float("inf")),
        )
        running = plan.start_s <= 0
        begin = job.rng.uniform(0.0, 0.6) if running else plan.start_s
        self.engine.at(0.0 if running else plan.start_s, lambda: self._open(job, plan))
        load_s = 0.0 if running else plan.load_seconds
        self.engine.at(begin, lambda: self._run(job, plan, load_s))
        return job

    def _open(self, job: Job, plan: JobPlan) -> None:
        """Processes open their contexts and take their memory."""
        if isinstance(plan.workload, Standing) and not plan.workload.contexts:
            return
        for rank, card in enumerate(job.cards):
            held = memory_bytes(plan, rank, card.card)
            label = Label.IDLE if isinstance(plan.workload, Standing) else Label.HOST_OTHER
            card.change(host_label=label, contexts=1, memory_bytes=held + CONTEXT_BYTES)

    def _close(self, job: Job, plan: JobPlan) -> None:
        for rank, card in enumerate(job.cards):
            card.change(
                host_label=Label.IDLE,
                contexts=-1,
                memory_bytes=-(memory_bytes(plan, rank, card.card) + CONTEXT_BYTES),
            )

    def _run(self, job: Job, plan: JobPlan, load_s: float) -> None:
        program = _program(job, plan)
        if program is None:
            if plan.end_s < float("inf") and not (isinstance(plan.workload, Standing) and not plan.workload.contexts):
                self.engine.at(plan.end_s, lambda: self._close(job, plan))
            return
        one_process = isinstance(plan.workload, Training) and plan.workload.strategy in ONE_PROCESS
        ranks = [0] if one_process else list(range(job.size))
        left = len(ranks)

        def ended() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                job.end_s = self.engine.now
                self._close(job, plan)

        for rank in ranks:
            self.engine.start(_loaded(job, plan, rank, load_s, program)).when_fired(ended)


def _loaded(job: Job, plan: JobPlan, rank: int, seconds: float, program: Callable[[int], Program]) -> Program:
    """Read weights from disk, copy them to the card, then run; a job that was there before has done so."""
    if seconds > 0:
        now = job.engine.now
        weights = min(memory_bytes(plan, rank, job.cards[rank].card) / 3, _LARGEST_LOAD_BYTES)
        job.disk_read.add(now, now + seconds, weights / job.size)
        yield from job.idle(rank, Label.HOST_OTHER, seconds)
        yield job.copy(rank, True, weights, Label.HOST_OTHER)
    yield from program(rank)


def _program(job: Job, plan: JobPlan) -> Callable[[int], Program] | None:
    """Return what each rank runs; None for a job that only stands there."""
    workload = plan.workload
    if isinstance(workload, Training):
        return _training(job, workload)
    if isinstance(workload, Serving):
        return Server(job, workload).serve
    if isinstance(workload, Burn):
        return lambda rank: _burn(job, workload, rank)
    return None


def _training(job: Job, plan: Training) -> Callable[[int], Program]:
    first = _steps(job, plan)
    then = _steps(job, plan.then) if plan.then is not None else None
    return lambda rank: _train_both(first, then, rank)


def _steps(job: Job, plan: Training) -> _Steps:
    """Return what a training's ranks share, and the program of one step."""
    replicas = Replicas(job, plan, model_cuts=job.size if plan.strategy in _CUT_MODEL else 1)
    if plan.strategy == "pp":
        return replicas, Pipeline(replicas).step
    strategy = STRATEGIES[plan.strategy]
    return replicas, lambda rank: strategy(replicas, rank)


def _train_both(first: _Steps, then: _Steps | None, rank: int) -> Program:
    """Run one training until it ends or the work changes, then the other."""
    steps = yield from _train(*first, rank, 0)
    if then is not None:
        log = first[0].job.log
        log.turned_s = min(log.turned_s, first[0].job.engine.now)
        yield from _train(*then, rank, steps)


def _train(
    replicas: Replicas, step: Callable[[int], Program], rank: int, number: int
) -> Generator[float | Signal, None, int]:
    """Run one step after the other, from a number on; the number of the next one comes back when the work changes."""
    job, plan = replicas.job, replicas.plan
    while job.goes_on(number):
        if job.hangs(number):
            yield from job.hang(rank)
        if plan.then is not None and job.turns(number):
            return number
        yield from step(rank)
        if rank == 0:
            job.log.optimizer_steps_s.append(job.engine.now)
        number += 1
        paused_s = job.engine.now
        if plan.checkpoint is not None and number % plan.checkpoint.every_steps == 0:
            yield from save(job, rank, plan.checkpoint)
        if plan.evaluation is not None and number % plan.evaluation.every_steps == 0:
            yield from evaluate(job, rank, plan.evaluation, replicas.kernels)
        if rank == 0 and job.engine.now > paused_s:
            job.log.pauses_s.append((paused_s, job.engine.now))
    return number


def _burn(job: Job, plan: Burn, rank: int) -> Program:
    kernels = {
        "dense": work.training(plan.intensity, 1.0),
        "filler": work.filler(),
        "copy": work.streaming(job.cards[rank].card, 0.92),
        "small": work.small_products(plan.intensity),
    }[plan.kind]
    number = 0
    while job.goes_on(number):
        yield job.kernel(rank, kernels, _BURN_STRETCH_S)
        if rank == 0:
            job.log.samples += 1
        number += 1
