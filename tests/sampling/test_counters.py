"""Byte counters: what becomes a slot, what counts as unobserved, and how often they are read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from gpumon.hardware.reader import CounterSample
from gpumon.model.card import LinkSource
from gpumon.model.fault import Fault
from gpumon.model.samples import CardTick, Tick
from gpumon.model.settings import SamplingSettings
from gpumon.sampling.budget import Budget
from gpumon.sampling.card_log import CardAccess, CardLog
from gpumon.sampling.clocks import CountingClock
from gpumon.sampling.counter_task import CounterTask
from gpumon.sampling.link_pace import link_pace
from gpumon.sampling.simulated_time import ticks
from tests.sampling.scripted import LANE, Script, ScriptedCard, ScriptedHost, ScriptedNode, card, nothing, steady

GEN5_X16 = 63.0e9
TURN = 2**32


def watched(
    script: Script, *, bits: int = 32, nvlink: LinkSource = LinkSource.NONE
) -> tuple[CounterTask, CardLog, CountingClock]:
    """Return the counter task of one gen5 x16 card, its log and its clock."""
    clock, log = CountingClock(), CardLog()
    reader = ScriptedCard(card(bits=bits, nvlink=nvlink), script, clock, {})
    budget = Budget(SamplingSettings(), 0, windows_overlap=True)
    return CounterTask(CardAccess(reader, clock, log, budget), link_pace(GEN5_X16, bits), 0.0), log, clock


def run_at(task: CounterTask, clock: CountingClock, *times_s: float) -> None:
    """Run the task at given times, whatever it had planned."""
    for time_s in times_s:
        clock.wait_until(time_s)
        task.run(clock.mono_s())


def test_bytes_are_right_across_the_turn_of_a_32_bit_counter() -> None:
    """A counter that comes round between two reads gives the bytes that crossed."""
    task, log, clock = watched(Script(rx=steady(50e9), tx=steady(10e9), counter_offset=TURN - 1000))
    run_at(task, clock, 0.0, 0.05, 0.1)
    assert [(row[2], row[3]) for row in log.pcie] == [(2.5e9, 0.5e9)] * 2


def test_a_gap_that_may_hide_a_turn_is_unobserved() -> None:
    """At gen5 x16 a gap of 62 ms, 0.91 of a turn, makes no slot and is counted; one of 61 ms makes one."""
    task, log, clock = watched(Script(rx=steady(30e9), tx=steady(30e9)))
    run_at(task, clock, 0.0, 0.061, 0.061 + 0.062)
    assert [row[:2] for row in log.pcie] == [(0.0, 0.061)]
    assert log.sources["counter"].missed == 1


def test_a_64_bit_counter_has_no_gap_too_long() -> None:
    """A counter of 64 bits is believed over any gap."""
    task, log, clock = watched(Script(rx=steady(30e9), tx=nothing), bits=64)
    run_at(task, clock, 0.0, 5.0)
    assert [(row[2], row[3]) for row in log.pcie] == [(150e9, 0.0)]


def test_more_than_the_link_can_carry_is_a_restart_and_rejected() -> None:
    """A counter that was reset looks like 70 GB/s on a link of 63: no slot, and the reject count rises."""
    start = 4_000_000_000
    total: list[float] = [start]
    task, log, clock = watched(Script(rx=lambda _: total[0], tx=nothing, counter_offset=0))
    run_at(task, clock, 0.0)
    total[0] = 0.0  # delta modulo 2^32: 295 MB in 4 ms
    run_at(task, clock, 0.004)
    assert log.pcie == []
    assert log.rejected == 1


def test_one_failed_direction_leaves_the_other() -> None:
    """When only one counter could be read, its slot stands and the other direction is NaN."""
    script = Script(rx=steady(1e9), tx=steady(2e9))
    task, log, clock = watched(script)
    run_at(task, clock, 0.0)
    reader = task._reader
    whole: Callable[[], CounterSample | Fault] = reader.counters

    def without_rx() -> CounterSample | Fault:
        sample = whole()
        assert isinstance(sample, CounterSample)
        return CounterSample(sample.mono_s, None, sample.tx, 1.0)

    reader.counters = without_rx  # type: ignore[method-assign]
    run_at(task, clock, 0.05)
    assert math.isnan(log.pcie[0][2])
    assert log.pcie[0][3] == pytest.approx(1e8)


def test_nvlink_counters_that_restart_make_no_slot() -> None:
    """A cumulative NVLink count that falls is a restart, not traffic."""
    counted: list[float] = [1e12]
    task, log, clock = watched(Script(rx=lambda _: counted[0], tx=steady(1e9)), nvlink=LinkSource.FIELD)
    run_at(task, clock, 0.0)
    counted[0] = 5e9
    run_at(task, clock, 0.05)
    counted[0] = 6e9
    run_at(task, clock, 0.1)
    assert [row[2] for row in log.nvlink] == [1e9]


@pytest.mark.parametrize(
    ("generation", "width", "busy_s", "quiet_s"),
    [(3, 4, 0.05, 0.1), (4, 16, 0.05, 0.1), (5, 16, 0.05, 0.058), (6, 16, 0.0266, 0.0302)],
)
def test_the_period_follows_the_link(generation: int, width: int, busy_s: float, quiet_s: float) -> None:
    """Periods stay below 0.9 of the time in which the link's counters come round."""
    line_rate = {**LANE, 6: 7.5625e9}[generation] * width
    pace = link_pace(line_rate, 32)
    assert (pace.busy_period_s, pace.quiet_period_s) == pytest.approx((busy_s, quiet_s), rel=0.01)
    assert pace.quiet_period_s < pace.longest_gap_s == pytest.approx(0.9 * TURN / line_rate)


