"""A driver that is absent, goes away, comes back, loses a card, or answers nonsense: in simulated time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest

from gpumon.hardware.reader import XidEvent
from gpumon.model.fault import Fault
from gpumon.model.samples import Tick
from gpumon.model.settings import SamplingSettings
from gpumon.sampling.simulated_time import ticks
from tests.sampling.scripted import Script, ScriptedHost, ScriptedNode, card, steady


def two_cards() -> ScriptedNode:
    """Return a node of two busy cards."""
    return ScriptedNode([card(0), card(1)], [Script(rx=steady(1e9), tx=steady(1e9)) for _ in range(2)])


def watch(node: ScriptedNode, seconds: int, before: dict[int, Callable[[], None]]) -> list[Tick]:
    """Return the ticks, calling what is planned before each tick of that number is read."""
    run = ticks(node, ScriptedHost(), SamplingSettings(), seconds)
    seen = []
    for number in range(seconds):
        before.get(number, lambda: None)()
        seen.append(next(run))
    run.close()
    return seen


def all_answer(node: ScriptedNode, fault: Fault | None, opening: Fault | None) -> Callable[[], None]:
    """Return an action after which every call of every card, and opening, answers so."""

    def act() -> None:
        node.opening = opening
        for script in node.scripts.values():
            script.fault = fault

    return act


def ups(seen: list[Tick], index: int = 0) -> list[bool]:
    """Return whether the card was up in each tick."""
    return [bool(tick.card_ticks) and tick.card_ticks[index].up for tick in seen]


def test_starts_without_a_driver_and_comes_up_when_it_appears() -> None:
    """Ticks come from the first second on with the reason; two seconds after the driver appears the cards are there."""
    node = two_cards()
    node.opening = Fault.DRIVER_NOT_LOADED
    seen = watch(node, 60, {50: all_answer(node, None, None)})
    assert [tick.nvml_up for tick in seen[:50]] == [False] * 50
    assert {tick.nvml_fault for tick in seen[:50]} == {Fault.DRIVER_NOT_LOADED}
    assert all(ups(seen[53:]))
    assert node.open_tries < 30
    assert [tick.mono_s for tick in seen] == [float(number) for number in range(1, 61)]


def test_a_driver_restart_is_one_cycle_with_fresh_readers() -> None:
    """Case lost-driver-restart: one close and one open, cards withdrawn meanwhile, present two ticks later."""
    node = two_cards()
    seen = watch(
        node,
        40,
        {
            20: lambda: node.scripts[node.cards[0].identity.uuid].faults.update(quick=Fault.UNKNOWN),
            21: all_answer(node, Fault.DRIVER_NOT_LOADED, Fault.DRIVER_NOT_LOADED),
            26: lambda: [all_answer(node, None, None)(), node.scripts[node.cards[0].identity.uuid].faults.clear()],
        },
    )
    assert (node.opens, node.closes) == (2, 2)
    assert ups(seen[:20], 1) == [True] * 20
    assert not any(ups(seen[22:26], 1))
    assert all(ups(seen[28:], 0) + ups(seen[28:], 1))
    kinds = [event.kind for tick in seen for event in tick.events]
    assert kinds == ["driver_gone", "driver_back"]
    slots = [slot for tick in seen for slot in tick.card_ticks[0].pcie.rx_bytes.tolist()]
    assert max(slots) < 1e9  # nothing of the time without a driver is booked when counters start over


def test_counts_of_the_sampler_never_fall() -> None:
    """The sampler's own counters go on over a driver restart."""
    node = two_cards()
    seen = watch(
        node,
        40,
        {15: all_answer(node, Fault.DRIVER_NOT_LOADED, Fault.DRIVER_NOT_LOADED), 25: all_answer(node, None, None)},
    )
    for name in seen[-1].sampler.samples:
        counts = [tick.sampler.samples.get(name, 0) for tick in seen]
        assert counts == sorted(counts)


def test_a_dead_backend_withdraws_its_values_and_its_age_grows() -> None:
    """Case lost-stale-cache: every call fails from tick 10 to 400; gone by tick 13, aged by the second, back by 405."""
    node = two_cards()
    seen = watch(node, 420, {10: all_answer(node, Fault.UNKNOWN, Fault.UNKNOWN), 401: all_answer(node, None, None)})
    assert not any(ups(seen[13:401]))
    ages = [tick.mono_s - tick.card_ticks[0].last_sample_s for tick in seen[13:401]]
    assert all(later - sooner == pytest.approx(1.0) for sooner, later in itertools.pairwise(ages))
    assert all(ups(seen[405:]))
    assert all(tick.card_ticks[0].readings == {} for tick in seen[13:401])


