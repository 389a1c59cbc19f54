"""How soon a change is seen, and that nothing is said to change where nothing does.

    python -m benchmarks.accuracy_changes --changes 200 --hangs 40 --transitions 200

A change is one of class by the truth, clear on both sides; its delay counts from the end of the last step of the old
kind. A transition is a healthy job
that starts, ends, moves to fewer cards, saves, evaluates, has a lull, or is watched by a gpumon that restarts or misses
samples. *Customer-facing* are the verdicts that customers hear of: communication, host, idle, hung.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.accuracy_runs import CLEAR, verdict_of
from benchmarks.accuracy_scores import Share
from gpumon import pipeline
from gpumon.hardware.simulated.changes import class_change, hang
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.scenario import Scenario
from gpumon.hardware.simulated.transitions import healthy_transition
from gpumon.model.settings import Settings
from gpumon.model.verdict import JobClass, Verdict
from gpumon.pipeline.state import State
from gpumon.sampling import simulated_time

SEEN_WITHIN_S = 20.0
HUNG_WITHIN_S = (300.0, 600.0)
BEFORE_S, AFTER_S = 30.0, 40.0  # of the truth on both sides of a change
CUSTOMER_FACING = frozenset({JobClass.COMMUNICATION, JobClass.HOST, JobClass.IDLE, JobClass.HUNG})
STANDS_S = 60.0  # a class that stands for a minute is more than a moment
SETTLING_S = 60.0  # of a steady job, before which a cold gpumon may still change its mind

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Delay:
    """One change: from which class to which, and after how many seconds it was said; infinite where it was not."""

    seed: int
    before: str
    after: str
    clear: bool
    delay_s: float


@dataclass(frozen=True, slots=True)
class Life:
    """One healthy transition: the longest time for which a customer-facing class stood, and which."""

    seed: int
    kind: str
    longest_s: float
    job_class: str


def watched(
    scenario: Scenario, seed: int, seconds: float, restarts_s: tuple[float, ...] = ()
) -> Iterator[tuple[float, State, SimulatedNode]]:
    """Yield the state after every tick; gpumon forgets everything at its restarts."""
    node, settings = SimulatedNode(scenario, seed), Settings()
    state, left = pipeline.initial_state(), list(restarts_s)
    begin = math.nan
    for tick in simulated_time.ticks(node, node, settings.sampling, seconds):
        begin = tick.mono_s - 1.0 if math.isnan(begin) else begin
        now_s = tick.mono_s - begin
        if left and now_s >= left[0]:
            left.pop(0)
            state = pipeline.initial_state()
        state = pipeline.step(state, tick, settings)
        yield now_s, state, node


def change_delay(seed: int) -> Delay:
    """Return how soon the change of a seed is seen."""
    change = class_change(seed)
    moments = list(watched(change.scenario, seed, change.seconds))
    said = [(now_s, verdict_of(state).job_class) for now_s, state, _ in moments]
    node = moments[-1][2]
    before = node.truth(change.at_s - BEFORE_S, change.at_s)[0]
    after = node.truth(change.seconds - AFTER_S, change.seconds)[0]
    turned_s = after.turned_s if after.turned_s < math.inf else change.at_s
    seen = [now_s for now_s, name in said if now_s >= turned_s and name is after.job_class]
    clear = before.job_class is not after.job_class and min(before.margin, after.margin) >= CLEAR
    delay = seen[0] - turned_s if seen else math.inf
    return Delay(seed, before.job_class.value, after.job_class.value, clear, delay)


def hang_delay(seed: int) -> Delay:
    """Return how soon the hang of a seed is called hung."""
    change = hang(seed)
    for now_s, state, _ in watched(change.scenario, seed, change.seconds):
        if verdict_of(state).job_class is JobClass.HUNG:
            return Delay(seed, "", "hung", True, now_s - change.at_s)
    return Delay(seed, "", "hung", True, math.inf)


def steady_changes(scenario: str, seconds: float, seed: int = 1) -> list[tuple[float, Verdict]]:
    """Return every change of class of a steady scenario after its first minute."""
    node, settings = SimulatedNode(scenario, seed), Settings()
    state, before, changes = pipeline.initial_state(), JobClass.UNKNOWN, []
    for number, tick in enumerate(simulated_time.ticks(node, node, settings.sampling, seconds)):
        state = pipeline.step(state, tick, settings)
        verdict = verdict_of(state)
        if number > SETTLING_S and verdict.job_class is not before:
            changes.append((float(number), verdict))
        before = verdict.job_class
    return changes


def healthy_life(seed: int) -> Life:
    """Return what customers could have heard of a healthy transition."""
    transition = healthy_transition(seed)
    said = []
    for now_s, state, _ in watched(transition.scenario, seed, transition.seconds, transition.restarts_s):
        jobs = state.view.jobs if state.view is not None else ()
        said.append((now_s, {job.job.gpu_job: job.verdict.job_class for job in jobs if math.isnan(job.ended_s)}))
    longest, named = longest_stand(said)
    return Life(seed, transition.kind, longest, named)


def longest_stand(said: Iterable[tuple[float, Mapping[str, JobClass]]]) -> tuple[float, str]:
    """Return for how many seconds a customer-facing class stood for one job at most, and which; 0 and "" where none.

    Args:
        said: at each second, what was said of each job.
    """
    since: dict[tuple[str, JobClass], float] = {}
    longest, named = 0.0, ""
    for now_s, classes in said:
        alarming = {one for one in classes.items() if one[1] in CUSTOMER_FACING}
        since = {one: since.get(one, now_s) for one in alarming}
        for (_, job_class), from_s in since.items():
            if now_s - from_s + 1.0 > longest:
                longest, named = now_s - from_s + 1.0, job_class.value
    return longest, named


def seen_in_time(delays: Iterable[Delay]) -> Share:
    """Return how many clear changes of class were seen within 20 s."""
    return Share.of(one.delay_s <= SEEN_WITHIN_S for one in delays if one.clear)


def hung_in_time(delays: Iterable[Delay]) -> Share:
    """Return how many hangs were called so after 5 to 10 minutes."""
    return Share.of(HUNG_WITHIN_S[0] <= one.delay_s <= HUNG_WITHIN_S[1] for one in delays)


def standing(lives: Iterable[Life]) -> list[Life]:
    """Return the healthy transitions in which a customer-facing class stood for a minute, or a hang was claimed."""
    return [life for life in lives if life.longest_s >= STANDS_S or life.job_class == JobClass.HUNG.value]


def each(work: Callable[[Item], Found], items: Iterable[Item], workers: int) -> list[Found]:
    """Return the results of many items, in their order."""
    if workers == 1:
        return [work(item) for item in items]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return list(pool.imap(work, items, chunksize=2))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--first", type=int, default=0, help="first seed; tuning uses 1,000,000 and later")
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--hangs", type=int, default=40)
    parser.add_argument("--transitions", type=int, default=200)
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    asked = parser.parse_args()

    def seeds(count: int) -> range:
        return range(asked.first, asked.first + count)

    delays = each(change_delay, seeds(asked.changes), asked.workers)
    for one in delays:
        if one.clear and one.delay_s > SEEN_WITHIN_S:
            print(f"change {one.seed}: {one.before} to {one.after} seen after {one.delay_s:.0f} s")
    print(f"seen within 20 s: {seen_in_time(delays)}")
    hangs = each(hang_delay, seeds(asked.hangs), asked.workers)
    print(f"hung after 5 to 10 min: {hung_in_time(hangs)}")
    lives = each(healthy_life, seeds(asked.transitions), asked.workers)
    for life in lives:
        if life.longest_s > 0:
            print(f"transition {life.seed}, {life.kind}: {life.job_class} for {life.longest_s:.0f} s")
    print(f"standing for a minute: {len(standing(lives))} of {len(lives)}")


if __name__ == "__main__":
    main()
