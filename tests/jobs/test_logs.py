"""Another tool's log names no process: who used its cards is one job of nobody, from its first sample to its last."""

from __future__ import annotations

from gpumon import jobs
from gpumon.model.job import Job, JobKind
from gpumon.model.samples import Tick
from gpumon.model.settings import Settings
from gpumon.pipeline import initial_state, step
from gpumon.recording.logs.rows import Row, to_ticks

WORKING = {"utilization_ratio": 0.9, "power_watts": 400.0, "power_limit_watts": 575.0}
RESTING = {"utilization_ratio": 0.0, "power_watts": 30.0, "power_limit_watts": 575.0}


def ticks(rows: list[Row]) -> list[Tick]:
    """Return the ticks of a log."""
    return list(to_ticks(rows))


def attributed(rows: list[Row]) -> list[tuple[Job, ...]]:
    """Return the jobs at each tick."""
    memory, found = jobs.initial_memory(), []
    for tick in ticks(rows):
        memory, now = jobs.attribute(memory, tick, Settings())
        found.append(now)
    return found


def steady(cards: int, seconds: int, values: dict[str, float], first_s: int = 0) -> list[Row]:
    """Return rows a second of so many cards."""
    return [Row(float(first_s + t), gpu, values) for t in range(seconds) for gpu in range(cards)]


def test_a_job_from_the_first_sample_to_the_last() -> None:
    """The job is there before its cards work and after, and its intervals begin at 0."""
    rows = [*steady(2, 30, RESTING), *steady(2, 60, WORKING, 30), *steady(2, 200, RESTING, 90)]
    found = attributed(rows)
    assert {len(now) for now in found} == {1}
    assert {now[0].kind for now in found} == {JobKind.UNATTRIBUTED}
    assert {len(now[0].cards) for now in found} == {2}
    state = initial_state()
    for tick in ticks(rows):
        state = step(state, tick, Settings())
    (intervals,) = state.intervals.values()
    assert (intervals[0].t0, intervals[-1].t1) == (0.0, 289.0)
    assert state.view is not None
    assert state.view.jobs[0].gpus_lost == 0


def test_cards_that_never_work_leave_when_others_do() -> None:
    """While nothing works all cards are the job's; then those that work, and they stay through a pause."""
    rows = []
    for t in range(120):
        for gpu in range(4):
            works = gpu < 2 and 20 <= t < 60
            rows.append(Row(float(t), gpu, WORKING if works else RESTING))
    sizes = [len(now[0].cards) for now in attributed(rows)]
    assert sizes[5] == 4
    assert sizes[45] == sizes[119] == 2


def test_power_alone_tells_work_from_rest() -> None:
    """With no column but power, a card at half its limit works and one at a tenth rests; a limit need not be known."""
    for watts in ({"power_watts": 300.0, "power_limit_watts": 600.0}, {"power_watts": 300.0}):
        rows = []
        for t in range(40):
            rows += [Row(float(t), 0, watts), Row(float(t), 1, {**watts, "power_watts": 60.0})]
        found = attributed(rows)
        assert [card.uuid for card in found[-1][0].cards] == ["GPU-log-0"]


def test_a_card_whose_rows_end_leaves_the_job() -> None:
    """A card of an earlier run in the file is not the later run's; one missing row is nothing."""
    rows = [Row(float(t), 0, WORKING) for t in range(60) if t != 40]
    rows += [Row(float(t), 1, WORKING) for t in range(60, 220)]
    found = attributed(rows)
    cards = [tuple(int(card.uuid[-1]) for card in now[0].cards) for now in found]
    assert set(cards[:60]) == {(0,)}
    assert cards[100] == (0, 1)
    assert cards[-1] == (1,)
    assert {now[0].first_seen_s for now in found} == {0.0}
