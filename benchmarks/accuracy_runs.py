"""One random simulated job, watched with all signals or without some: what was so, what was said, what rules say.

The ticks of a seed are made once; each signal set takes its readings out of them. *Cold* is a gpumon that never saw
the node. *Warm* is one that has watched the same job before and remembers what a restarted daemon would: the cards'
power levels and the rates of their links, nothing of the job.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from gpumon import pipeline
from gpumon.analysis.memory import AnalysisMemory, CardMemory
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.randomised import Instance, randomised
from gpumon.hardware.simulated.truth import JobTruth, job_truths
from gpumon.hardware.simulated.world import World
from gpumon.model.card import PowerKind
from gpumon.model.process import ProcessTable
from gpumon.model.samples import CardTick, LinkSlots, Series, Tick
from gpumon.model.settings import Settings
from gpumon.model.verdict import TIME_STATES, JobClass, Straggler, Verdict
from gpumon.pipeline.state import State
from gpumon.sampling import simulated_time

CLEAR, TWIN = 0.15, 0.05  # lead of the winning share of the true split
JUDGED_S = 40.0  # the truth is that of the last so many seconds, the longest window of the analysis
NAMEABLE = 0.08  # share of the job's time that a card must cost to be one that others wait for
OLD_DRIVER = "550.54.15"  # before the byte counters: links are seen through 20 ms windows only
GPM_KEYS = ("sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio")
CONSUMER = ("RTX 3090", "RTX 4090", "RTX 5090")

Named: TypeAlias = dict[int, Straggler]  # by the card's index


@dataclass(frozen=True, slots=True)
class Outcome:
    """One instance: what was so, and what was said. NaN, -1 and "" where nothing is."""

    seed: int
    family: str
    near: bool
    card: str
    cards: int
    margin: float
    true_class: str
    true_detail: str
    detail_margin: float
    said_class: str
    said_detail: str
    confidence: float
    baseline: str
    split_error: float
    split_stated: bool
    true_culprit: int
    true_cause: str
    true_cost: float  # of the costliest card
    said_culprits: tuple[int, ...]
    said_causes: tuple[str, ...]
    said_costs: tuple[float, ...]
    costs: tuple[float, ...]  # true ones of the cards that were named
    optimizer_step_s: float
    micro_step_s: float
    said_step_s: float

    @property
    def clear(self) -> bool:
        """True where one share of the true split leads clearly."""
        return self.margin >= CLEAR

    @property
    def twin(self) -> bool:
        """True where two shares of the true split are about equal."""
        return self.margin <= TWIN

    @property
    def right(self) -> bool:
        """True where the class is the true one."""
        return self.said_class == self.true_class

    @property
    def wrong(self) -> bool:
        """True where another class was named."""
        return not self.right and self.said_class != JobClass.UNKNOWN.value

    @property
    def consumer(self) -> bool:
        """True on GeForce cards."""
        return any(name in self.card for name in CONSUMER)


# --- signals


def _without_power(tick: CardTick) -> CardTick:
    missing = np.full(tick.pcie.t1_s.size, np.nan)
    readings = {key: value for key, value in tick.readings.items() if "power" not in key and "energy" not in key}
    slots = replace(tick.pcie, power_watts=missing)
    return replace(tick, power=Series(), power_kind=PowerKind.NONE, pcie=slots, readings=readings)


def _without_gpm(tick: CardTick) -> CardTick:
    return replace(tick, readings={key: value for key, value in tick.readings.items() if key not in GPM_KEYS})


def _without_links(tick: CardTick) -> CardTick:
    return replace(tick, pcie=LinkSlots(), nvlink=LinkSlots())


def _without_memory_activity(tick: CardTick) -> CardTick:
    readings = {key: value for key, value in tick.readings.items() if key != "memory_controller_ratio"}
    return replace(tick, memory_controller=Series(), readings=readings)


def _cards(change: Callable[[CardTick], CardTick]) -> Callable[[Tick], Tick]:
    return lambda tick: replace(tick, card_ticks=tuple(change(card) for card in tick.card_ticks))


def _without_processes(tick: Tick) -> Tick:
    cards = tuple(replace(card, processes=None) for card in tick.card_ticks)
    return replace(tick, card_ticks=cards, processes=ProcessTable())


def _same(tick: Tick) -> Tick:
    return tick


SIGNALS: dict[str, Callable[[Tick], Tick]] = {
    "full": _same,
    "windows": _same,  # the driver of the node is set back
    "no_gpm": _cards(_without_gpm),
    "no_links": _cards(_without_links),
    "no_power": _cards(_without_power),
    "no_memory_activity": _cards(_without_memory_activity),
    "no_processes": _without_processes,
}


# --- the baseline


def baseline(tick: Tick) -> str:
    """Return what ten lines of rules say of the node's one job: means over its cards in the last second."""
    up = [card for card in tick.card_ticks if card.up]
    if not up:
        return "unknown"
    mean = {key: _mean([card.reading(key) for card in up]) for key in BASELINE_KEYS}
    rates = [np.nansum(card.pcie.rx_bytes) / max(1e-9, np.sum(card.pcie.t1_s - card.pcie.t0_s)) for card in up]
    if mean["utilization_ratio"] < 0.02:
        return "idle"
    if any(card.throttle_reasons & {"sw_thermal", "hw_thermal", "hw_power_brake"} for card in up):
        return "throttled"
    if mean["memory_controller_ratio"] > 0.6:
        return "memory"
    if mean["utilization_ratio"] < 0.7:
        return "host"
    waits = mean["power_watts"] < 0.5 * mean["power_limit_watts"]
    return "communication" if len(up) > 1 and (waits or float(np.mean(rates)) > 5e9) else "compute"


