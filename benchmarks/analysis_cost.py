"""What the pipeline's step costs: CPU time a tick, the longest piece, memory of temporaries and of the state.

    python benchmarks/analysis_cost.py

8 cards with 8 jobs, 8 cards with one job, and 16 cards with 100 jobs that share them, at 50 Hz of power and byte
counters every 50 ms. The budget is at most 3 ms a tick on average (8 cards, 8 jobs), 20 ms (16 cards, 100 jobs), no
piece longer than 5 ms, temporaries under 2 MiB, constant memory.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import tracemalloc
from dataclasses import replace

import numpy as np

from gpumon import analysis
from gpumon.model.job import Job, JobCard, JobKind
from gpumon.model.samples import CardTick, Floats, Tick
from gpumon.model.settings import Settings
from tests.analysis.scripted import Phase, Script, card, card_tick, tick_of, trace

CYCLE_S = 40  # ticks that are made once and repeated with later times


def _shifted(seen: CardTick, by_s: float) -> CardTick:
    def later(times: Floats) -> Floats:
        return times + by_s

    pcie = seen.pcie
    return replace(
        seen,
        last_sample_s=seen.last_sample_s + by_s,
        pcie=replace(pcie, t0_s=later(pcie.t0_s), t1_s=later(pcie.t1_s)),
        power=replace(seen.power, t_s=later(seen.power.t_s)),
        utilization=replace(seen.utilization, t_s=later(seen.utilization.t_s)),
        memory_controller=replace(seen.memory_controller, t_s=later(seen.memory_controller.t_s)),
    )


def _ticks(cards: int, seconds: int) -> list[Tick]:
    phases = (Phase(0.3, 450.0), Phase(0.5, 170.0, 28e9, 28e9, memory=0.06))
    script = Script(phases)
    traced = trace(script, CYCLE_S)
    made = [[card_tick(index, traced, script, second) for index in range(cards)] for second in range(CYCLE_S)]
    probed = tuple(card(index) for index in range(cards))
    return [
        tick_of(
            second,
            probed,
            tuple(_shifted(one, second - second % CYCLE_S) for one in made[second % CYCLE_S]),
        )
        for second in range(seconds)
    ]


def _jobs(cards: int, jobs: int) -> tuple[Job, ...]:
    def job(number: int, members: tuple[int, ...]) -> Job:
        held = tuple(JobCard(f"GPU-{index}", shared=jobs > cards) for index in members)
        return Job(f"session:{number}", JobKind.SESSION, "unassigned", held, ((number, 1),))

    if jobs == 1:
        return (job(0, tuple(range(cards))),)
    return tuple(job(number, (number % cards,)) for number in range(jobs))


def measure(cards: int, jobs: int, seconds: int = 240, warm: int = 80) -> dict[str, float]:
    """Return mean, 99th percentile and maximum of CPU milliseconds a tick, and peak bytes of temporaries."""
    ticks, runs, settings = _ticks(cards, seconds), _jobs(cards, jobs), Settings()
    memory, spent = analysis.initial_memory(), []
    gc.collect()
    gc.disable()
    for tick in ticks:
        begin = time.thread_time()
        memory, _ = analysis.analyse(memory, tick, runs, settings)
        spent.append((time.thread_time() - begin) * 1e3)
    gc.enable()
    tracemalloc.start()
    peaks = []
    for tick in ticks[-12:]:
        later = replace(tick, mono_s=tick.mono_s + 1000.0)
        tracemalloc.reset_peak()
        base = tracemalloc.get_traced_memory()[0]
        analysis.analyse(memory, later, runs, settings)
        peaks.append(tracemalloc.get_traced_memory()[1] - base)
    tracemalloc.stop()
    steady = np.array(spent[warm:])
    return {
        "mean_ms": float(steady.mean()),
        "p99_ms": float(np.quantile(steady, 0.99)),
        "max_ms": float(steady.max()),
        "temporaries_mib": max(peaks) / 2**20,
    }


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=int, default=240)
    seconds = parser.parse_args().seconds
    print("cards jobs   mean ms   p99 ms   max ms   temporaries MiB")
    for cards, jobs in ((8, 8), (8, 1), (16, 100)):
        found = measure(cards, jobs, seconds)
        print(
            f"{cards:5d} {jobs:4d} {found['mean_ms']:9.2f} {found['p99_ms']:8.2f} {found['max_ms']:8.2f}"
            f" {found['temporaries_mib']:17.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