def test_a_quiet_link_is_read_less_often_and_a_loud_one_at_once() -> None:
    """After two seconds below a tenth of the line rate the period grows; one loud reading brings the short one back."""
    loud_from_s = 5.0
    task, log, clock = watched(Script(rx=lambda t: max(0.0, t - loud_from_s) * 50e9, tx=nothing))
    while task.due_s < 8.0:
        clock.wait_until(task.due_s)
        task.run(clock.mono_s())
    lengths = [(row[1], row[1] - row[0]) for row in log.pcie]
    assert all(length == pytest.approx(0.05) for end_s, length in lengths if end_s < 2.0)
    assert all(length == pytest.approx(0.058, rel=0.01) for end_s, length in lengths if 2.2 < end_s < 5.0)
    assert all(length <= 0.051 for end_s, length in lengths if end_s > 5.15)


def test_a_poller_that_was_late_leaves_room_for_it() -> None:
    """On a gen4 x16 link a poller held up by 80 ms a second loses a few gaps and from then on reads often enough."""
    late_at = itertools.count(1.2)
    next_late = [next(late_at)]

    def stall_s(now_s: float) -> float:
        if now_s < next_late[0]:
            return 0.0
        next_late[0] = next(late_at)
        return 0.08

    node = ScriptedNode([card()], [Script(rx=steady(20e9), tx=nothing, stall_s=stall_s)], generation=4, width=16)
    seen = list(ticks(node, ScriptedHost(), SamplingSettings(), 30))
    observed = [float((t.card_ticks[0].pcie.t1_s - t.card_ticks[0].pcie.t0_s).sum()) for t in seen]
    assert observed[1] < 0.9
    assert min(observed[6:]) > 0.95


def column(seen: list[Tick], pick: Callable[[CardTick], np.ndarray]) -> np.ndarray:
    """Return one array over all ticks of the first card."""
    return np.concatenate([pick(tick.card_ticks[0]) for tick in seen])


def test_an_idle_card_is_read_once_a_second_and_counts_as_observed() -> None:
    """A card without processes gets one counter read a second, and its silence is known, not missing."""
    script = Script(processes=(), utilization=0.0, used_bytes=1e7)
    node = ScriptedNode([card()], [script])
    seen = list(ticks(node, ScriptedHost(), SamplingSettings(), 40))
    calls = dict(node.calls[card().identity.uuid])
    slots = column(seen[20:], lambda tick: tick.pcie.t1_s - tick.pcie.t0_s)
    assert slots.sum() == pytest.approx(20.0, abs=1.1)
    assert len(slots) == pytest.approx(20, abs=1)
    assert calls["processes"] < 10


def test_work_is_noticed_within_two_seconds() -> None:
    """A process that appears on an idle card has its card watched closely within 2 s."""
    script = Script(processes=(), utilization=0.0, used_bytes=1e7)
    node = ScriptedNode([card()], [script])
    counts = []
    for number, tick in enumerate(ticks(node, ScriptedHost(), SamplingSettings(), 40)):
        counts.append(len(tick.card_ticks[0].pcie.t1_s))
        if number == 29:
            script.used_bytes = 6e8  # a context
    assert max(counts[15:30]) <= 2
    assert counts[32] >= 15


def test_without_the_budget_for_gapless_reading_runs_alternate_with_pauses() -> None:
    """When driver time is short, reads stay closer than a turn in runs, and what lies between is unobserved."""
    node = ScriptedNode([card()], [Script(rx=steady(40e9), tx=steady(40e9))])
    node.driver_s = lambda: 0.006 * node.calls[card().identity.uuid].get("counters", 0)
    seen = list(ticks(node, ScriptedHost(), SamplingSettings(), 120))
    late = seen[60:]
    spent_s = late[-1].sampler.driver_seconds - late[0].sampler.driver_seconds
    lengths = column(late, lambda tick: tick.pcie.t1_s - tick.pcie.t0_s)
    rates = column(late, lambda tick: tick.pcie.rx_bytes) / lengths
    assert spent_s / 59 <= 0.05
    assert 0.2 < lengths.sum() / 60 < 0.6
    assert rates == pytest.approx(np.full(len(rates), 40e9), rel=1e-6)