def _mean(values: list[float]) -> float:
    present = [value for value in values if not math.isnan(value)]
    return sum(present) / len(present) if present else math.nan


BASELINE_KEYS = ("utilization_ratio", "memory_controller_ratio", "power_watts", "power_limit_watts")


# --- one instance


def watched(seed: int, driver: str = "") -> tuple[tuple[Tick, ...], JobTruth]:
    """Return the ticks of an instance, with another driver if one is given, and the truth of its last seconds."""
    instance = randomised(seed)
    scenario = instance.scenario
    if driver:
        scenario = replace(scenario, node=replace(scenario.node, driver=driver))
    node = SimulatedNode(scenario, seed)
    ticks = tuple(simulated_time.ticks(node, node, Settings().sampling, instance.seconds))
    return ticks, node.truth(max(0.0, instance.seconds - JUDGED_S), instance.seconds)[0]


def judged(ticks: Iterable[Tick], state: State | None = None) -> tuple[State, Named]:
    """Return the state after the ticks, and the stragglers that were named in the time the truth speaks of.

    Verdicts follow the phases of a job: whoever holds it up in each save is named then and not between.
    """
    settings, state = Settings(), state or pipeline.initial_state()
    named: list[tuple[float, Straggler]] = []
    for tick in ticks:
        state = pipeline.step(state, tick, settings)
        named += [(tick.mono_s, straggler) for straggler in verdict_of(state).stragglers]
    last_s = tick.mono_s - JUDGED_S
    return state, {straggler.gpu: straggler for time_s, straggler in named if time_s > last_s}


def warmed(state: State) -> State:
    """Return a fresh state that knows what was learned of the cards: power levels and link capacity."""
    known = {
        uuid: CardMemory(levels=card.levels, capacity=card.capacity, last_seen_s=0.0)
        for uuid, card in state.analysis.cards.items()
    }
    return replace(pipeline.initial_state(), analysis=AnalysisMemory(cards=known))


def verdict_of(state: State) -> Verdict:
    """Return what was said of the instance's job; where its processes look like several jobs, what most cards heard."""
    if state.view is None:
        return Verdict()
    running = [job for job in state.view.jobs if math.isnan(job.ended_s)]
    if not running:
        return Verdict(JobClass.IDLE)
    votes: Counter[JobClass] = Counter()
    for job in running:
        votes[job.verdict.job_class] += len(job.job.cards)
    most = votes.most_common(1)[0][0]
    return next(job.verdict for job in running if job.verdict.job_class is most)


