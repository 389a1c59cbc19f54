"""The period of a job's work: found in a look, given when it is sure, kept and forgotten."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpumon.analysis import period
from gpumon.analysis.common_signal import Common, common
from gpumon.analysis.period import PeriodPast, extend, follow, stretch
from gpumon.analysis.period_choice import Said
from gpumon.model.job import Layout
from tests.analysis.scripted import HostScript, Phase, Script, judged

SECONDS = 60.0


def wave(step_s: float, pace_s: float = 0.02, duty: float = 0.6, jitter: float = 0.2, slow: float = 0.0) -> Common:
    """Return a square wave seen by four noisy cards at jittered moments, on a slow cycle of 27 s."""
    # Its own numbers for each wave: what a test sees must not depend on which ran before it.
    rng = np.random.default_rng([3, round(1000 * step_s), round(1000 * pace_s)])
    cards = []
    for _ in range(4):
        count = int(SECONDS / pace_s)
        stamps = np.sort(np.arange(count) * pace_s + rng.uniform(-jitter, jitter, count) * pace_s)
        values = (stamps % step_s < duty * step_s) + rng.normal(0.0, 0.3, count) + slow * (stamps % 27.0 < 12.0)
        cards.append((stamps, values))
    seen = common(cards)
    assert seen is not None
    return seen


def looked(**signals: Common) -> float:
    """Return the period of one look, NaN where none is said."""
    said = period.look(signals, (), 0.0, SECONDS, saving=False)
    return said.period_s if said is not None else math.nan


def said(period_s: float, from_s: float = 0.0, to_s: float = 60.0, others: float = 0.5, **support: float) -> Said:
    """Return a look's answer; its witnesses are power every 20 ms, a link every 125 ms, rings every 139 ms."""
    refresh = {"power": 0.02, "link": 0.125, "rings": 0.139}
    measured = {name: refresh[name] for name in support}
    return Said(period_s, support, frozenset(support), measured, others=others, from_s=from_s, to_s=to_s)


@pytest.mark.parametrize("step_s", [0.075, 0.2, 0.467, 1.234, 4.7])
def test_the_step_is_found(step_s: float) -> None:
    """A step between three samples and a tenth of the window is found within 1 %."""
    assert looked(power=wave(step_s)) == pytest.approx(step_s, rel=0.01)


def test_a_step_off_the_grid_at_ten_hertz() -> None:
    """0.467 s sampled every 0.1 s: real timestamps find it where a correlation over lags would say 1.4 s."""
    assert looked(utilization=wave(0.467, pace_s=0.1, jitter=0.3)) == pytest.approx(0.467, rel=0.01)


def test_a_step_below_three_samples_is_not_given() -> None:
    """What is faster than the samples is not given, and neither is its beat with them."""
    assert math.isnan(looked(power=wave(0.045)))
    assert math.isnan(looked(power=wave(0.045), link=wave(0.045, pace_s=0.05)))


def test_a_saving_cycle_is_not_the_step() -> None:
    """A slow cycle stronger than the step is not said in its place."""
    found = looked(power=wave(0.5, slow=2.0), link=wave(0.5, pace_s=0.05))
    assert found == pytest.approx(0.5, rel=0.01)


def test_a_long_cycle_of_a_job_that_saves_is_not_said() -> None:
    """Where the job writes to disk, what repeats after five seconds may be its saves."""
    signals = {"power": wave(5.0), "link": wave(5.0, pace_s=0.05)}
    assert period.look(signals, (), 0.0, SECONDS, saving=False) is not None
    assert period.look(signals, (), 0.0, SECONDS, saving=True) is None


def test_noise_has_no_period() -> None:
    """Nothing is found where nothing repeats, or where there is nothing."""
    assert math.isnan(looked(power=wave(1e9), link=wave(1e9, pace_s=0.05)))
    assert math.isnan(looked())


def test_two_signals_that_agree_give_the_step() -> None:
    """Agreement gives a number at once."""
    assert extend(PeriodPast(), said(0.5, power=0.9, link=0.8), fast_power=True).step_s == 0.5


def test_one_signal_must_say_it_again() -> None:
    """Alone, fast power needs two looks that agree within 1 %."""
    past = extend(PeriodPast(), said(0.5, power=0.9), fast_power=True)
    assert math.isnan(past.step_s)
    assert math.isnan(extend(past, said(0.51, power=0.9), fast_power=True).step_s)
    assert extend(past, said(0.502, power=0.9), fast_power=True).step_s == 0.502


