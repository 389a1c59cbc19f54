"""The period of a job's work: the shortest whose multiples appear, real timestamps, agreement."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpumon.analysis import period
from gpumon.analysis.period import PeriodPast, Signal, extend, of_signal

RNG = np.random.default_rng(3)


def wave(step_s: float, pace_s: float = 0.02, seconds: float = 60.0, duty: float = 0.6, jitter: float = 0.2) -> Signal:
    """Return a square wave seen by four noisy cards at jittered moments."""
    cards = []
    for _ in range(4):
        stamps = np.sort(np.arange(0.0, seconds, pace_s) + RNG.uniform(-jitter, jitter, int(seconds / pace_s)) * pace_s)
        values = (stamps % step_s < duty * step_s) * 1.0 + RNG.normal(0.0, 0.3, stamps.size)
        cards.append((stamps, values))
    return Signal(tuple(cards), 0.0)


@pytest.mark.parametrize("step_s", [0.2, 0.467, 1.234, 4.7])
def test_the_step_is_found(step_s: float) -> None:
    """A step between three samples and a tenth of the window is found within 1 %."""
    assert of_signal(wave(step_s)) == pytest.approx(step_s, rel=0.01)


def test_a_step_off_the_grid_at_ten_hertz() -> None:
    """0.467 s sampled every 0.1 s: real timestamps find it where a correlation over lags would say 1.4 s."""
    assert of_signal(wave(0.467, pace_s=0.1, jitter=0.3)) == pytest.approx(0.467, rel=0.01)


def test_a_step_below_three_samples_is_not_given() -> None:
    """What is faster than the samples is not given, and neither is its beat with them."""
    assert math.isnan(of_signal(wave(0.075)))


def test_the_checkpoint_cycle_is_not_the_step() -> None:
    """A slow cycle stronger than the step is taken away before the step is looked for."""
    signal = wave(0.5)
    slow = tuple((t, v + 5.0 * (t % 27.0 < 12.0)) for t, v in signal.cards)
    assert of_signal(Signal(slow, 0.0)) == pytest.approx(0.5, rel=0.01)


def test_noise_has_no_period() -> None:
    """Nothing is found where nothing repeats."""
    stamps = np.arange(0.0, 60.0, 0.02)
    cards = tuple((stamps, RNG.normal(0.0, 1.0, stamps.size)) for _ in range(4))
    assert math.isnan(of_signal(Signal(cards, 0.0)))


def test_the_refresh_of_the_source_bounds_the_period() -> None:
    """Nothing below twice the source's own refresh is given."""
    signal = wave(0.25)
    assert math.isnan(of_signal(Signal(signal.cards, 0.15)))


def test_two_signals_that_agree_give_the_step() -> None:
    """Agreement within 3 % gives a number at once."""
    past = extend(PeriodPast(), "power", 0.50, 0.0)
    assert math.isnan(past.step_s)
    assert extend(past, "link", 0.507, 0.0).step_s == pytest.approx(0.5035)


def test_one_signal_must_say_it_again_and_again() -> None:
    """Alone a signal needs three estimates that agree; a new regime forgets them."""
    past = PeriodPast()
    for estimate in (0.5, 0.9, 0.502):
        past = extend(past, "power", estimate, 0.0)
    assert math.isnan(past.step_s)
    past = extend(past, "power", 0.501, 0.0)
    assert past.step_s == pytest.approx(0.501, rel=0.01)
    assert math.isnan(extend(past, "power", 0.5, 60.0).step_s)


def test_utilization_does_not_speak_alone_beside_fast_power() -> None:
    """A step faster than utilization's refresh beats with it: where power is fast, utilization alone is not heard."""
    past = extend(PeriodPast(), "power", math.nan, 0.0)
    for _ in range(period.AGAIN):
        past = extend(past, "utilization", 0.89, 0.0)
    assert math.isnan(past.step_s)
