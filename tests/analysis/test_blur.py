"""Levels that a slow power reading hides, and those it shows."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.analysis import blur
from gpumon.analysis.humps import two_levels
from gpumon.model.samples import Floats

SAMPLE_S = 0.02
LOW, HIGH = 140.0, 340.0  # watts


def ring(work_s: float, wait_s: float, looks_back_s: float) -> Floats:
    """Return half a minute of readings, each the mean of the time before it, of work and waiting in turn."""
    fine_s = 0.001
    time_s = np.arange(0.0, 30.0, fine_s)
    watts = np.where(time_s % (work_s + wait_s) < work_s, HIGH, LOW)
    total = np.concatenate(([0.0], np.cumsum(watts)))
    ends = np.arange(1000, time_s.size, round(SAMPLE_S / fine_s))
    back = round(looks_back_s / fine_s)
    noise = np.random.default_rng(1).normal(0.0, 1.0, ends.size)
    return np.stack([ends * fine_s, (total[ends] - total[ends - back]) / back + noise])


@pytest.mark.parametrize(("work_s", "wait_s"), [(0.06, 0.12), (0.07, 0.11)])
def test_a_short_phase_hides_its_level(work_s: float, wait_s: float) -> None:
    """Work of 60 ms under readings of 100 ms reaches three fifths of the way; the ratio leads back to 340."""
    power = ring(work_s, wait_s, looks_back_s=0.1)
    humps = two_levels(power[1])
    assert humps.high_quarter < 300.0
    low, high = humps.low_quarter, humps.high_quarter
    _, above = blur.beyond(power, humps)
    assert low + above * (high - low) == pytest.approx(HIGH, abs=40.0)


@pytest.mark.parametrize(("work_s", "wait_s", "looks_back_s"), [(0.06, 0.12, 0.025), (0.3, 0.4, 0.1)])
def test_a_level_that_is_shown_is_no_riddle(work_s: float, wait_s: float, looks_back_s: float) -> None:
    """Neither a swift board nor phases of several readings hide anything."""
    power = ring(work_s, wait_s, looks_back_s)
    assert blur.beyond(power, two_levels(power[1])) == (1.0, 1.0)


def test_one_level_hides_nothing() -> None:
    """Noise around one level has no humps."""
    power = ring(0.5, 0.0, looks_back_s=0.1)
    assert blur.beyond(power, two_levels(power[1])) == (1.0, 1.0)
