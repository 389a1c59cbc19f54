"""What the sampler costs the node's processors: CPU per second of its threads, for 1 to 16 cards.

    python -m benchmarks.sampler_cost [--seconds 10]

Real threads in real time over a driver that answers at once (byte counters) or sleeps for its window (window calls), so
what is measured is gpumon's own share: waking, scheduling, turning readings into slots, closing ticks. The time a real
driver spends in its calls comes on top and is counted apart (gpumon_driver_seconds_total). Each line is a process of
its own. Also prints the plain Python cost of one poll, measured in simulated time. Needs no GPU.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from gpumon.model.card import LinkSource
from gpumon.model.settings import SamplingSettings
from gpumon.sampling import Sampler
from gpumon.sampling.simulated_time import ticks
from tests.sampling.scripted import Script, ScriptedHost, ScriptedNode, card, steady

COUNTS = (1, 2, 4, 8, 16)
BLOCK_S = 0.0203  # what a window call sleeps
WARM_UP_TICKS = 3


def node_of(count: int, source: LinkSource) -> ScriptedNode:
    """Return busy cards on gen5 x16; window calls sleep in real time."""

    def block(name: str) -> None:
        if name == "window":
            time.sleep(BLOCK_S)

    hook = block if source is LinkSource.WINDOW else None
    scripts = [Script(rx=steady(30e9), tx=steady(20e9), hook=hook, window_block_s=0.0) for _ in range(count)]
    return ScriptedNode([card(index, source) for index in range(count)], scripts)


def measure(count: int, source: LinkSource, seconds: float) -> tuple[float, float]:
    """Return CPU seconds and traffic reads per second of a running sampler."""
    sampler = Sampler(node_of(count, source), ScriptedHost(), SamplingSettings(cpu_budget_ratio=0.5))
    sampler.start()
    for _ in range(WARM_UP_TICKS):
        first = sampler.next_tick()
    started_s, cpu_s = time.monotonic(), time.process_time()
    last = first
    while time.monotonic() - started_s < seconds:
        last = sampler.next_tick()
    passed_s, used_s = time.monotonic() - started_s, time.process_time() - cpu_s
    sampler.stop()
    assert first is not None
    assert last is not None
    reads = last.sampler.samples[source.value] - first.sampler.samples[source.value]
    return used_s / passed_s, reads / passed_s


def python_cost_s(source: LinkSource) -> float:
    """Return the CPU time of one traffic read without any waiting, the scripted reader's included."""
    node = node_of(1, source)
    node.scripts[node.cards[0].identity.uuid].hook = None
    started_s = time.process_time()
    *_, last = ticks(node, ScriptedHost(), SamplingSettings(), 300)
    return (time.process_time() - started_s) / last.sampler.samples[source.value]


def main() -> None:
    """Print the table, or one line of it for the process that measures it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--one", nargs=2, metavar=("SOURCE", "CARDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        cpu, reads = measure(int(options.one[1]), LinkSource(options.one[0]), options.seconds)
        print(f"{options.one[0]:8} {options.one[1]:>5} {reads:9.1f} {cpu:10.2%} {cpu / int(options.one[1]):10.3%}")
        return
    for source in (LinkSource.COUNTER, LinkSource.WINDOW):
        print(f"{source.value}: {python_cost_s(source) * 1e6:.1f} us of Python a read")
    print(f"{'source':8} {'cards':>5} {'reads/s':>9} {'core':>10} {'a card':>10}")
    for source in (LinkSource.COUNTER, LinkSource.WINDOW):
        for count in COUNTS:
            command = [sys.executable, "-m", "benchmarks.sampler_cost", "--seconds", str(options.seconds)]
            subprocess.run([*command, "--one", source.value, str(count)], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
