"""The sampler over the driver interface in real time: eight cards, one that hangs, and letting go of the driver."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpumon.hardware.simulated.export import export_timeline
from gpumon.hardware.simulated.timeline_file import CHANNELS, TimelineFile, read_timeline
from gpumon.model.samples import CardTick, Tick
from gpumon.model.settings import SamplingSettings
from gpumon.sampling.sampler import Sampler
from tests.nvml.conftest import Libraries, empty_node
from tests.sampling.scripted import ScriptedHost
from tests.standin.library import Standin, loaded

pytestmark = [pytest.mark.tools, pytest.mark.realtime]

_START_S = 8.0


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the library's device files are while it is initialised."""
    folder = tmp_path / "dev"
    folder.mkdir()
    monkeypatch.setenv("STANDIN_DEVICES", str(folder))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Eight cards whose data-parallel job is bound by communication."""
    path = tmp_path / "run.timeline"
    export_timeline("rtx5090-x8-ddp-bound", 1, 40.0, path)
    return path


@pytest.fixture
def standin(libraries: Libraries, run: Path, devices: Path) -> Iterator[Standin]:
    """A driver that lives through the run."""
    with loaded(libraries(580)) as library:
        library.apply(f"timeline {run}", f"epoch {time.monotonic() - _START_S:.9f}")
        yield library
        assert not library.violations()


@pytest.fixture
def sampler(standin: Standin, tmp_path: Path) -> Iterator[Sampler]:
    """A running sampler over that driver."""
    sampling = Sampler(empty_node(tmp_path), ScriptedHost(), SamplingSettings())
    sampling.start()
    yield sampling
    sampling.stop()


def _next(sampler: Sampler) -> Tick:
    tick = sampler.next_tick()
    assert tick is not None
    return tick


def _all_up(sampler: Sampler) -> Tick:
    for _ in range(5):
        tick = _next(sampler)
        if len(tick.card_ticks) == 8 and all(card.up for card in tick.card_ticks):
            return tick
    raise AssertionError("the eight cards did not come up")


def _bytes(truth: TimelineFile, card: int, epoch_s: float, slots: CardTick) -> float:
    """Return what crossed into a card during its slots, as it happened."""
    timeline, row = truth.cards[card], CHANNELS.index("pcie_rx")

    def integral(at_s: np.ndarray) -> np.ndarray:
        x = at_s - epoch_s
        place = np.searchsorted(timeline.t_s, x, side="right") - 1
        return timeline.cumulative[row, place] + timeline.rate[row, place] * (x - timeline.t_s[place])

    return float(np.sum(integral(slots.pcie.t1_s) - integral(slots.pcie.t0_s)))


def test_traffic_of_eight_cards(standin: Standin, sampler: Sampler, run: Path) -> None:
    """Nearly all of the time is observed, and the bytes are those that crossed, within 1 % on every card."""
    truth, epoch_s = read_timeline(run), standin.report()["epoch"]
    _all_up(sampler)
    _next(sampler)
    ticks = [_next(sampler) for _ in range(5)]
    for card in range(8):
        slots = [tick.card_ticks[card] for tick in ticks]
        seen = sum(float(np.sum(each.pcie.rx_bytes)) for each in slots)
        assert seen == pytest.approx(sum(_bytes(truth, card, epoch_s, each) for each in slots), rel=0.01)
        observed = sum(float(np.sum(each.pcie.t1_s - each.pcie.t0_s)) for each in slots)
        assert observed / len(ticks) >= 0.95
        assert all(each.power.value.size >= 40 for each in slots)


def test_a_hung_card_costs_the_others_no_tick(standin: Standin, sampler: Sampler) -> None:
    """While one card's calls do not return, the other seven are up in every tick; then it is up again."""
    _all_up(sampler)
    standin.apply("set 3 everything hang =")
    ticks = [_next(sampler) for _ in range(6)]
    for tick in ticks:
        assert all(card.up for number, card in enumerate(tick.card_ticks) if number != 3)
    assert not ticks[-1].card_ticks[3].up
    standin.apply("release")
    for _ in range(5):
        tick = _next(sampler)
    assert all(card.up for card in tick.card_ticks)


def test_letting_go_of_the_driver(standin: Standin, sampler: Sampler, devices: Path) -> None:
    """Within two seconds no device file is open, and after the time asked for the cards are read again."""
    _all_up(sampler)
    assert _open_files(devices) == 9
    asked_s = time.monotonic()
    assert sampler.release(1.0)
    assert time.monotonic() - asked_s < 2.0
    assert _open_files(devices) == 0
    assert not _next(sampler).nvml_up
    _all_up(sampler)
    assert standin.count("init") == 2
    sampler.stop()
    assert standin.count("shutdown") == 2
    assert _open_files(devices) == 0


def _open_files(folder: Path) -> int:
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            count += entry.readlink().parent == folder
        except OSError:  # the descriptor of this very listing
            continue
    return count
