"""How often the verdict is right: random simulated jobs against what really happened to them.

    python benchmarks/accuracy.py                     # 2,000 instances, all signals, cold and warm
    python benchmarks/accuracy.py --instances 400 --signals windows
    python benchmarks/accuracy.py --write docs/accuracy.md

The seeds of the report are 0 to 1,999 and are never used for tuning: thresholds are worked out on seeds from 1,000,000
on (`--first`). *Clear*: the winning share of the true split leads by 0.15 or more; *twin*: by 0.05 or less. Beside the
analysis runs a baseline of ten lines of rules on the same ticks; where it reaches 0.80, the instances are too easy.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from gpumon import pipeline
from gpumon.analysis.memory import AnalysisMemory, CardMemory
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.randomised import Instance, randomised
from gpumon.hardware.simulated.truth import JobTruth
from gpumon.model.card import PowerKind
from gpumon.model.process import ProcessTable
from gpumon.model.samples import CardTick, LinkSlots, Series, Tick
from gpumon.model.settings import Settings
from gpumon.model.verdict import TIME_STATES, JobClass, Verdict
from gpumon.pipeline.state import State
from gpumon.sampling import simulated_time

REPORT_SEEDS = 2000
CLEAR, TWIN = 0.15, 0.05
JUDGED_S = 40.0  # the truth is that of the last so many seconds, the longest window of the analysis
OLD_DRIVER = "550.54.15"  # before the byte counters: links are seen through 20 ms windows only
GPM_KEYS = ("sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio")
CONSUMER = ("RTX 3090", "RTX 4090", "RTX 5090", "RTX 2080")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One instance: what was so, and what was said. NaN and "" where nothing is."""

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
    true_cost: float
    said_culprits: tuple[int, ...]
    costs: tuple[float, ...]
    optimizer_step_s: float
    micro_step_s: float
    said_step_s: float

    @property
    def clear(self) -> bool:
        return self.margin >= CLEAR

    @property
    def twin(self) -> bool:
        return self.margin <= TWIN


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
    "no_power": _cards(_without_power),
    "no_links": _cards(_without_links),
    "no_memory_activity": _cards(_without_memory_activity),
    "no_processes": _without_processes,
}


# --- the baseline


def baseline(tick: Tick) -> str:
    """Return what ten lines of rules say of the node's one job: means over its cards in the last second."""
    up = [card for card in tick.card_ticks if card.up]
    if not up:
        return "unknown"
    mean = {key: float(np.nanmean([card.reading(key) for card in up])) for key in BASELINE_KEYS}
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


BASELINE_KEYS = ("utilization_ratio", "memory_controller_ratio", "power_watts", "power_limit_watts")


# --- one instance


def _node_for(instance: Instance, signals: str, seed: int) -> SimulatedNode:
    scenario = instance.scenario
    if signals == "windows":
        scenario = replace(scenario, node=replace(scenario.node, driver=OLD_DRIVER))
    return SimulatedNode(scenario, seed)


def _ticks(node: SimulatedNode, signals: str, seconds: float) -> Iterator[Tick]:
    change = SIGNALS[signals]
    for tick in simulated_time.ticks(node, node, Settings().sampling, seconds):
        yield change(tick)


def warmed(state: State) -> State:
    """Return a fresh state that knows what was learned of the cards: power levels and link capacity."""
    known = {
        uuid: CardMemory(levels=card.levels, capacity=card.capacity, last_seen_s=0.0)
        for uuid, card in state.analysis.cards.items()
    }
    return replace(pipeline.initial_state(), analysis=AnalysisMemory(cards=known))


def _verdict(state: State) -> Verdict:
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


def run(seed: int, signals: str = "full", warm: bool = False) -> Outcome:
    """Return what was said of one instance and what was so."""
    instance = randomised(seed)
    node = _node_for(instance, signals, seed)
    ticks = list(_ticks(node, signals, instance.seconds))
    settings = Settings()
    state = pipeline.initial_state()
    for tick in ticks:
        state = pipeline.step(state, tick, settings)
    if warm:
        state = warmed(state)
        for tick in ticks:
            state = pipeline.step(state, tick, settings)
    truth = node.truth(max(0.0, instance.seconds - JUDGED_S), instance.seconds)[0]
    votes = Counter(baseline(tick) for tick in ticks[-10:])
    return _outcome(seed, instance, truth, _verdict(state), votes.most_common(1)[0][0])


def _outcome(seed: int, instance: Instance, truth: JobTruth, verdict: Verdict, simple: str) -> Outcome:
    slots = instance.scenario.node.slots
    split = verdict.time_split
    error = (
        float(np.mean([abs(getattr(split, state) - truth.split[state]) for state in TIME_STATES]))
        if split is not None
        else math.nan
    )
    return Outcome(
        seed=seed,
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
        baseline=simple,
        split_error=error,
        split_stated=split is not None,
        true_culprit=truth.culprit.card if truth.culprit is not None else -1,
        true_cost=truth.culprit.cost_ratio if truth.culprit is not None else 0.0,
        said_culprits=tuple(straggler.gpu for straggler in verdict.stragglers),
        costs=tuple(truth.costs.get(straggler.gpu, 0.0) for straggler in verdict.stragglers),
        optimizer_step_s=truth.optimizer_step_s,
        micro_step_s=truth.micro_step_s,
        said_step_s=verdict.step_seconds,
    )


# --- figures


