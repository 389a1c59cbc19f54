"""Known bursts through the pollers: the figures agree with what was sent (the whole table: benchmarks.link_traffic)."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.link_traffic import Outcome, run
from gpumon.model.card import LinkSource


@pytest.fixture(scope="module")
def windows() -> list[Outcome]:
    """Both directions of 250 runs of 120 s through windows."""
    return [o for seed in range(250) for o in run(LinkSource.WINDOW, seed, 120.0)]


def test_byte_counters_see_nearly_all_and_the_mean_is_right() -> None:
    """Over 60 s of bursts on any link, at least 0.95 is observed and the mean is within 1 %."""
    outcomes = [o for seed in range(40) for o in run(LinkSource.COUNTER, seed, 60.0)]
    assert min(o.observed for o in outcomes) >= 0.95
    assert max(abs(o.ratio_error) for o in outcomes) <= 0.01
    assert max(abs(o.error) for o in outcomes) <= 0.01


def test_a_poller_held_up_once_a_second_says_what_it_missed() -> None:
    """Held up for 100 ms: unseen only where a turn is shorter, the mean unbiased, and the interval owns up to it."""
    outcomes = [o for seed in range(120) for o in run(LinkSource.COUNTER, seed, 60.0, late=True)]
    complete = [o for o in outcomes if o.link != (5, 16)]
    fast = [o for o in outcomes if o.link == (5, 16)]
    assert min(o.observed for o in complete) >= 0.95
    assert statistics.fmean(abs(o.ratio_error) <= 0.01 for o in complete) >= 0.95
    assert all(0.80 <= o.observed <= 0.90 for o in fast)
    assert abs(statistics.fmean(o.error for o in fast)) <= 0.01
    assert statistics.fmean(o.covered for o in outcomes) >= 0.90


def test_windows_alone_are_unbiased(windows: list[Outcome]) -> None:
    """Observed bytes over observed seconds, and the estimate, are within 0.5 % of the truth on average."""
    assert abs(statistics.fmean(o.ratio_error for o in windows)) <= 0.005
    assert abs(statistics.fmean(o.error for o in windows)) <= 0.005


def test_the_stated_interval_holds_what_it_promises(windows: list[Outcome]) -> None:
    """The 95 % interval covers the truth in 93 to 99 % of 500 intervals, and is a few percent wide."""
    assert 0.93 <= statistics.fmean(o.covered for o in windows) <= 0.99
    assert statistics.median(o.half_width for o in windows) <= 0.06
    assert min(o.observed for o in windows) >= 0.20


def test_queueing_windows_admit_how_little_they_see() -> None:
    """Where calls of eight cards queue, the observed share is small, said, and inside an interval that is wide."""
    outcomes = [o for seed in range(10) for o in run(LinkSource.WINDOW, seed, 120.0, cards=8)]
    assert all(0.01 <= o.observed <= 0.02 for o in outcomes)
    assert statistics.median(o.half_width for o in outcomes) > 0.05
    assert sum(o.covered for o in outcomes) >= len(outcomes) - 2