def run(seed: int, sets: Iterable[tuple[str, bool]]) -> Iterator[Outcome]:
    """Yield what was said of one instance with each signal set, cold (False) or warm (True)."""
    instance = randomised(seed)
    made: dict[str, tuple[tuple[Tick, ...], JobTruth]] = {}
    for signals, warm in sets:
        driver = OLD_DRIVER if signals == "windows" else ""
        if driver not in made:
            made[driver] = watched(seed, driver)
        ticks, truth = made[driver]
        seen = [SIGNALS[signals](tick) for tick in ticks]
        state, named = judged(seen)
        if warm:
            state, named = judged(seen, warmed(state))
        yield outcome_of(instance, truth, (verdict_of(state), named), seen)


def outcome_of(instance: Instance, truth: JobTruth, said: tuple[Verdict, Named], ticks: list[Tick]) -> Outcome:
    """Return truth and verdict side by side."""
    verdict, named = said
    slots = instance.scenario.node.slots
    split = verdict.time_split
    error = (
        float(np.mean([abs(getattr(split, state) - truth.split[state]) for state in TIME_STATES]))
        if split is not None
        else math.nan
    )
    costs = true_costs(instance, truth)
    culprit = truth.culprit.card if truth.culprit is not None else -1
    if costs.get(instance.victim, 0.0) >= NAMEABLE:
        culprit = instance.victim
    return Outcome(
        seed=_seed(instance),
        family=instance.family,
        near=instance.near,
        card=slots[0].card.name,
        cards=len(slots),
        margin=truth.margin,
        true_class=truth.job_class.value,
        true_detail=truth.detail,
        detail_margin=truth.detail_margin,
        said_class=verdict.job_class.value,
        said_detail=verdict.detail,
        confidence=verdict.confidence,
        baseline=Counter(baseline(tick) for tick in ticks[-10:]).most_common(1)[0][0],
        split_error=error,
        split_stated=split is not None,
        true_culprit=culprit,
        true_cause=truth.culprit.cause if truth.culprit is not None and truth.culprit.card == culprit else "",
        true_cost=costs.get(culprit, 0.0),
        said_culprits=tuple(named),
        said_causes=tuple(straggler.cause for straggler in named.values()),
        said_costs=tuple(straggler.cost_ratio for straggler in named.values()),
        costs=_costs_of(instance, costs, named),
        optimizer_step_s=truth.optimizer_step_s,
        micro_step_s=truth.micro_step_s,
        said_step_s=verdict.step_seconds,
    )


def true_costs(instance: Instance, truth: JobTruth) -> dict[int, float]:
    """Return the share of the job's time that each card costs it, by index.

    Of a card that was made slower: how much shorter a step is when the same job runs with that card like the others.
    Waiting alone would say too little: where transfers hide behind the pass, a late card makes all transfers late and
    the others wait for bytes. Of others: what was waited for them; a narrow link's cost is that of the whole ring.
    """
    costs = dict(truth.costs)
    if truth.culprit is not None:
        costs[truth.culprit.card] = truth.culprit.cost_ratio
    if instance.freed is not None:
        world = World(instance.freed, _seed(instance))
        world.advance(instance.seconds)
        free = job_truths(world, max(0.0, instance.seconds - JUDGED_S), instance.seconds)[0]
        shorter = 1.0 - free.optimizer_step_s / truth.optimizer_step_s
        costs[instance.victim] = max(0.0, shorter) if not math.isnan(shorter) else costs[instance.victim]
    return costs


def _costs_of(instance: Instance, costs: dict[int, float], named: Named) -> tuple[float, ...]:
    """Return what each named card costs.

    A name that was said in the time the truth speaks of rests on the seconds before it, at most JUDGED_S of them: a
    card that cost much then was rightly named. So it is the greater of the costs in that time and in the one before.
    """
    end_s = instance.seconds - JUDGED_S
    earlier: dict[int, float] = {}
    if end_s > 0.0 and any(costs.get(gpu, 0.0) < NAMEABLE for gpu in named):
        world = World(instance.scenario, _seed(instance))
        world.advance(end_s)
        earlier = dict(job_truths(world, max(0.0, end_s - JUDGED_S), end_s)[0].costs)
    return tuple(max(costs.get(gpu, 0.0), earlier.get(gpu, 0.0)) for gpu in named)


def _seed(instance: Instance) -> int:
    return int(instance.scenario.name.rsplit("-", 1)[1])
