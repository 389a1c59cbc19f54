"""The card that the others wait for: which, why, what it costs; and who is not named."""

from __future__ import annotations

import pytest

from gpumon.model.job import Layout
from gpumon.model.verdict import Straggler
from tests.analysis.scripted import CEILING, Phase, Script, judged

WORK, WAIT, EXCHANGE, GAP = 500.0, 120.0, 170.0, 85.0
RATE = 0.4 * CEILING
DDP = Layout(framework="torchrun", asked="ddp", world_size=4)
STEP_S = 1.0


def worker(late_s: float = 0.0, slower_s: float = 0.0, **seen: object) -> Script:
    """Return a card that works most of a step, is late or slower by so much, waits for the rest, and exchanges."""
    work_s = 0.6 + slower_s
    phases = [
        Phase(late_s, GAP, kernel=0.0, memory=0.0),
        Phase(work_s, WORK),
        Phase(0.8 - late_s - work_s, WAIT, memory=0.02),
        Phase(0.2, EXCHANGE, RATE, RATE, memory=0.05),
    ]
    return Script(tuple(phase for phase in phases if phase.seconds > 1e-9), **seen)  # type: ignore[arg-type]


def named(scripts: list[Script], **options: object) -> tuple[Straggler, ...]:
    return judged(scripts, layout=DDP, **options).stragglers


@pytest.mark.parametrize("late_s", [0.15, 0.2])
def test_a_card_that_its_host_makes_late_is_named(late_s: float) -> None:
    """A seventh of each step lost on one card's host is seen as its gap while the others wait with quiet links."""
    (found,) = named([worker(), worker(late_s=late_s), worker(), worker()])
    assert (found.gpu, found.cause) == (1, "host")
    assert found.cost_ratio == pytest.approx(late_s / STEP_S, abs=0.03)


def test_a_card_that_is_late_by_a_twentieth_is_not_named() -> None:
    """Differences below 8 % of the step are normal between cards."""
    assert named([worker(), worker(late_s=0.05), worker(), worker()]) == ()


def test_cards_that_are_late_alike_are_not_named() -> None:
    """Where all cards wait for their batches none of them is odd."""
    assert named([worker(late_s=0.15), worker(late_s=0.2), worker(late_s=0.17), worker(late_s=0.2)]) == ()


def test_a_slower_card_is_named_with_its_limit() -> None:
    """A card that works a fifth of the step longer under a lower limit: power is why."""
    limited = worker(slower_s=0.19, limit=400.0, throttle=frozenset({"sw_power_cap"}), clock_ratio=0.7)
    (found,) = named([worker(), worker(), limited, worker()])
    assert (found.gpu, found.cause) == (2, "power")
    assert found.cost_ratio == pytest.approx(0.19, abs=0.04)


def test_a_hot_card_is_named_with_its_heat() -> None:
    """The same with thermal reasons: heat is why."""
    hot = worker(slower_s=0.19, throttle=frozenset({"sw_thermal"}), clock_ratio=0.7, temperature=90.0)
    (found,) = named([hot, worker(), worker(), worker()])
    assert (found.gpu, found.cause) == (0, "thermal")


def test_a_slower_card_without_a_sign_is_unknown() -> None:
    """At equal clocks, limits and temperatures nothing says why."""
    (found,) = named([worker(), worker(slower_s=0.19), worker(), worker()])
    assert (found.gpu, found.cause) == (1, "unknown")


def test_a_card_at_half_its_clock_is_named_though_it_draws_little() -> None:
    """What a hot card draws at work looks like its waiting; its clock says that it works while the others wait."""
    slowed = Script(
        (Phase(0.8, 190.0), Phase(0.2, EXCHANGE, RATE, RATE, memory=0.05)),
        throttle=frozenset({"sw_thermal"}),
        clock_ratio=0.5,
        temperature=90.0,
    )
    quick = Script((Phase(0.4, WORK), Phase(0.4, WAIT, memory=0.02), Phase(0.2, EXCHANGE, RATE, RATE, memory=0.05)))
    (found,) = named([quick, quick, slowed, quick])
    assert (found.gpu, found.cause) == (2, "thermal")
    assert found.cost_ratio == pytest.approx(0.4, abs=0.1)


def test_a_slower_card_is_named_where_transfers_hide_behind_work() -> None:
    """The others wait for it with busy links: the time before the first transfer is what it makes longer."""
    late = Script((Phase(0.45, WORK), Phase(0.5, WORK, RATE, RATE, memory=0.05), Phase(0.05, WAIT, memory=0.02)))
    early = Script(
        (Phase(0.25, WORK), Phase(0.2, WAIT), Phase(0.25, WORK, RATE, RATE), Phase(0.3, EXCHANGE, RATE, RATE))
    )
    (found,) = named([early, early, late, early])
    assert found.gpu == 2


def test_no_name_without_several_processes() -> None:
    """One process that drives all cards has no rank that is late."""
    assert named([worker(), worker(late_s=0.15), worker(), worker()], processes=1) == ()


def test_a_late_card_is_named_without_host_signals() -> None:
    """Levels of power show the waiting; the host's processes need not be readable."""
    (found,) = named([worker(), worker(late_s=0.19), worker(), worker()], host=None)
    assert found.gpu == 1


def test_the_later_of_two_cards_is_named_by_what_it_is_later() -> None:
    """Two cards whose batches are late by turns: what one is late beyond the other is the least that it costs."""
    (found,) = named([worker(late_s=0.05), worker(late_s=0.15)])
    assert (found.gpu, found.cause) == (1, "host")
    assert found.cost_ratio == pytest.approx(0.125, abs=0.04)


def test_a_card_that_was_late_for_long_is_named_at_once() -> None:
    """Gaps over twenty seconds are not told by chance: the first judgement of so many names the card."""
    (found,) = named([worker(), worker(late_s=0.19), worker(), worker()], seconds=28)
    assert found.gpu == 1


def test_ranks_of_equal_parts_wait_for_the_late_ones_whatever_they_draw() -> None:
    """Where waiting draws as much as work only the time of the latest rank tells how long the same work can take. Two
    that are late alike cost at least half of it each, at most all of it."""
    late = Script((Phase(0.6, GAP, kernel=0.0, memory=0.0), Phase(0.4, WORK)))
    quick = Script((Phase(1.0, WORK),))
    found = named([late, quick, late, quick])
    assert {(one.gpu, one.cause) for one in found} == {(0, "host"), (2, "host")}
    assert all(0.3 < one.cost_ratio < 0.6 for one in found)


def test_a_card_is_not_named_for_what_the_next_one_is_late_as_well() -> None:
    """Of three late cards none costs what it is late: without it the job would wait for the next one."""
    assert named([worker(late_s=0.17), worker(late_s=0.15), worker(late_s=0.14)] + [worker()] * 5) == ()
