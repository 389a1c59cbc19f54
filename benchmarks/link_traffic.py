"""How true the traffic figures are: known bursts through the sampler's own pollers, in simulated time.

    python -m benchmarks.link_traffic [--runs 500]

Bursts of 20 ms to 2 s at 10 to 90 % duty cross links from gen3 x4 to gen5 x16, each direction its own. The pollers of
the daemon watch them by byte counters (60 s), by byte counters with a poller that is held up for 100 ms once a second
at a random moment, by windows that overlap (120 s) and by windows that queue (120 s, eight cards). Two figures are
compared with what was sent: observed bytes / observed seconds, which Prometheus divides, and the estimate with its
95 % interval, which the analysis uses. Needs no GPU.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gpumon.analysis.estimate import mean_rate
from gpumon.model.card import LinkSource
from gpumon.model.samples import Tick
from gpumon.model.settings import SamplingSettings
from gpumon.sampling.simulated_time import ticks
from tests.sampling.scripted import LANE, Bursts, Script, ScriptedHost, ScriptedNode, card

LINKS = ((3, 4), (3, 16), (4, 8), (4, 16), (5, 8), (5, 16))
HOLD_UP_S = 0.1
FULL = 0.9  # a burst fills this share of the line rate


@dataclass(frozen=True, slots=True)
class Outcome:
    """One direction of one run, relative to what was sent."""

    link: tuple[int, int]
    burst_s: float
    duty: float
    observed: float  # share of the time that was seen
    ratio_error: float  # observed bytes / observed seconds
    error: float  # the estimate
    half_width: float

    @property
    def covered(self) -> bool:
        """True when the stated interval holds the truth."""
        return abs(self.error) <= self.half_width + 1e-9


def held_up(seed: int) -> Callable[[float], float]:
    """Return a poller's bad luck: 100 ms once a second, at a random moment of it."""
    draw = random.Random(seed)
    state = [draw.random()]

    def stall_s(now_s: float) -> float:
        if now_s < state[0]:
            return 0.0
        state[0] = int(now_s) + 1 + draw.random()
        return HOLD_UP_S

    return stall_s


def run(source: LinkSource, seed: int, seconds: float, *, late: bool = False, cards: int = 1) -> Iterator[Outcome]:
    """Watch one pattern and compare both directions of the first card with what was sent."""
    draw = random.Random(seed)
    link = draw.choice(LINKS)
    burst_s = 0.02 * 100.0 ** draw.random()  # 20 ms to 2 s, as many short as long
    duty = draw.uniform(0.1, 0.9)
    rate = FULL * LANE[link[0]] * link[1]
    sent = [Bursts(rate, burst_s, duty, seconds + 2.0, jitter=0.3, seed=2 * seed + n) for n in range(2)]
    stall_s = held_up(seed) if late else None
    watched = [card(index, source) for index in range(cards)]
    scripts = [Script(rx=sent[0].total, tx=sent[1].total, stall_s=stall_s) for _ in watched]
    node = ScriptedNode(watched, scripts, generation=link[0], width=link[1])
    settings = SamplingSettings()
    seen = list(ticks(node, ScriptedHost(), settings, seconds, windows_overlap=cards == 1))
    for traffic, field in zip(sent, ("rx_bytes", "tx_bytes"), strict=True):
        truth = traffic.total(seconds) / seconds
        if truth <= 0.0:
            continue
        t0_s, t1_s, moved = columns(seen, field)
        mean, half_width = mean_rate(t0_s, t1_s, moved, (0.0, seconds))
        looked = np.isfinite(moved)
        observed_s = float((t1_s - t0_s)[looked].sum())
        yield Outcome(
            link=link,
            burst_s=burst_s,
            duty=duty,
            observed=observed_s / seconds,
            ratio_error=float(moved[looked].sum()) / observed_s / truth - 1.0,
            error=mean / truth - 1.0,
            half_width=half_width / truth,
        )


def columns(seen: list[Tick], field: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return begin, end and bytes of the first card's slots over all ticks."""
    slots = [tick.card_ticks[0].pcie for tick in seen]
    t0_s, t1_s, moved = (np.concatenate([getattr(s, name) for s in slots]) for name in ("t0_s", "t1_s", field))
    return t0_s, t1_s, moved


def show(title: str, outcomes: list[Outcome]) -> None:
    """Print one line of the table."""
    ratio = [abs(o.ratio_error) for o in outcomes]
    print(
        f"{title:38} {len(outcomes):5d}"
        f" {min(o.observed for o in outcomes):9.3f}"
        f" {statistics.fmean(o.ratio_error for o in outcomes):+9.2%}"
        f" {statistics.fmean(e <= 0.01 for e in ratio):9.1%}"
        f" {statistics.fmean(o.error for o in outcomes):+9.2%}"
        f" {statistics.fmean(abs(o.error) <= 0.01 for o in outcomes):9.1%}"
        f" {statistics.fmean(o.covered for o in outcomes):9.1%}"
        f" {statistics.median(o.half_width for o in outcomes):9.2%}"
    )


def main() -> None:
    """Run the four ways of watching and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    runs = parser.parse_args().runs
    print(
        f"{'':38} {'n':>5} {'observed':>9} {'ratio:':>9} {'within':>9} {'estimate:':>9} {'within':>9}"
        f" {'interval':>9} {'median':>9}\n"
        f"{'':38} {'':>5} {'least':>9} {'bias':>9} {'1 %':>9} {'bias':>9} {'1 %':>9} {'covers':>9} {'half':>9}"
    )
    few = max(runs // 4, 1)
    plans = (
        ("byte counters, 60 s", few, {"source": LinkSource.COUNTER, "seconds": 60.0}),
        ("byte counters held up, 60 s", few, {"source": LinkSource.COUNTER, "seconds": 60.0, "late": True}),
        ("windows, 120 s", runs, {"source": LinkSource.WINDOW, "seconds": 120.0}),
        ("windows of 8 cards queue, 120 s", few // 4, {"source": LinkSource.WINDOW, "seconds": 120.0, "cards": 8}),
    )
    for title, count, arguments in plans:
        outcomes = [o for seed in range(count) for o in run(seed=seed, **arguments)]  # type: ignore[arg-type]
        show(title, outcomes)
        if arguments.get("late"):
            fits = [o for o in outcomes if o.observed > 0.95]
            show("  of these: links that leave room for it", fits)
            show("  of these: gen5 x16, unobserved", [o for o in outcomes if o.observed <= 0.95])


if __name__ == "__main__":
    main()