def f1_by_class(outcomes: list[Outcome], said: Callable[[Outcome], str]) -> dict[str, tuple[float, float, float, int]]:
    """Return precision, recall, F1 and the number of true instances of each class that occurs."""
    figures = {}
    for name in sorted({outcome.true_class for outcome in outcomes}):
        true = [outcome for outcome in outcomes if outcome.true_class == name]
        claimed = [outcome for outcome in outcomes if said(outcome) == name]
        right = sum(1 for outcome in true if said(outcome) == name)
        precision = right / len(claimed) if claimed else math.nan
        recall = right / len(true)
        f1 = 2 * right / (len(claimed) + len(true))
        figures[name] = (precision, recall, f1, len(true))
    return figures


def macro_f1(outcomes: list[Outcome], said: Callable[[Outcome], str]) -> float:
    """Return the mean of the classes' F1."""
    figures = f1_by_class(outcomes, said)
    return sum(f1 for _, _, f1, _ in figures.values()) / len(figures) if figures else math.nan


def wilson(right: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share. Source: Wilson 1927."""
    if count == 0:
        return math.nan, math.nan
    z, share = 1.959964, right / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return middle - half, middle + half


def calibration_error(outcomes: list[Outcome], bins: int = 10) -> float:
    """Return the expected calibration error of the verdicts that name a class."""
    named = [outcome for outcome in outcomes if outcome.said_class != "unknown"]
    error = 0.0
    for number in range(bins):
        inside = [o for o in named if number / bins < o.confidence <= (number + 1) / bins]
        if inside:
            right = sum(o.said_class == o.true_class for o in inside) / len(inside)
            error += len(inside) / len(named) * abs(right - sum(o.confidence for o in inside) / len(inside))
    return error


def step_right(outcome: Outcome) -> bool:
    """Return True where the step that was given is the optimizer's or the micro-step's within 3 %."""
    steps = (outcome.optimizer_step_s, outcome.micro_step_s)
    return any(abs(outcome.said_step_s - step) <= 0.03 * step for step in steps if not math.isnan(step))


def _share(outcomes: Iterable[bool]) -> str:
    values = list(outcomes)
    if not values:
        return "none"
    low, high = wilson(sum(values), len(values))
    return f"{sum(values) / len(values):.3f} ({low:.3f}-{high:.3f}, n={len(values)})"


def report(outcomes: list[Outcome]) -> str:
    """Return the figures as text."""
    clear = [o for o in outcomes if o.clear]
    twins = [o for o in outcomes if o.twin]
    consumer = [o for o in clear if any(name in o.card for name in CONSUMER)]
    lines = [
        f"instances {len(outcomes)}, clear {len(clear)}, twins {len(twins)}, near {sum(o.near for o in outcomes)}",
        f"macro-F1 on clear: {macro_f1(clear, lambda o: o.said_class):.3f}",
        f"macro-F1 of the baseline: {macro_f1(clear, lambda o: o.baseline):.3f}",
        f"unknown on clear: {_share(o.said_class == 'unknown' for o in clear)}",
        f"twins unknown or under 0.6: {_share(o.said_class == 'unknown' or o.confidence < 0.6 for o in twins)}",
        f"calibration error: {calibration_error(outcomes):.3f}",
        f"time split stated on clear: {_share(o.split_stated for o in clear)}",
        f"mean absolute split error: {np.nanmean([o.split_error for o in outcomes]):.3f}",
    ]
    right = [o for o in clear if o.said_class == o.true_class and o.true_detail and o.detail_margin >= CLEAR]
    lines.append(f"detail right: {_share(o.said_detail == o.true_detail for o in right)}")
    held = [o for o in outcomes if o.true_cost >= 0.15]
    lines.append(f"straggler named at 15 % and more: {_share(o.true_culprit in o.said_culprits for o in held)}")
    lines.append(f"named under 8 %: {_share(any(cost < 0.08 for cost in o.costs) for o in outcomes)}")
    stepping = [o for o in clear if not math.isnan(o.optimizer_step_s)]
    given = [o for o in outcomes if not math.isnan(o.said_step_s)]
    lines.append(f"step given: {_share(not math.isnan(o.said_step_s) for o in stepping)}")
    lines.append(f"step wrong: {_share(not step_right(o) for o in given)}")
    for title, some in (("clear", clear), ("clear, consumer cards", consumer)):
        lines.append(f"-- {title}: class, precision, recall, F1, n, spread of confidence")
        for name, (precision, recall, f1, count) in f1_by_class(some, lambda o: o.said_class).items():
            spread = np.std([o.confidence for o in some if o.said_class == name] or [0.0])
            lines.append(f"   {name:14s} {precision:.3f} {recall:.3f} {f1:.3f} {count:5d} {spread:.3f}")
    lines.append("-- clear: true class -> said class")
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for o in clear:
        table[o.true_class][o.said_class] += 1
    lines += [f"   {name:14s} {dict(said.most_common())}" for name, said in sorted(table.items())]
    return "\n".join(lines)


def _run_one(arguments: tuple[int, str, bool]) -> Outcome:
    return run(*arguments)


def run_all(seeds: Iterable[int], signals: str, warm: bool, workers: int) -> list[Outcome]:
    """Return the outcomes of many instances, in the order of their seeds."""
    work = [(seed, signals, warm) for seed in seeds]
    if workers == 1:
        return [_run_one(item) for item in work]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return list(pool.imap(_run_one, work, chunksize=4))


def main() -> int:
    """Run the instances and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--instances", type=int, default=REPORT_SEEDS)
    parser.add_argument("--first", type=int, default=0, help="first seed; the report's are 0 to 1999")
    parser.add_argument("--signals", choices=sorted(SIGNALS), default="full")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--json", type=Path, help="write every outcome")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.instances)
    outcomes = run_all(seeds, arguments.signals, arguments.warm, arguments.workers)
    print(report(outcomes))
    if arguments.json is not None:
        arguments.json.write_text("\n".join(json.dumps(asdict(o)) for o in outcomes), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
