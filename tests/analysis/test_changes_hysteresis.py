"""Regimes of a job's behaviour, and verdicts that do not flap."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from gpumon.analysis import changes, hysteresis
from gpumon.analysis.changes import Marks
from gpumon.analysis.hysteresis import Standing, settle
from gpumon.analysis.verdict import Judgement
from gpumon.model.verdict import JobClass

COMPUTE = Judgement(JobClass.COMPUTE, "", 0.9)
COMMUNICATION = Judgement(JobClass.COMMUNICATION, "bandwidth", 0.9)
IDLE = Judgement(JobClass.IDLE, "", 0.8)
UNKNOWN = Judgement()


def play(power: list[float], pace_s: float = 1.0, held: list[float] | None = None) -> Marks:
    """Return the marks of a job whose power, and share of time held by heat, take these values, one a mark."""
    marks = Marks()
    for number, level in enumerate(power):
        slowed = held[number] if held else 0.0
        marks, _ = changes.extend(marks, number * pace_s, np.array([1.0, 1.0, level, 0.1, slowed]))
    return marks


def test_a_steady_job_is_one_regime() -> None:
    """Noise around one level never begins a new regime."""
    noise = np.random.default_rng(2).normal(0.6, 0.03, 300)
    assert play(list(noise)).began_s == 0.0


def test_a_step_of_two_seconds_is_no_change() -> None:
    """A job that alternates every second stays one regime."""
    assert play([0.8, 0.8, 0.3, 0.3] * 20).began_s == 0.0


def test_a_checkpoint_of_fifteen_seconds_is_a_change() -> None:
    """A level that holds for five seconds begins a regime, dated to where it began."""
    marks = play([0.8] * 20 + [0.2] * 8)
    assert marks.began_s == 19.0
    assert marks.from_s == 20.0


def test_steps_of_some_seconds_that_begin_are_a_change() -> None:
    """A steady level that gives way to one that comes and goes ends, dated to the first mark that is off."""
    marks = play([0.38] * 30 + [0.8, 0.8, 0.8, 0.35] * 3)
    assert marks.from_s == 30.0


def test_one_odd_mark_of_the_old_work_is_not_the_beginning_of_the_new() -> None:
    """A mark that is off by itself, some seconds before the level falls for good, belongs to the old regime."""
    assert play([0.8] * 28 + [0.55, 0.8, 0.8] + [0.4] * 4).from_s == 31.0


def test_a_steady_figure_need_not_move_far() -> None:
    """A level that hardly wandered and falls by half a move begins a regime; one that wanders by that much does not."""
    noise = np.random.default_rng(3)
    assert play([*noise.normal(0.6, 0.003, 30), *noise.normal(0.54, 0.003, 8)]).from_s == 30.0
    assert play([*noise.normal(0.6, 0.02, 30), *noise.normal(0.54, 0.02, 8)]).began_s == 0.0


def test_the_beginning_of_the_brake_is_a_change() -> None:
    """The driver's reasons tell when cards began to be held, though neither power nor traffic shows it."""
    assert play([0.5] * 40, held=[0.0] * 30 + [0.8] * 10).from_s == 30.0


def test_steps_of_ten_seconds_are_one_regime() -> None:
    """Work that has gone up and down all the time does not change when it does so again."""
    assert play([0.8, 0.8, 0.8, 0.8, 0.3, 0.3, 0.3, 0.3] * 15).began_s == 0.0
    assert play([0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.3, 0.3, 0.3] * 15).began_s == 0.0


def test_a_log_with_a_sample_in_ten_seconds_changes_at_once() -> None:
    """Where marks are far apart one of them is a stretch."""
    assert play([0.8] * 6 + [0.1], pace_s=10.0).began_s == 50.0


def test_figures_of_cards_that_do_not_tell() -> None:
    """Missing figures are missing in the mark, and missing marks begin no regime."""
    mark = changes.figures_of([math.nan], [math.nan], [], [math.nan])
    assert np.isnan(mark).all()
    marks = Marks()
    for second in range(30):
        marks, changed = changes.extend(marks, float(second), mark)
        assert not changed


def run(judgements: list[Judgement], regimes: dict[int, float] | None = None, pace_s: float = 3.0) -> list[Standing]:
    """Return what stands after each judgement; regimes maps a judgement's number to a regime's beginning."""
    standing, regime_s, stands = Standing(), 0.0, []
    for number, judgement in enumerate(judgements):
        regime_s = (regimes or {}).get(number, regime_s)
        standing = settle(standing, judgement, regime_s, (number + 1) * pace_s)
        stands.append(standing)
    return stands


def test_the_first_class_needs_two_judgements() -> None:
    """One judgement is a guess; the second one makes it stand, from the beginning of the regime."""
    stands = run([COMPUTE, COMPUTE])
    assert stands[0].job_class is JobClass.UNKNOWN
    assert stands[1].job_class is JobClass.COMPUTE
    assert stands[1].since_s == 0.0


def test_a_border_case_changes_once_a_minute_at_most() -> None:
    """A class that wins and loses every twenty seconds does not flap."""
    judgements = ([COMPUTE] * 7 + [COMMUNICATION] * 7) * 12
    classes = [standing.job_class for standing in run(judgements)]
    changed = [number for number in range(1, len(classes)) if classes[number] is not classes[number - 1]]
    late = [b - a for a, b in pairwise(changed[2:])]
    assert all(gap * 3.0 >= hysteresis.STANDS_S for gap in late)


def test_a_new_regime_changes_the_class_at_once() -> None:
    """After a change of behaviour two judgements are enough, dated to the change."""
    stands = run([COMPUTE] * 10 + [COMMUNICATION] * 2, regimes={10: 29.0})
    assert stands[-1].job_class is JobClass.COMMUNICATION
    assert stands[-1].since_s == 29.0


def test_an_early_verdict_may_be_corrected_once() -> None:
    """What was said on a few seconds gives way after ten seconds of better evidence, without waiting for a minute."""
    stands = run([COMPUTE] * 3 + [COMMUNICATION] * 5)
    assert stands[-1].job_class is JobClass.COMMUNICATION


def test_a_moment_of_doubt_changes_nothing() -> None:
    """A single unknown between agreeing judgements leaves the class standing."""
    stands = run([COMPUTE] * 4 + [UNKNOWN] + [COMPUTE] * 3)
    assert all(standing.job_class is JobClass.COMPUTE for standing in stands[1:])


def test_a_lull_of_ten_seconds_is_no_idle_job() -> None:
    """A server that works but for lulls is not called idle in each of them; one that rests on is after 15 s."""
    lulls = ([COMPUTE] * 10 + [IDLE] * 3) * 4
    begins = {number + part: (number + part) * 3.0 for number in range(0, 52, 13) for part in (0, 10)}
    assert all(standing.job_class is JobClass.COMPUTE for standing in run(lulls, begins)[2:])
    rests = [standing.job_class for standing in run([COMPUTE] * 10 + [IDLE] * 6, regimes={10: 30.0})]
    assert rests[13:] == [JobClass.COMPUTE, JobClass.IDLE, JobClass.IDLE]


def test_a_server_that_mostly_rests_is_idle_in_short_lulls() -> None:
    """Where the last minute was lulls for the most part one more of them is what the job does."""
    lulls = ([COMPUTE] * 2 + [IDLE] * 4) * 6
    begins = {number + part: (number + part) * 3.0 for number in range(0, 36, 6) for part in (0, 2)}
    assert JobClass.IDLE in {standing.job_class for standing in run(lulls, begins)[-6:]}