def test_a_signal_that_measures_seldom_is_not_heard_alone() -> None:
    """A short step beats with utilization's refresh: alone that counts from a second on, and beside fast power."""
    for step_s, fast, given in ((0.5, True, False), (1.5, True, True), (1.5, False, False)):
        past = PeriodPast()
        for _ in range(3):
            past = extend(past, said(step_s, rings=0.9), fast_power=fast)
        assert math.isnan(past.step_s) is not given


def test_the_rings_alone_where_nobody_else_sees_anything() -> None:
    """A log with utilization and averaged power: three exact looks of the rings count when power shows no rhythm."""
    for others, given in ((0.1, True), (0.5, False)):
        past = PeriodPast()
        for _ in range(3):
            past = extend(past, said(0.467, others=others, rings=0.4), fast_power=False)
        assert math.isnan(past.step_s) is not given


def test_the_rings_are_not_heard_where_fast_power_sees_no_rhythm() -> None:
    """What power shows nothing of at 50 Hz is no step, however often the rings say it."""
    past = PeriodPast()
    for _ in range(3):
        past = extend(past, said(2.06, others=0.1, rings=0.4), fast_power=True)
    assert math.isnan(past.step_s)


def test_a_long_cycle_where_nothing_measures_often_is_not_said() -> None:
    """Steps of 40 ms show in no source of ten hertz, so 7 s may be the evaluations between them; 20 ms looks tell."""
    slow = {"power": wave(7.0, pace_s=0.1), "link": wave(7.0, pace_s=0.125)}
    assert math.isnan(looked(**slow))
    assert looked(power=wave(7.0), link=slow["link"]) == pytest.approx(7.0, rel=0.01)
    assert looked(power=wave(1.4, pace_s=0.1), link=wave(1.4, pace_s=0.125)) == pytest.approx(1.4, rel=0.01)


def test_several_of_the_known_step_are_not_news() -> None:
    """A look that sees every second step does not change what was given, and does not confirm it."""
    past = extend(PeriodPast(), said(0.5, power=0.9, link=0.8), fast_power=True)
    past = extend(past, said(1.0, power=0.9, link=0.8), fast_power=True)
    assert past.step_s == 0.5
    assert math.isnan(extend(past, said(1.0, power=0.9, link=0.8), fast_power=True).step_s)


def test_slow_signals_that_agree_exactly_three_times() -> None:
    """The beat of a short step wanders, a step does not: two slow signals give it when they said it three times."""
    steady, wandering = PeriodPast(), PeriodPast()
    for number in range(3):
        steady = extend(steady, said(1.5, link=0.8, rings=0.8), fast_power=False)
        wandering = extend(wandering, said(1.5 + 0.015 * number, link=0.8, rings=0.8), fast_power=False)
    assert steady.step_s == 1.5
    assert math.isnan(wandering.step_s)


def test_one_that_measures_often_is_believed_the_third_time() -> None:
    """Half of power's movement, exactly the same in three looks, is a step where others see nothing like as much."""
    for others, given in ((0.2, True), (0.45, False)):
        past = PeriodPast()
        for _ in range(3):
            past = extend(past, said(0.23, others=others, power=0.5), fast_power=True)
        assert math.isnan(past.step_s) is not given


def test_a_look_without_an_answer_does_not_take_back_the_others() -> None:
    """Two of the looks that are kept said the same, with an empty one between; another answer would count."""
    for between, given in ((None, True), (said(1.1, link=0.8, rings=0.8), False)):
        past = PeriodPast()
        for one in (said(1.5, link=0.8, rings=0.8), said(1.5, link=0.8, rings=0.8), between):
            past = extend(past, one, fast_power=False)
        assert math.isnan(extend(past, said(1.5, link=0.8, rings=0.8), fast_power=False).step_s) is not given


def test_slow_signals_need_six_measurements_in_a_step() -> None:
    """0.42 s said three times by sources of eight hertz may be an image of a shorter step."""
    past = PeriodPast()
    for _ in range(3):
        past = extend(past, said(0.42, link=0.8, rings=0.8), fast_power=False)
    assert math.isnan(past.step_s)


def test_evaluations_are_no_step_where_steps_were_seen() -> None:
    """Power showed 0.107 s three times, then link and rings show what comes every 92 steps."""
    past = PeriodPast()
    for _ in range(3):
        past = extend(past, said(0.107, power=0.42), fast_power=True)
    cycle = said(9.9, power=0.75, rings=0.9)
    assert math.isnan(extend(past, cycle, fast_power=True).step_s)
    assert extend(PeriodPast(), cycle, fast_power=True).step_s == 9.9


def test_a_period_that_the_spectrum_of_the_slots_shows_is_given() -> None:
    """One witness is enough beside the spectrum, which a source that measures seldom does not deceive."""
    one = replace(said(0.25, link=0.85), beaten=True)
    assert extend(PeriodPast(), one, fast_power=False).step_s == pytest.approx(0.25)


