"""Cards that share a thread: which reads are made at one waking."""

from __future__ import annotations

import pytest

from gpumon.model.card import LinkSource
from gpumon.model.settings import SamplingSettings
from gpumon.sampling.budget import Budget
from gpumon.sampling.card_poller import CardPoller
from gpumon.sampling.clocks import CountingClock
from gpumon.sampling.crew import Crew
from tests.sampling.scripted import LANE, Script, ScriptedCard, card, steady

SECONDS = 20
GEN5_X16 = 16 * LANE[5]


def crew_of(source: LinkSource, cards: int = 2) -> tuple[Crew, CountingClock]:
    """Return busy cards in the hands of one thread."""
    clock = CountingClock()
    budget = Budget(SamplingSettings(), 0, windows_overlap=True)
    pollers = [
        CardPoller(
            probed := card(index, source),
            reader=ScriptedCard(probed, Script(rx=steady(2e10), tx=steady(2e10)), clock, {}),
            clock=clock,
            budget=budget,
            tree_line_rate=GEN5_X16,
            start_s=0.0,
            phase_s=0.3 + 0.4 * index / cards,
            share=index / cards,
        )
        for index in range(cards)
    ]
    return Crew(pollers, clock, lambda: 0.0), clock


def woken(crew: Crew, clock: CountingClock) -> list[float]:
    """Return when the thread woke in the time watched."""
    times_s = []
    while crew.due_s < SECONDS:
        clock.wait_until(crew.due_s)
        times_s.append(clock.mono_s())
        crew.run()
    return times_s


def test_slow_reads_share_the_waking_of_fast_ones() -> None:
    """Beside 20 counter reads a second, quick and ring reads of two cards wake the thread no more often."""
    crew, clock = crew_of(LinkSource.COUNTER)
    times_s = woken(crew, clock)
    counts = crew.pollers[0].log.sources
    assert len(times_s) <= 1.02 * counts["counter"].samples
    assert counts["quick"].samples == pytest.approx(SECONDS, abs=1)
    assert counts["ring"].samples == pytest.approx(SECONDS, abs=1)
    assert sum(source.missed for source in counts.values()) == 0


def test_slow_reads_alone_come_when_they_are_due() -> None:
    """Where there is no traffic to read, each slow read is made once in its second and not all of them at once."""
    crew, clock = crew_of(LinkSource.NONE)
    times_s = woken(crew, clock)
    assert crew.pollers[0].log.sources["quick"].samples == pytest.approx(SECONDS, abs=1)
    assert len(times_s) > 2 * SECONDS
