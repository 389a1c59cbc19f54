"""A simulated run seen through the driver interface in real time: the figures are those of what happened."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.nvidia.card import NvmlCardReader
from gpumon.hardware.reader import CounterSample, GpmSample, Rings, WindowSample
from gpumon.hardware.simulated.export import export_timeline
from gpumon.hardware.simulated.timeline_file import CHANNELS, TimelineFile, read_timeline
from gpumon.model.card import LinkSource
from gpumon.model.fault import Fault
from tests.nvml.conftest import Libraries, empty_node
from tests.nvml.reading import opened, quick, readers
from tests.standin.library import Standin, loaded

pytestmark = [pytest.mark.tools, pytest.mark.realtime]

_START_S = 8.0  # second of the run at which reading begins: jobs are on their way
_SECONDS = 4.0
_WRAP = 1 << 32


class _Run:
    """A scenario's timeline and where it lies on the machine's clock."""

    def __init__(self, scenario: str, folder: Path) -> None:
        self.path = folder / "run.timeline"
        export_timeline(scenario, 1, _START_S + _SECONDS + 6.0, self.path)
        self.file: TimelineFile = read_timeline(self.path)
        self.epoch_s = 0.0

    def begin(self, standin: Standin) -> None:
        """Let the run's start second be now."""
        self.epoch_s = time.monotonic() - _START_S
        standin.apply(f"timeline {self.path}", f"epoch {self.epoch_s:.9f}")

    def mean(self, card: int, channel: str, t0_s: float, t1_s: float) -> float:
        """Return what happened: the mean of a channel between two monotonic times."""
        timeline = self.file.cards[card]
        row = CHANNELS.index(channel)

        def integral(at_s: float) -> float:
            x = at_s - self.epoch_s
            place = int(np.searchsorted(timeline.t_s, x, side="right")) - 1
            return float(timeline.cumulative[row, place] + timeline.rate[row, place] * (x - timeline.t_s[place]))

        return (integral(t1_s) - integral(t0_s)) / (t1_s - t0_s)

    def number(self, card: int, key: str) -> float:
        """Return a number of the text section."""
        start = f"card {card} {key} "
        return float(next(line[len(start) :] for line in self.file.lines if line.startswith(start)))


