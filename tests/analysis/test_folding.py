"""Candidates by likeness and the verdict of the fold: the true period explains most, off the grid as on it."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.analysis.common_signal import Common
from gpumon.analysis.folding import explained
from gpumon.analysis.likeness import lags
from gpumon.model.samples import Floats


def signal(stamps: Floats, value: Floats) -> Common:
    """Return values at given times as a signal on a grid."""
    pace_s = float(np.median(np.diff(stamps)))
    return Common(stamps - stamps[0], (value - value.mean()) / value.std(), pace_s, pace_s)


def square(step_s: float, pace_s: float = 0.02, seconds: float = 60.0, noise: float = 0.1) -> Common:
    """Return a job that works for six tenths of each step."""
    stamps = np.arange(0.0, seconds, pace_s)
    value = (stamps % step_s < 0.6 * step_s) * 1.0 + np.random.default_rng(3).normal(0.0, noise, stamps.size)
    return signal(stamps, value)


def uneven(step_s: float, spread: float, pace_s: float = 0.02, seconds: float = 60.0) -> Common:
    """Return a job whose steps differ in length."""
    rng = np.random.default_rng(5)
    begins = np.cumsum(rng.normal(step_s, spread * step_s, int(1.2 * seconds / step_s)))
    stamps = np.arange(0.0, seconds, pace_s) + begins[0]
    since = stamps - begins[np.searchsorted(begins, stamps, side="right") - 1]
    return signal(stamps, (since < 0.6 * step_s) + rng.normal(0.0, 0.1, stamps.size))


@pytest.mark.parametrize("step_s", [0.2, 1.234, 4.7])
def test_the_true_period_explains_most(step_s: float) -> None:
    """A step explains nearly all, twice the step no more, half of it and a tenth more little."""
    seen = square(step_s)
    assert explained(seen, step_s) > 0.7
    assert 0.5 < explained(seen, 2.0 * step_s) <= explained(seen, step_s) + 0.03
    assert explained(seen, step_s / 2.0) < 0.3
    assert explained(seen, 1.1 * step_s) < 0.2


def test_a_fold_does_not_prefer_the_multiple_that_falls_on_the_grid() -> None:
    """0.467 s sampled every 0.1 s explains as much as 1.4 s, which is 14 samples exactly."""
    seen = square(0.467, pace_s=0.1, noise=0.02)
    assert explained(seen, 0.467) > 0.9 * explained(seen, 1.401)


def test_what_happens_once_explains_nothing() -> None:
    """One spike in a flat minute is foretold by no period, and neither is noise."""
    stamps = np.arange(0.0, 60.0, 0.1)
    spike = signal(stamps, (np.abs(stamps - 31.0) < 0.05) * 1.0)
    noise = signal(stamps, np.random.default_rng(1).normal(0.0, 1.0, stamps.size))
    for period_s in (0.4, 1.1, 3.0, 8.0):
        assert explained(spike, period_s) < 0.1
        assert explained(noise, period_s) < 0.1


def test_nothing_moves() -> None:
    """A signal without movement is explained by nothing."""
    assert explained(Common(np.arange(100) * 0.1, np.zeros(100), 0.1, 0.1), 1.0) == 0.0


@pytest.mark.parametrize("step_s", [0.2, 0.467, 1.234, 4.7])
def test_the_step_is_a_candidate(step_s: float) -> None:
    """Steps whose lengths differ by three per cent, two hundred of them in a row, are among the candidates."""
    seen = uneven(step_s, 0.03)
    assert any(lag == pytest.approx(step_s, rel=0.02) for lag in lags(seen))
    assert explained(seen, step_s) > 0.5


def test_a_slow_cycle_does_not_hide_the_step() -> None:
    """Beside a cycle of 20 s that moves five times as much a step of 0.5 s is a candidate."""
    step = square(0.5)
    slow = signal(step.t_s, step.value + 5.0 * (step.t_s % 20.0 < 12.0))
    assert any(lag == pytest.approx(0.5, rel=0.01) for lag in lags(slow))


def test_samples_without_a_grid_give_no_candidates() -> None:
    """Looks at uneven times only judge what others propose."""
    times = np.sort(np.random.default_rng(2).uniform(0.0, 60.0, 2000))
    value = (times % 0.5 < 0.3) * 2.0 - 1.2
    assert lags(Common(times, value, 0.02, 0.02, even=False)) == []
    assert explained(Common(times, value, 0.02, 0.02, even=False), 0.5) > 0.7
