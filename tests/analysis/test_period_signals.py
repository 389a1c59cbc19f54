"""What the cards show together: real times, sensors that measure seldom, looks side by side."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.analysis import period_signals
from gpumon.analysis.common_signal import common, halved, measured_every_s, newest, pooled
from gpumon.analysis.windows import CardWindows, Window
from gpumon.model.card import LinkSource, PowerKind
from gpumon.model.samples import Floats


def test_a_point_keeps_the_mean_of_its_real_times() -> None:
    """Two cards sampled 10 ms apart: each point lies between them, and the sum has spread 1."""
    stamps = np.arange(0.0, 10.0, 0.1)
    wave = np.sin(stamps)
    seen = common([(stamps, 300.0 * wave), (stamps + 0.01, wave)])
    assert seen is not None
    assert seen.pace_s == pytest.approx(0.1)
    assert float(np.median(np.diff(seen.t_s))) == pytest.approx(0.1)
    assert float(seen.value.std()) == pytest.approx(1.0)
    assert float(np.corrcoef(seen.value, wave[: seen.value.size])[0, 1]) > 0.99


def test_cards_without_samples_or_movement_show_nothing() -> None:
    """Too few samples and a flat line are no signal, alone or side by side."""
    stamps = np.arange(0.0, 10.0, 0.1)
    for cards in ([], [(stamps[:20], stamps[:20])], [(stamps, np.ones(stamps.size))]):
        assert common(cards) is None
        assert pooled(cards, 0.02) is None


def test_a_sensor_that_measures_seldom_is_found_out() -> None:
    """Read every 20 ms and measured every 100 ms, power says so; read as often as measured, it does not."""
    stamps = np.arange(0.0, 20.0, 0.02)
    fresh = np.random.default_rng(1).normal(300.0, 50.0, stamps.size)
    assert measured_every_s([(stamps, fresh)]) == pytest.approx(0.02, rel=0.01)
    assert measured_every_s([(stamps, np.repeat(fresh[::5], 5))]) == pytest.approx(0.1, rel=0.02)


def test_looks_lie_side_by_side() -> None:
    """Looks of two cards are pooled in the order of time, each in units of its own card."""
    first, second = np.arange(0.0, 40.0, 1.0), np.arange(0.3, 40.0, 1.0)
    seen = pooled([(first, first % 2 * 1e9), (second, second // 1 % 2)], 0.02)
    assert seen is not None
    assert seen.even is False
    assert (np.diff(seen.t_s) > 0.0).all()
    assert np.abs(seen.value).max() == pytest.approx(1.0)


def test_halves_and_ends() -> None:
    """Halving joins neighbours; the newest part keeps its real times."""
    seen = common([(np.arange(0.0, 10.0, 0.02), np.arange(500) % 2 * 1.0)])
    assert seen is not None
    assert halved(seen).value == pytest.approx(0.0, abs=0.01)
    assert newest(seen, 3.0).seconds == pytest.approx(3.0, abs=0.05)


def _window(rows: list[Floats]) -> Window:
    return Window(len(rows), (np.stack(rows),))


def _card(source: LinkSource, kind: PowerKind) -> CardWindows:
    rng = np.random.default_rng(4)
    ends = np.arange(0.05, 60.0, 0.05)
    odd = np.arange(ends.size) % 2 == 1
    rx = rng.uniform(0.0, 1e9, ends.size)
    tx = rng.uniform(0.0, 1e9, ends.size)
    if source is LinkSource.WINDOW:
        rx, tx = np.where(odd, np.nan, rx), np.where(odd, tx, np.nan)
    blank = np.full(ends.size, np.nan)
    stamps = np.arange(0.0, 60.0, 0.02)
    return CardWindows(
        pcie=_window([ends, ends - 0.02, rx, tx, blank, blank]),
        power=_window([stamps, rng.normal(300.0, 40.0, stamps.size)]),
        pcie_source=source,
        power_kind=kind,
    )


def test_what_is_not_there_is_no_witness() -> None:
    """A card with power and byte counters gives those two; power is fast, the link is on a grid."""
    found = period_signals.signals([_card(LinkSource.COUNTER, PowerKind.RING)], 0.0, 60.0)
    assert found.keys() == {"power", "link"}
    assert found["link"].even
    assert period_signals.fast_power(found)


def test_only_the_stretch_is_looked_at() -> None:
    """Samples outside the stretch play no part."""
    found = period_signals.signals([_card(LinkSource.COUNTER, PowerKind.RING)], 10.0, 25.0)
    assert found["power"].seconds == pytest.approx(15.0, abs=0.1)
    assert found["link"].seconds == pytest.approx(15.0, abs=0.2)


def test_windows_of_all_cards_are_pooled() -> None:
    """Eight cards' windows become one signal of at most a few thousand looks; averaged power is slow."""
    cards = [_card(LinkSource.WINDOW, PowerKind.AVERAGE) for _ in range(8)]
    found = period_signals.signals(cards, 0.0, 60.0)
    assert not found["link"].even
    assert found["link"].value.size <= period_signals.MOST_POOLED
    assert found["power"].refresh_s == period_signals.MEAN_POWER_S
    assert not period_signals.fast_power(found)
    assert not period_signals.fast_power({})
