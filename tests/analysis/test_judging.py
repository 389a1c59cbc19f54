"""How often a job is looked at: less while nothing changes, and at the usual pace again with the first sign of it."""

from __future__ import annotations

from gpumon import analysis
from gpumon.model.job import Layout
from gpumon.model.settings import Settings
from tests.analysis.scripted import Phase, Script, card, card_tick, job, tick_of, trace

COMPUTES = Script((Phase(0.5, 520.0),))
EXCHANGES = Script((Phase(0.4, 450.0), Phase(0.6, 170.0, 50e9, 50e9, memory=0.06)))
CHANGES_S = 130


def judgements(seconds: int) -> list[int]:
    """Return the seconds in which a job of two cards was judged; it computes first and exchanges from CHANGES_S on."""
    cards = (card(0), card(1))
    runs = job(2, Layout())
    traces = {script: trace(script, seconds) for script in (COMPUTES, EXCHANGES)}
    memory = analysis.initial_memory()
    before, found = None, []
    for second in range(seconds):
        script = COMPUTES if second < CHANGES_S else EXCHANGES
        shown = tuple(card_tick(index, traces[script], script, second) for index in range(2))
        memory, _ = analysis.analyse(memory, tick_of(second, cards, shown), (runs,), Settings())
        case = memory.jobs[runs.gpu_job].case
        if case is not before:
            before = case
            found.append(second)
    return found


def test_a_job_that_does_not_change_is_judged_half_as_often() -> None:
    """A young job is judged every 4 s, one that was alike for a minute every 8 s, and every 4 s once it changes."""
    times = judgements(CHANGES_S + 30)
    young = [t for t in times if 20 <= t < 60]
    calm = [t for t in times if 80 <= t < 120]
    changed = [t for t in times if CHANGES_S + 2 <= t < CHANGES_S + 26]
    assert (len(young), len(calm), len(changed)) == (10, 5, 6)
