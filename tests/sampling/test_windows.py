"""Windows: where they lie, what they cost the node, and what they leave unseen."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.model.card import LinkSource
from gpumon.model.settings import SamplingSettings
from gpumon.sampling.simulated_time import ticks
from gpumon.sampling.strata import WindowPlan
from tests.sampling.scripted import Script, ScriptedHost, ScriptedNode, card, steady

CYCLE_S = 0.095


def starts(seed: str, direction: str, count: int = 20_000) -> np.ndarray:
    """Return the planned starts of one direction."""
    plan = WindowPlan(seed, 0.0)
    return np.array([at for at, which in (plan.next(CYCLE_S) for _ in range(count)) if which == direction])


@pytest.mark.parametrize("period_s", [0.0475, 0.095, 0.19, 0.1, 0.25, 0.467])
def test_every_moment_of_a_repeating_step_is_seen_alike(period_s: float) -> None:
    """Whatever the step length, also those in step with the plan, window starts spread evenly over the step."""
    shares, _ = np.histogram(starts("GPU-a", "rx") % period_s, bins=10, range=(0.0, period_s))
    assert shares / shares.mean() == pytest.approx(np.ones(10), abs=0.12)


def test_each_direction_comes_once_in_every_cycle() -> None:
    """Neither direction is left out of a stratum for longer than two cycles."""
    for direction in ("rx", "tx"):
        gaps = np.diff(starts("GPU-a", direction))
        assert gaps.mean() == pytest.approx(CYCLE_S, rel=0.01)
        assert gaps.max() < 2.2 * CYCLE_S


def test_cards_look_at_different_moments_and_runs_repeat() -> None:
    """The plan depends on the card alone: two cards differ, the same card is the same every time."""
    assert np.array_equal(starts("GPU-a", "rx", 100), starts("GPU-a", "rx", 100))
    assert not np.array_equal(starts("GPU-a", "rx", 100), starts("GPU-b", "rx", 100))


def test_a_window_shows_one_direction_for_its_twenty_milliseconds() -> None:
    """A slot is 20 ms however long the call blocked, and the other direction is NaN there."""
    node = ScriptedNode([card(0, LinkSource.WINDOW)], [Script(rx=steady(1e9), tx=steady(2e9), window_block_s=0.035)])
    seen = list(ticks(node, ScriptedHost(), SamplingSettings(), 20))
    slots = [tick.card_ticks[0].pcie for tick in seen]
    lengths = np.concatenate([s.t1_s - s.t0_s for s in slots])
    rx, tx = (np.concatenate([getattr(s, name) for s in slots]) for name in ("rx_bytes", "tx_bytes"))
    assert lengths == pytest.approx(np.full(len(lengths), 0.02))
    assert np.all(np.isnan(rx) ^ np.isnan(tx))
    assert rx[np.isfinite(rx)] == pytest.approx(0.02e9, rel=1e-6)
    assert tx[np.isfinite(tx)] == pytest.approx(0.04e9, rel=1e-6)


def test_overlapping_windows_see_a_fifth_of_each_direction() -> None:
    """Where calls of several cards run side by side, each direction of each of eight cards is seen 0.20 of the time."""
    cards = [card(index, LinkSource.WINDOW) for index in range(8)]
    node = ScriptedNode(cards, [Script(rx=steady(1e9), tx=steady(1e9)) for _ in cards])
    seen = list(ticks(node, ScriptedHost(), SamplingSettings(), 30))
    for index in range(8):
        for name in ("rx_bytes", "tx_bytes"):
            count = sum(int(np.isfinite(getattr(tick.card_ticks[index].pcie, name)).sum()) for tick in seen)
            assert 0.20 <= count * 0.02 / 30 <= 0.23


def test_queueing_windows_take_a_quarter_second_a_second_of_the_node() -> None:
    """Where calls queue, eight cards together make at most 12.5 window calls a second."""
    cards = [card(index, LinkSource.WINDOW) for index in range(8)]
    node = ScriptedNode(cards, [Script(rx=steady(1e9), tx=steady(1e9)) for _ in cards])
    for _ in ticks(node, ScriptedHost(), SamplingSettings(), 60, windows_overlap=False):
        pass
    calls = sum(node.calls[c.identity.uuid]["window"] for c in cards)
    assert 0.20 <= calls * 0.02 / 60 <= 0.25


def test_an_idle_card_gets_one_window_a_second() -> None:
    """Without processes the link is glanced at once a second."""
    script = Script(processes=(), utilization=0.0, used_bytes=1e7)
    node = ScriptedNode([card(0, LinkSource.WINDOW)], [script])
    seen = list(ticks(node, ScriptedHost(), SamplingSettings(), 40))
    assert sum(len(tick.card_ticks[0].pcie.t0_s) for tick in seen[20:]) == pytest.approx(20, abs=3)
