"""A job that goes to and fro is judged over its cycle, and its history tells the phases apart."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from gpumon.analysis import cycles
from gpumon.analysis.cycles import Cycle
from gpumon.analysis.hysteresis import Standing
from gpumon.analysis.verdict import Judgement
from gpumon.model.job import Layout
from gpumon.model.verdict import Interval, JobClass, Verdict
from gpumon.pipeline.intervals import extend
from tests.analysis.scripted import Phase, Script, watch
from tests.findings.subjects import certain_split

WORK, WAIT = 450.0, 170.0  # watts of a RTX 5090 that works, and of one that waits in a collective
DDP = Layout(framework="pytorch", launcher="torchrun", asked="ddp", world_size=4, ranks_here=4)


def watched(steps_s: float, saving_s: float, seconds: int = 150) -> list[Verdict]:
    """Return the verdicts of a job whose rank 0 saves after so many seconds of steps while the others wait."""
    own = Script((Phase(steps_s, WORK, memory=0.4), Phase(saving_s, 90.0, kernel=0.0, memory=0.0)))
    other = Script((Phase(steps_s, WORK, memory=0.4), Phase(saving_s, WAIT, memory=0.02)))
    return watch([own, other, other, other], seconds=seconds, layout=DDP)


@pytest.mark.parametrize(("steps_s", "saving_s", "expected"), [(22.0, 10.0, "compute"), (8.0, 24.0, "host")])
def test_a_cycle_is_what_most_of_its_time_is(steps_s: float, saving_s: float, expected: str) -> None:
    """Steps and saves in turn are one thing for both: the one that takes most of the time, and it does not flap."""
    verdicts = watched(steps_s, saving_s)[-60:]
    assert {verdict.job_class.value for verdict in verdicts} == {expected}
    assert min(verdict.confidence for verdict in verdicts) >= 0.7
    assert len({verdict.since_s for verdict in verdicts}) == 1


def test_an_even_cycle_is_unknown() -> None:
    """As long in steps as three of four cards wait for the one that saves: either name would be a guess."""
    verdicts = watched(12.0, 16.0)[-56:]
    assert {verdict.job_class for verdict in verdicts} == {JobClass.UNKNOWN}


def test_the_split_is_that_of_the_cycle() -> None:
    """Over a cycle of 22 s of steps and 10 s of saving the split has both, in any second of it."""
    for verdict in watched(22.0, 10.0)[-32::4]:
        assert verdict.time_split is not None
        assert verdict.time_split.compute == pytest.approx(22 / 32, abs=0.1)
        assert verdict.time_split.host_wait + verdict.time_split.peer_wait == pytest.approx(10 / 32, abs=0.1)


def test_the_history_tells_steps_and_saves_apart() -> None:
    """The intervals of a report alternate where the verdict stays, and name the card that saves."""
    intervals: tuple[Interval, ...] = ()
    before = 0.0
    for now_s, verdict in enumerate(watched(16.0, 16.0, seconds=160), start=1):
        intervals = extend(intervals, verdict.phase or verdict, before, float(now_s))
        before = float(now_s)
    late = [interval for interval in intervals if interval.t0 > 60.0]
    assert {interval.job_class for interval in late} == {JobClass.COMPUTE, JobClass.HOST}
    assert any(interval.stragglers == (0,) for interval in late if interval.job_class is JobClass.HOST)


def test_a_change_for_good_is_no_cycle() -> None:
    """A class that was not there before is taken as the newest regime has it."""
    means = dict.fromkeys(("communication", "overlap", "memory", "peer_wait", "idle"), 0.0)
    steps = {**means, "compute": 0.9, "host_wait": 0.1}
    waits = {**means, "compute": 0.1, "host_wait": 0.9}
    cycle, standing = Cycle(), Standing(JobClass.HOST, "input", 0.9)
    for judgement, split, regime_s, now_s in (
        (Judgement(JobClass.COMPUTE, "", 0.9), steps, 0.0, 40.0),
        (Judgement(JobClass.HOST, "input", 0.9), waits, 40.0, 50.0),
        (Judgement(JobClass.HOST, "input", 0.9), waits, 52.0, 60.0),
    ):
        cycle = cycles.follow(cycle, judgement, certain_split(split), (), regime_s=regime_s, now_s=now_s)
    assert cycles.over(cycle, standing, 52.0, 60.0)[1] is None


def cycle_of(classes: tuple[JobClass, ...], splits: tuple[Mapping[str, float], ...], *, spell_s: float) -> Cycle:
    """Return the cycle of regimes that last as long each, the newest one as well."""
    cycle = Cycle()
    for number, (job_class, split) in enumerate(zip(classes, splits, strict=True)):
        start_s = spell_s * number
        told = Judgement(job_class, "", 0.9)
        cycle = cycles.follow(cycle, told, certain_split(split), (), regime_s=start_s, now_s=start_s + spell_s)
    return cycle


NOTHING = dict.fromkeys(("compute", "communication", "overlap", "memory", "host_wait", "peer_wait", "idle"), 0.0)
WORKS = {**NOTHING, "memory": 0.8, "compute": 0.2}
RESTS = {**NOTHING, "idle": 1.0}


def test_a_server_is_idle_where_it_rests_for_most_of_the_time() -> None:
    """Requests and lulls: idle for more than half of the cycle is idle, for a third of it is what the requests are."""
    classes = (JobClass.MEMORY, JobClass.IDLE, JobClass.MEMORY, JobClass.IDLE)
    mixed = {**NOTHING, "memory": 0.5, "compute": 0.1, "idle": 0.4}
    rested = cycle_of(classes, (mixed, RESTS, mixed, RESTS), spell_s=12.0)
    worked = cycle_of(classes, (WORKS, mixed, WORKS, mixed), spell_s=12.0)
    for cycle, expected in ((rested, JobClass.IDLE), (worked, JobClass.MEMORY)):
        whole = cycles.over(cycle, Standing(JobClass.IDLE), 36.0, 48.0)[1]
        assert whole is not None
        assert whole.standing.job_class is expected


def test_what_has_lasted_for_a_minute_is_no_cycle() -> None:
    """A server that rested and worked in turn and has done the same for a minute since is what it does now."""
    cycle = cycle_of((JobClass.IDLE, JobClass.MEMORY, JobClass.IDLE), (RESTS, WORKS, RESTS), spell_s=12.0)
    standing = Standing(JobClass.IDLE, "", 0.9)
    assert cycles.over(cycle, standing, 24.0, 60.0)[1] is not None
    assert cycles.over(cycle, standing, 24.0, 85.0)[1] is None


def test_an_even_rest_is_a_guess() -> None:
    """As long in lulls as at work is neither."""
    classes = (JobClass.MEMORY, JobClass.IDLE, JobClass.MEMORY, JobClass.IDLE)
    whole = cycles.over(
        cycle_of(classes, (WORKS, RESTS, WORKS, RESTS), spell_s=12.0), Standing(JobClass.IDLE), 36.0, 48.0
    )[1]
    assert whole is not None
    assert whole.standing.job_class is JobClass.UNKNOWN


@pytest.mark.parametrize(("memory", "expected"), [(0.56, JobClass.UNKNOWN), (0.64, JobClass.MEMORY)])
def test_a_cycles_lead_must_outweigh_its_cut(memory: float, expected: JobClass) -> None:
    """A lead of 0.12 may come from where the minute cuts the cycle; one of 0.28 does not."""
    classes = (JobClass.MEMORY, JobClass.COMPUTE, JobClass.MEMORY)
    split = {**NOTHING, "memory": memory, "compute": 1.0 - memory}
    cycle = cycle_of(classes, (split, split, split), spell_s=15.0)
    whole = cycles.over(cycle, Standing(JobClass.MEMORY), 30.0, 45.0)[1]
    assert whole is not None
    assert whole.standing.job_class is expected


def test_heat_and_limits_make_no_cycle() -> None:
    """What is judged from the driver's own reasons is named while it lasts."""
    classes = (JobClass.MEMORY, JobClass.THROTTLED, JobClass.MEMORY)
    cycle = cycle_of(classes, (WORKS, WORKS, WORKS), spell_s=15.0)
    assert cycles.over(cycle, Standing(JobClass.MEMORY), 30.0, 45.0)[1] is None
    assert math.isnan(cycle.since_s)