def test_a_lost_card_keeps_its_identity_and_the_others_go_on() -> None:
    """A card that falls off the bus stays in every tick under its UUID; it is said once, and again when it returns."""
    node = two_cards()
    lost = node.cards[0].identity.uuid
    seen = watch(
        node,
        120,
        {
            10: lambda: setattr(node.scripts[lost], "fault", Fault.LOST),
            60: lambda: setattr(node.scripts[lost], "fault", None),
        },
    )
    assert [tick.card_ticks[0].uuid for tick in seen] == [lost] * 120
    assert {tick.card_ticks[0].fault for tick in seen[12:60]} == {Fault.LOST}
    assert all(ups(seen[2:], 1))
    events = [(event.kind, event.uuid) for tick in seen for event in tick.events]
    assert events == [("lost", lost), ("returned", lost)]
    assert (node.opens, node.closes) == (1, 1)


def test_a_lost_card_is_asked_once_a_second_at_most() -> None:
    """A card that answers LOST is no longer polled for traffic."""
    node = two_cards()
    lost = node.cards[0].identity.uuid
    counts: list[int] = []

    def lose() -> None:
        node.scripts[lost].fault = Fault.LOST

    def note() -> None:
        counts.append(sum(node.calls[lost].values()))

    watch(node, 50, {10: lose, 20: note, 49: note})
    assert counts[1] - counts[0] <= 30


def test_a_card_that_a_new_driver_does_not_list_is_kept_as_lost() -> None:
    """After a restart with one card fewer, the missing card is still in the tick, marked lost."""
    node = two_cards()
    gone = node.cards[0]

    def remove() -> None:
        node.cards.remove(gone)
        all_answer(node, None, None)()

    seen = watch(node, 40, {10: all_answer(node, Fault.DRIVER_NOT_LOADED, Fault.DRIVER_NOT_LOADED), 15: remove})
    assert [c.identity.uuid for c in seen[-1].cards] == [c.identity.uuid for c in seen[5].cards]
    assert seen[-1].card_ticks[0].fault is Fault.LOST
    assert seen[-1].card_ticks[1].up


def test_one_failed_call_does_not_take_a_card_down() -> None:
    """A single failed read among good ones leaves the card up."""
    node = two_cards()
    script = node.scripts[node.cards[0].identity.uuid]
    seen = watch(node, 20, {10: lambda: script.faults.update(quick=Fault.UNKNOWN), 11: script.faults.clear})
    assert all(ups(seen[1:]))


def test_what_a_card_cannot_do_costs_only_that() -> None:
    """A card whose rings, processes and slow reads are refused still delivers its traffic and quick readings."""
    node = two_cards()
    refused = dict.fromkeys(("rings", "processes", "rare"), Fault.NOT_SUPPORTED)
    node.scripts[node.cards[0].identity.uuid].faults.update(refused)
    tick = watch(node, 20, {})[-1].card_ticks[0]
    assert tick.up
    assert tick.processes is None
    assert tick.readings["utilization_ratio"] == 1.0
    assert len(tick.pcie.t1_s) >= 16


def test_xid_events_reach_the_tick_once() -> None:
    """An Xid that the driver reports is an event of one tick, with its card and number."""
    node = two_cards()
    uuid = node.cards[1].identity.uuid
    seen = watch(node, 10, {5: lambda: node.xids.append(XidEvent(5.5, uuid, 31))})
    events = [(tick.seq, event.kind, event.uuid, event.code) for tick in seen for event in tick.events]
    assert events == [(5, "xid", uuid, 31)]


def test_the_host_is_told_the_pids_the_driver_lists() -> None:
    """The process reader gets the union of all cards' lists."""
    node, host = two_cards(), ScriptedHost()
    list(ticks(node, host, SamplingSettings(), 10))
    assert host.pids[-1] == frozenset({4242})


def test_the_same_run_twice_is_the_same() -> None:
    """Simulated time repeats itself to the last bit."""

    def once() -> list[tuple[float, bytes]]:
        seen = ticks(two_cards(), ScriptedHost(), SamplingSettings(), 20)
        return [(tick.mono_s, tick.card_ticks[0].pcie.rx_bytes.tobytes()) for tick in seen]

    assert once() == once()


def test_driver_time_stays_within_its_budget() -> None:
    """Eight busy gen5 x16 cards at published call costs stay at 5 % of each second, mostly observed."""
    cost_s = {"counters": 0.3e-3, "quick": 50e-6, "rings": 0.1e-3, "processes": 4.5e-3, "rare": 2e-3}
    cards = [card(index) for index in range(8)]
    node = ScriptedNode(cards, [Script(rx=steady(40e9), tx=steady(40e9)) for _ in cards])
    node.driver_s = lambda: sum(cost_s[name] * n for calls in node.calls.values() for name, n in calls.items())
    seen = list(ticks(node, ScriptedHost(), SamplingSettings(), 120))
    spent_s = seen[-1].sampler.driver_seconds - seen[59].sampler.driver_seconds
    slots = [tick.card_ticks[0].pcie for tick in seen[60:]]
    assert spent_s / 60 <= 0.05
    assert sum(float((s.t1_s - s.t0_s).sum()) for s in slots) / 60 > 0.85
    assert not math.isnan(seen[-1].card_ticks[0].last_sample_s)