def test_what_one_witness_sees_within_the_known_step_changes_nothing() -> None:
    """Three equal pieces of a step that several witnesses have shown are neither another step nor a doubt of it."""
    past = extend(PeriodPast(), said(1.16, power=0.8, link=0.7), fast_power=True)
    for _ in range(3):
        past = extend(past, said(0.386, link=0.95), fast_power=True)
    assert past.step_s == pytest.approx(1.16)
    assert past.missed == 0


def test_a_short_stretch_needs_another() -> None:
    """What repeats in ten seconds only counts when another stretch showed it too."""
    past = extend(PeriodPast(), said(0.5, 50.0, 60.0, power=0.9, link=0.9), fast_power=True)
    again = extend(past, said(0.5, 50.0, 64.0, power=0.9, link=0.9), fast_power=True)
    assert math.isnan(past.step_s)
    assert math.isnan(again.step_s)
    assert extend(again, said(0.5, 80.0, 90.0, power=0.9, link=0.9), fast_power=True).step_s == 0.5


def test_what_was_given_stays_through_one_empty_look() -> None:
    """One look without an answer keeps the step, two forget it."""
    past = extend(PeriodPast(), said(0.5, power=0.9, link=0.8), fast_power=True)
    past = extend(past, None, fast_power=True)
    assert past.step_s == 0.5
    assert math.isnan(extend(past, None, fast_power=True).step_s)


def test_another_step_replaces_the_known_one_at_once() -> None:
    """Two witnesses that say something else end what was given, though they are not yet sure of the new one."""
    past = extend(PeriodPast(), said(0.5, power=0.9, link=0.8), fast_power=True)
    assert math.isnan(extend(past, said(0.7, power=0.5, link=0.4), fast_power=True).step_s)
    assert extend(past, said(0.7, power=0.9, link=0.8), fast_power=True).step_s == 0.7


def test_a_witness_that_measures_a_few_times_in_a_step_is_not_heard_alone() -> None:
    """Four samples in a step are the same four moments of each: power alone needs six."""
    past = PeriodPast()
    for _ in range(3):
        past = extend(past, said(0.08, power=0.95), fast_power=True)
    assert math.isnan(past.step_s)


def test_moments_that_move_along_the_step_need_no_six() -> None:
    """5.4 measurements in a step fall on all of it in turn: with a large share power gives it alone."""
    for share, given in ((0.8, True), (0.7, False)):
        past = PeriodPast()
        for _ in range(2):
            past = extend(past, said(0.107, power=share), fast_power=True)
        assert math.isnan(past.step_s) is not given


def test_the_regime_before_is_looked_at_while_the_present_one_is_young() -> None:
    """The steps between two saves are looked at when the save has begun; old and very short regimes are not."""
    past = follow(follow(PeriodPast(), 10.0), 40.0)
    assert stretch(past, 44.0, 60.0, present=True) == (40.0, 44.0)
    assert stretch(past, 42.0, 60.0, present=True) is None
    assert stretch(past, 44.0, 60.0, present=False) == (10.0, 40.0)
    assert stretch(past, 44.0, 20.0, present=False) == (24.0, 40.0)
    assert stretch(past, 90.0, 60.0, present=False) is None
    assert stretch(follow(PeriodPast(), 10.0), 20.0, 60.0, present=False) is None


STEPS = (Phase(0.3, 450.0), Phase(0.5, 170.0, 28e9, 28e9, memory=0.06))


def test_a_job_hears_its_step_within_half_a_minute() -> None:
    """Power and link of two scripted cards agree on 0.8 s."""
    assert judged([Script(STEPS)] * 2, seconds=30).step_seconds == pytest.approx(0.8, rel=0.01)


def test_windows_show_the_step_as_well() -> None:
    """Looks of 20 ms in alternating directions judge what power proposes."""
    assert judged([Script(STEPS, windows=True)] * 2, seconds=30).step_seconds == pytest.approx(0.8, rel=0.01)


def test_a_server_has_no_steps() -> None:
    """What repeats in a server is a request or a token, and is not called a step."""
    assert math.isnan(judged([Script(STEPS)] * 2, seconds=30, layout=Layout(framework="vllm")).step_seconds)


def test_a_job_that_writes_is_still_heard() -> None:
    """Writing to disk forbids long cycles, not steps."""
    found = judged([Script(STEPS)] * 2, seconds=30, host=HostScript(write=200e6))
    assert found.step_seconds == pytest.approx(0.8, rel=0.01)
