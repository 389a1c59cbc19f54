"""Known bursts through the driver's own interface in real time: blocking calls, real threads, a loaded machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpumon.analysis.estimate import mean_rate
from gpumon.hardware.simulated.timeline_file import CHANNELS, CardTimeline, write_timeline
from gpumon.model.card import LinkSource
from gpumon.model.samples import Tick
from gpumon.model.settings import SamplingSettings
from gpumon.sampling import Sampler
from tests.nvml.conftest import Libraries, empty_node, libraries
from tests.sampling.scripted import LANE, Bursts, ScriptedHost
from tests.standin.library import loaded

__all__ = ["libraries"]
pytestmark = [pytest.mark.tools, pytest.mark.realtime]

START_S = 2.0
LINKS = ((3, 4), (3, 16), (4, 8), (4, 16), (5, 8), (5, 16))


def patterns(count: int, seconds: float) -> list[tuple[tuple[int, int], Bursts, Bursts]]:
    """Return a link and the traffic of both directions for each card: 20 ms to 2 s bursts at 10 to 90 % duty."""
    made = []
    draw = np.random.default_rng(11)
    for index in range(count):
        generation, width = LINKS[index % len(LINKS)]
        burst_s, duty = 0.02 * 100.0 ** draw.random(), draw.uniform(0.1, 0.9)
        rate = 0.9 * LANE[generation] * width
        rx, tx = (Bursts(rate, burst_s, duty, seconds, jitter=0.3, seed=2 * index + n) for n in range(2))
        made.append(((generation, width), rx, tx))
    return made


def timeline(rx: Bursts, tx: Bursts, link: tuple[int, int]) -> CardTimeline:
    """Return a busy card with that traffic."""
    edges = np.unique(np.concatenate([[0.0], rx.edges, tx.edges]))
    edges = edges[edges >= 0.0]
    rate = np.zeros((len(CHANNELS), len(edges)))
    for name, traffic in (("pcie_rx", rx), ("pcie_tx", tx)):
        totals = np.array([traffic.total(t_s) for t_s in edges])
        rate[CHANNELS.index(name), :-1] = np.diff(totals) / np.diff(edges)
    for name, value in {
        "power": 300.0,
        "kernel": 1.0,
        "sm_clock": 2e9,
        "memory_clock": 1e10,
        "memory_used": 1e10,
        "link_generation": link[0],
        "link_width": link[1],
    }.items():
        rate[CHANNELS.index(name)] = value
    cumulative = np.zeros_like(rate)
    cumulative[:, 1:] = np.cumsum(rate[:, :-1] * np.diff(edges), axis=1)
    return CardTimeline(edges, rate, cumulative)


def card_lines(index: int, link: tuple[int, int], counter_bits: int, seconds: float) -> Iterator[str]:
    """Return what the driver says about one card."""
    facts = {
        "name": "Example GPU",
        "uuid": f"GPU-{index:08x}-0000-4000-8000-000000000000",
        "bus_id": f"00000000:{index + 1:02X}:00.0",
        "minor": index,
        "memory_total_bytes": 24 * 2**30,
        "power_limit_watts": 450.0,
        "power_default_limit_watts": 450.0,
        "link_generation_max": link[0],
        "link_width_max": link[1],
        "card_generation_max": link[0],
        "card_width_max": link[1],
        "counter_bits": counter_bits,
        "window": 1,
        "window_s": 0.02,
        "power_instant": 1,
    }
    yield from (f"card {index} {key} {value}" for key, value in facts.items())
    yield f"process {index} {1000 + index} compute 10000000000 0.0 {seconds!r} 1.0"


class Watched:
    """What a sampler over the stand-in driver saw, and what was sent."""

    def __init__(self, folder: Path, library: Path, cards: int, counter_bits: int, seconds: int) -> None:
        span_s = START_S + seconds + 8.0
        self.sent = patterns(cards, span_s)
        lines = ["node driver_version 580.65.06", "node queue_windows 0", "node boot_wall_s 1760000000"]
        for index, (link, _, _) in enumerate(self.sent):
            lines += card_lines(index, link, counter_bits, span_s)
        path = folder / "bursts.timeline"
        write_timeline(path, span_s, lines, [timeline(rx, tx, link) for link, rx, tx in self.sent])
        with loaded(library) as standin:
            self.epoch_s = time.monotonic() - START_S
            standin.apply(f"timeline {path}", f"epoch {self.epoch_s:.9f}")
            sampler = Sampler(
                empty_node(folder), ScriptedHost(), SamplingSettings(driver_budget_ratio=0.5, cpu_budget_ratio=0.5)
            )
            sampler.start()
            seen = [sampler.next_tick() for _ in range(seconds + 3)][3:]
            sampler.stop()
            assert not standin.violations()
        self.ticks: list[Tick] = [tick for tick in seen if tick is not None]

    def compare(self, index: int, direction: str) -> tuple[float, float, float, float]:
        """Return the observed share, and the estimate, its half-width and the ratio's value against the truth."""
        slots = [tick.card_ticks[index].pcie for tick in self.ticks]
        t0_s, t1_s = (np.concatenate([getattr(s, name) for s in slots]) - self.epoch_s for name in ("t0_s", "t1_s"))
        moved = np.concatenate([getattr(s, f"{direction}_bytes") for s in slots])
        span = (self.ticks[0].mono_s - 1.0 - self.epoch_s, self.ticks[-1].mono_s - self.epoch_s)
        traffic = self.sent[index][1 if direction == "rx" else 2]
        truth = (traffic.total(span[1]) - traffic.total(span[0])) / (span[1] - span[0])
        mean, half_width = mean_rate(t0_s, t1_s, moved, span)
        looked = np.isfinite(moved)
        observed_s = float((t1_s - t0_s)[looked].sum())
        ratio = float(moved[looked].sum()) / observed_s
        return observed_s / (span[1] - span[0]), mean / truth, half_width / truth, ratio / truth


def test_windows_through_blocking_calls(libraries: Libraries, tmp_path: Path) -> None:
    """Of 32 intervals of 120 s through window calls that block, at least 28 hold the truth; 0.20 is observed."""
    watched = Watched(tmp_path, libraries(550), cards=16, counter_bits=0, seconds=120)
    compared = [watched.compare(index, direction) for index in range(16) for direction in ("rx", "tx")]
    assert {card_tick.pcie.source for card_tick in watched.ticks[-1].card_ticks} == {LinkSource.WINDOW}
    assert min(observed for observed, _, _, _ in compared) >= 0.20
    assert sum(abs(mean - 1.0) <= half_width for _, mean, half_width, _ in compared) >= 28
    assert np.median([half_width for _, _, half_width, _ in compared]) <= 0.06


def test_byte_counters_through_the_driver_interface(libraries: Libraries, tmp_path: Path) -> None:
    """Over 60 s of byte counters at least 0.95 is observed on links from gen3 x4 to gen5 x16, the mean within 1 %."""
    watched = Watched(tmp_path, libraries(580), cards=6, counter_bits=32, seconds=60)
    compared = [watched.compare(index, direction) for index in range(6) for direction in ("rx", "tx")]
    assert {card_tick.pcie.source for card_tick in watched.ticks[-1].card_ticks} == {LinkSource.COUNTER}
    assert min(observed for observed, _, _, _ in compared) >= 0.95
    assert max(abs(ratio - 1.0) for _, _, _, ratio in compared) <= 0.01
