"""When a job is judged: how often, and what happens when one of several cannot be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from gpumon import analysis
from gpumon.analysis import cards as card_memories
from gpumon.analysis import judging
from gpumon.model.job import Layout
from gpumon.model.settings import Settings
from gpumon.model.verdict import JobClass
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


def two_jobs(seconds: int, told: list[str]) -> analysis.Analysis:
    """Return what a node means after some seconds on which two jobs compute, a card each; `told`: what failed."""
    nodes = (card(0), card(1))
    first = job(1, Layout())
    second = dataclasses.replace(first, gpu_job="session:2", cards=(dataclasses.replace(first.cards[0], uuid="GPU-1"),))
    shown = trace(COMPUTES, seconds)
    memory, found = analysis.initial_memory(), analysis.Analysis()
    for at in range(seconds):
        tick = tick_of(at, nodes, tuple(card_tick(index, shown, COMPUTES, at) for index in range(2)))
        memory, found = analysis.analyse(memory, tick, (first, second), Settings(), told.append)
    return found


def failing(function: Callable[..., Any], fails: Callable[[Any], bool]) -> Callable[..., Any]:
    """Return the function as it is but for the subjects, its second arguments, at which it meets an error."""

    def meets_error(past: object, subject: object, *rest: object, **named: object) -> Any:
        if fails(subject):
            raise ZeroDivisionError
        return function(past, subject, *rest, **named)

    return meets_error


def test_a_job_that_cannot_be_judged_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job meets an error at each tick: it is told and stays unknown, the other gets its verdict."""
    monkeypatch.setattr(judging, "step", failing(judging.step, lambda job: job.gpu_job == "session:2"))
    told: list[str] = []
    found = two_jobs(30, told)
    assert set(told) == {"session:2"}
    assert found.verdicts["session:1"].job_class is JobClass.COMPUTE
    assert found.verdicts["session:2"].job_class is JobClass.UNKNOWN


def test_a_card_that_cannot_be_read_into_memory_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One card meets an error at each tick: it is told, and the job of the other gets its verdict."""
    extend = failing(card_memories.extend, lambda card: card.identity.uuid == "GPU-1")
    monkeypatch.setattr(card_memories, "extend", extend)
    told: list[str] = []
    found = two_jobs(30, told)
    assert set(told) == {"GPU-1"}
    assert found.verdicts["session:1"].job_class is JobClass.COMPUTE


def test_without_somebody_to_tell_an_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay or a benchmark never passes over an error."""
    monkeypatch.setattr(judging, "step", None)
    with pytest.raises(TypeError):
        judgements(2)
