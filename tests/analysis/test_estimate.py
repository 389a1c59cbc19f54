"""The mean rate of a partly watched link and its interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpumon.analysis.estimate import mean_rate


def test_a_link_seen_without_holes_has_no_uncertainty() -> None:
    """Slots that touch each other give the exact mean."""
    edges = np.arange(0.0, 1.01, 0.1)
    amounts = np.arange(10.0)
    assert mean_rate(edges[:-1], edges[1:], amounts, (0.0, 1.0)) == (pytest.approx(45.0), 0.0)


def test_no_slot_is_no_figure() -> None:
    """Nothing seen: NaN for both, never 0."""
    empty = np.empty(0)
    assert all(math.isnan(value) for value in mean_rate(empty, empty, empty, (0.0, 1.0)))


def test_two_slots_with_a_hole_have_a_mean_and_no_interval() -> None:
    """Too few slots to learn the traffic's pace: the half-width is NaN."""
    mean, half_width = mean_rate(np.array([0.0, 0.5]), np.array([0.1, 0.6]), np.array([1.0, 3.0]), (0.0, 1.0))
    assert mean > 0.0
    assert math.isnan(half_width)


def test_other_direction_and_other_times_are_left_out() -> None:
    """Slots that are NaN or lie outside the span do not count."""
    t0_s = np.array([0.0, 0.1, 0.2, 0.3, 5.0])
    amounts = np.array([1.0, math.nan, 1.0, 1.0, 1e9])
    mean, _ = mean_rate(t0_s, t0_s + 0.1, amounts, (0.0, 0.4))
    assert mean == pytest.approx(10.0)


def test_a_hole_is_filled_from_both_sides() -> None:
    """Between a slow and a fast slot the mean of both is taken."""
    mean, _ = mean_rate(np.array([0.0, 2.0]), np.array([1.0, 3.0]), np.array([10.0, 30.0]), (0.0, 3.0))
    assert mean == pytest.approx(20.0)


def test_steady_traffic_is_known_exactly_through_windows() -> None:
    """Windows that all show the same leave nothing uncertain."""
    t0_s = np.arange(0.0, 10.0, 0.1)
    mean, half_width = mean_rate(t0_s, t0_s + 0.02, np.full(100, 2.0), (0.0, 10.0))
    assert (mean, half_width) == (pytest.approx(100.0), pytest.approx(0.0, abs=1e-9))


def test_slow_traffic_is_known_better_than_fast_of_the_same_spread() -> None:
    """The same windows over one long burst say more than over many short ones."""
    t0_s = np.arange(0.0, 60.0, 0.1)
    slow = np.where(t0_s < 30.0, 0.0, 2.0)
    fast = np.random.default_rng(1).permutation(slow)
    span = (0.0, 60.0)
    assert mean_rate(t0_s, t0_s + 0.02, slow, span)[1] < 0.2 * mean_rate(t0_s, t0_s + 0.02, fast, span)[1]


def test_long_stretches_unseen_widen_the_interval() -> None:
    """When the second half was not seen, the half-width says that it may have been different."""
    t0_s = np.arange(0.0, 30.0, 0.1)
    amounts = np.random.default_rng(1).uniform(0.0, 2.0, len(t0_s))
    near = mean_rate(t0_s, t0_s + 0.02, amounts, (0.0, 30.0))[1]
    assert mean_rate(t0_s, t0_s + 0.02, amounts, (0.0, 60.0))[1] > 3.0 * near