def _in_threads(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _poll(read: Callable[[], object], period_s: float, seen: list[object]) -> Callable[[], None]:
    def loop() -> None:
        end_s = time.monotonic() + _SECONDS
        while time.monotonic() < end_s:
            seen.append(read())
            time.sleep(period_s)

    return loop


def _moved(samples: list[CounterSample], field: str) -> float:
    counts = [getattr(sample, field) for sample in samples]
    return float(sum((after - before) % _WRAP for before, after in pairwise(counts)))


def test_byte_counters_give_the_bytes_that_crossed(libraries: Libraries, tmp_path: Path) -> None:
    """Polled faster than they wrap, 32-bit counters give each direction's bytes within 1 %, on all cards at once."""
    run = _Run("rtx5090-x8-ddp-bound", tmp_path)
    with loaded(libraries(580)) as standin:
        run.begin(standin)
        node = empty_node(tmp_path)
        every = readers(node)[:4]
        for reader in every:
            assert reader.card.capabilities.pcie_source is LinkSource.COUNTER
        seen: list[list[object]] = [[] for _ in every]
        _in_threads([_poll(reader.counters, 0.04, log) for reader, log in zip(every, seen, strict=True)])
        rings = [reader.rings() for reader in every]
        node.close()
    for card, log in enumerate(seen):
        samples = [sample for sample in log if isinstance(sample, CounterSample)]
        assert len(samples) == len(log)
        t0_s, t1_s = samples[0].mono_s, samples[-1].mono_s
        for direction in ("rx", "tx"):
            truth = run.mean(card, f"pcie_{direction}", t0_s, t1_s)
            assert _moved(samples, direction) / (t1_s - t0_s) == pytest.approx(truth, rel=0.01)
        instant = float(np.mean([sample.power_watts for sample in samples]))
        gain = run.number(card, "power_gain")
        assert instant == pytest.approx(gain * run.mean(card, "power", t0_s, t1_s), rel=0.05)
        _compare_rings(run, card, rings[card])


def _compare_rings(run: _Run, card: int, rings: Rings | Fault) -> None:
    """The rings hold the means of what happened, sample after sample."""
    assert not isinstance(rings, Fault)
    power, utilization = rings.power, rings.utilization
    lag_s = run.number(card, "power_lag_s")
    truth = run.number(card, "power_gain") * run.mean(card, "power", power.t_s[0] - lag_s, power.t_s[-1] - lag_s)
    assert float(np.mean(power.value)) == pytest.approx(truth, rel=0.02)
    assert np.diff(power.t_s) == pytest.approx(0.02, abs=1e-3)
    truth = run.mean(card, "kernel", utilization.t_s[0] - 0.139, utilization.t_s[-1])
    assert float(np.mean(utilization.value)) == pytest.approx(truth, abs=0.02)


@pytest.mark.parametrize("queued", [False, True])
def test_windows_see_20_ms_each(libraries: Libraries, tmp_path: Path, queued: bool) -> None:
    """Each window is the rate of its own 20 ms; where calls queue in the driver, two cards share the time."""
    run = _Run("rtx4090-x2-ddp-bound", tmp_path)
    with loaded(libraries(550)) as standin:
        run.begin(standin)
        standin.apply(f"node queue_windows {int(queued)}")
        node = empty_node(tmp_path)
        both = readers(node)
        seen: list[list[object]] = [[], []]
        _in_threads([_poll(_windows(reader), 0.0, log) for reader, log in zip(both, seen, strict=True)])
        spent = node.driver_seconds()
        node.close()
    counts = [len(log) for log in seen]
    assert sum(counts) == pytest.approx((1 if queued else 2) * _SECONDS / 0.0212, rel=0.15)
    for card, log in enumerate(seen):
        windows = [(direction, window) for direction, window in log if isinstance(window, WindowSample)]  # type: ignore[misc]
        assert len(windows) == len(log)
        error = [
            window.bytes_per_second - run.mean(card, f"pcie_{direction}", window.t0_s, window.t1_s)
            for direction, window in windows
        ]
        mean = run.mean(card, "pcie_rx", run.epoch_s + _START_S, run.epoch_s + _START_S + _SECONDS)
        assert abs(float(np.mean(error))) < 0.02 * mean
    assert spent < 0.1 * _SECONDS


def _windows(reader: NvmlCardReader) -> Callable[[], tuple[str, WindowSample | Fault]]:
    turn = 0

    def watch() -> tuple[str, WindowSample | Fault]:
        nonlocal turn
        turn += 1
        direction = "rx" if turn % 2 else "tx"
        return direction, reader.window(direction)

    return watch


def test_gpm_and_nvlink_of_an_h100(libraries: Libraries, tmp_path: Path) -> None:
    """GPM's means and the cumulative NVLink fields agree with what happened within 2 %."""
    run = _Run("h100-sxm-x8-ddp", tmp_path)
    with loaded(libraries(580)) as standin:
        run.begin(standin)
        node = empty_node(tmp_path)
        reader = readers(node)[0]
        assert reader.card.capabilities.pcie_source is LinkSource.GPM
        assert reader.card.capabilities.nvlink_source is LinkSource.FIELD
        means: list[object] = []
        counts: list[object] = []
        _in_threads([_poll(lambda: (reader.gpm(), reader.counters()), 0.11, means)])
        node.close()
    counts = [counter for _, counter in means]  # type: ignore[misc]
    pairs = [sample for sample, _ in means if isinstance(sample, GpmSample)]  # type: ignore[misc]
    for key, channel in (("sm_active_ratio", "sm_active"), ("tensor_active_ratio", "tensor_active")):
        measured = sum(pair.readings[key] * (pair.t1_s - pair.t0_s) for pair in pairs)
        truth = sum(run.mean(0, channel, pair.t0_s, pair.t1_s) * (pair.t1_s - pair.t0_s) for pair in pairs)
        assert measured == pytest.approx(truth, rel=0.02, abs=0.002)
    moved = sum(pair.pcie_rx_bytes for pair in pairs)
    truth = sum(run.mean(0, "pcie_rx", pair.t0_s, pair.t1_s) * (pair.t1_s - pair.t0_s) for pair in pairs)
    assert moved == pytest.approx(truth, rel=0.02)
    first, last = counts[0], counts[-1]
    assert isinstance(first, CounterSample)
    assert isinstance(last, CounterSample)
    carried = (last.nvlink_rx_bytes - first.nvlink_rx_bytes) / (last.mono_s - first.mono_s)
    assert carried == pytest.approx(run.mean(0, "nvlink_rx", first.mono_s, last.mono_s), rel=0.02)


def test_the_simulated_driver_is_probed_as_simulated(libraries: Libraries, tmp_path: Path) -> None:
    """What probing finds on a simulated mixed node is what its cards have; readings are those of the moment."""
    run = _Run("mixed-node", tmp_path)
    with loaded(libraries(580)) as standin:
        run.begin(standin)
        node = empty_node(tmp_path)
        cards = opened(node)
        for index, card in enumerate(cards):
            reader = node.card_reader(card, _Machine())
            sample = quick(reader)
            now_s = time.monotonic()
            assert f"card {index} name {card.identity.name}" in run.file.lines
            assert f"card {index} uuid {card.identity.uuid}" in run.file.lines
            assert ("gpm" in card.capabilities.features) == bool(run.number(index, "gpm"))
            assert card.capabilities.counter_bits == run.number(index, "counter_bits")
            energy = run.mean(index, "power", run.epoch_s, now_s) * (now_s - run.epoch_s)
            assert sample.readings["energy_joules"] == pytest.approx(run.number(index, "power_gain") * energy, rel=0.02)
            assert math.isfinite(sample.readings["temperature_gpu_celsius"])
        topology = node.topology(cards)
        node.close()
    assert len(topology.p2p) == len(cards) * (len(cards) - 1) // 2
    assert {pair.path for pair in topology.p2p} <= {"PIX", "PXB", "PHB", "NODE", "SYS", "internal"}


class _Machine:
    def mono_s(self) -> float:
        return time.monotonic()

    def wall_s(self) -> float:
        return time.time()

    def wait_until(self, mono_s: float) -> bool:
        time.sleep(max(0.0, mono_s - time.monotonic()))
        return True


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("lost", Fault.LOST),
        ("reset_required", Fault.RESET_REQUIRED),
        ("driver_not_loaded", Fault.DRIVER_NOT_LOADED),
        ("unknown", Fault.UNKNOWN),
    ],
)
def test_faults_of_the_run(standin: Standin, node: NvmlNode, kind: str, fault: Fault) -> None:
    """A planned fault is the reason that the card's readings are missing."""
    standin.apply("card 0 minor 0", "rate 0 power 100")
    (reader,) = readers(node)
    quick(reader)
    standin.apply(f"fault 0 {kind} now 1e9")
    assert reader.quick() is fault
    assert reader.counters() is fault
    if kind != "unknown":
        assert reader.rings() is fault


def test_a_run_of_garbage(standin: Standin, node: NvmlNode) -> None:
    """Impossible values of a sick driver are thrown away, reading by reading."""
    standin.apply("card 0 minor 0", "rate 0 power 100", "process 0 9 compute 1000 0 1e9 1.0")
    (reader,) = readers(node)
    quick(reader)
    standin.apply("fault 0 garbage now 1e9")
    sample = quick(reader)
    assert sample.faults["utilization_ratio"] is Fault.REJECTED
    assert sample.faults["energy_joules"] is Fault.REJECTED
    assert reader.window("rx") is Fault.REJECTED
    assert reader.processes() is Fault.REJECTED
