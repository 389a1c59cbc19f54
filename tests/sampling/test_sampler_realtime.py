"""The sampler's threads in real time: hung cards, release, stop, late ticks, a wall clock that jumps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from gpumon.model.card import LinkSource
from gpumon.model.fault import Fault
from gpumon.model.samples import Tick
from gpumon.model.settings import SamplingSettings
from gpumon.sampling import Sampler
from gpumon.sampling.budget import windows_overlap
from gpumon.sampling.clocks import RealClock
from tests.sampling.scripted import Script, ScriptedCard, ScriptedHost, ScriptedNode, card, nothing, steady

pytestmark = pytest.mark.realtime


class Hang:
    """A call that does not come back until it is let go."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.on = False
        self.inside = 0
        self._gate = threading.Event()

    def __call__(self, name: str) -> None:
        if self.on and name == self._name:
            self.inside += 1
            self._gate.wait(60.0)
            self.inside -= 1

    def let_go(self) -> None:
        """Let the hung call return and hang no more."""
        self.on = False
        self._gate.set()


Build = Callable[[ScriptedNode], Sampler]


@pytest.fixture
def build() -> Iterator[Build]:
    """Make samplers that are stopped at the end whatever happens."""
    made: list[Sampler] = []

    def make(node: ScriptedNode) -> Sampler:
        sampler = Sampler(node, ScriptedHost(), SamplingSettings())
        made.append(sampler)
        sampler.start()
        return sampler

    yield make
    for sampler in made:
        sampler.stop()


def node_of(count: int, *, hang: Hang | None = None) -> ScriptedNode:
    """Return a node of busy cards; calls of card 0 may hang."""
    scripts = [Script(rx=steady(1e9), tx=nothing, hook=hang if index == 0 else None) for index in range(count)]
    return ScriptedNode([card(index) for index in range(count)], scripts)


def next_ticks(sampler: Sampler, count: int) -> list[Tick]:
    """Return so many ticks."""
    seen = []
    for _ in range(count):
        tick = sampler.next_tick()
        assert tick is not None
        seen.append(tick)
    return seen


def test_one_hung_card_of_eight_costs_the_others_no_tick(build: Build) -> None:
    """Case slow-stuck-call: the hung card is withdrawn and aged, the rest stay whole, and it comes back by itself."""
    hang = Hang("quick")
    node = node_of(8, hang=hang)
    sampler = build(node)
    next_ticks(sampler, 2)
    threads = threading.active_count()
    hang.on = True
    started_s = time.monotonic()
    seen = next_ticks(sampler, 6)
    assert time.monotonic() - started_s < 6.3
    assert hang.inside == 1
    assert threading.active_count() == threads + 1  # the seven's, beside the one that hangs
    assert all(tick.card_ticks[index].up for tick in seen for index in range(1, 8))
    assert min(len(tick.card_ticks[7].pcie.t1_s) for tick in seen) >= 14
    assert (seen[-1].card_ticks[0].up, seen[-1].card_ticks[0].fault) == (False, Fault.TIMEOUT)
    assert seen[-1].mono_s - seen[-1].card_ticks[0].last_sample_s > 3.0
    hang.let_go()
    assert next_ticks(sampler, 2)[-1].card_ticks[0].up
    assert (node.opens, node.closes) == (1, 0)


def test_stop_leaves_a_hung_call_behind_and_does_not_close_on_it(build: Build) -> None:
    """With a call stuck in the driver, stop returns within 2 s and the interface stays open."""
    hang = Hang("quick")
    node = node_of(2, hang=hang)
    sampler = build(node)
    next_ticks(sampler, 1)
    hang.on = True
    next_ticks(sampler, 2)
    started_s = time.monotonic()
    sampler.stop()
    assert time.monotonic() - started_s <= 2.1
    assert node.closes == 0
    assert sampler.next_tick() is None
    hang.let_go()


def test_stop_drains_the_pollers_and_closes_the_driver(build: Build) -> None:
    """Without trouble, stop closes the interface well within 2 s, and no read comes after it."""
    node = node_of(4)
    sampler = build(node)
    next_ticks(sampler, 1)
    started_s = time.monotonic()
    sampler.stop()
    assert time.monotonic() - started_s < 1.5
    assert (node.opens, node.closes) == (1, 1)
    calls = sum(sum(counted.values()) for counted in node.calls.values())
    time.sleep(0.2)
    assert sum(sum(counted.values()) for counted in node.calls.values()) == calls


def test_release_lets_go_within_two_seconds_and_takes_up_again(build: Build) -> None:
    """A release closes the driver, ticks go on without it, and after its time the cards are back."""
    node = node_of(2)
    sampler = build(node)
    next_ticks(sampler, 1)
    started_s = time.monotonic()
    assert sampler.release(2.0)
    assert time.monotonic() - started_s < 2.0
    assert node.closes == 1
    tick = next_ticks(sampler, 1)[0]
    assert not tick.nvml_up
    assert [card_tick.up for card_tick in tick.card_ticks] == [False, False]
    later = next_ticks(sampler, 4)
    assert later[-1].nvml_up
    assert later[-1].card_ticks[0].up
    assert node.opens == 2


def test_release_with_a_hung_call_says_so_and_goes_on_without_that_card(build: Build) -> None:
    """The driver cannot be closed on a hung call: release returns False; the other cards come back after its time."""
    hang = Hang("quick")
    node = node_of(3, hang=hang)
    sampler = build(node)
    next_ticks(sampler, 1)
    hang.on = True
    next_ticks(sampler, 2)
    assert not sampler.release(2.5)
    assert node.closes == 0
    seen = next_ticks(sampler, 5)
    assert not seen[0].nvml_up
    assert [card_tick.up for card_tick in seen[-1].card_ticks] == [False, True, True]
    hang.let_go()
    assert next_ticks(sampler, 3)[-1].card_ticks[0].up
    assert (node.opens, node.closes) == (1, 0)


def test_comes_up_when_the_driver_does(build: Build) -> None:
    """Started without a driver, ticks come once a second; when it appears the cards follow within 2 s."""
    node = node_of(1)
    node.opening = Fault.DRIVER_NOT_LOADED
    sampler = build(node)
    assert [tick.nvml_fault for tick in next_ticks(sampler, 2)] == [Fault.DRIVER_NOT_LOADED] * 2
    node.opening = None
    assert next_ticks(sampler, 3)[-1].card_ticks[0].up


def test_ticks_keep_their_grid_when_the_caller_is_late(build: Build) -> None:
    """A caller that is away for 2.5 s loses ticks, which is counted, and the grid of whole seconds stays."""
    sampler = build(node_of(1))
    first = next_ticks(sampler, 1)[0]
    time.sleep(2.5)
    late = next_ticks(sampler, 2)
    assert [tick.mono_s - first.mono_s for tick in late] == pytest.approx([2.0, 3.0])
    assert late[-1].sampler.missed["tick"] == 1
    assert [tick.seq for tick in late] == [1, 2]


def test_a_wall_clock_set_back_changes_nothing_but_the_stamp(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case clock-back: sampling goes on at one tick per monotonic second and no age goes negative."""
    sampler = build(node_of(1))
    before = next_ticks(sampler, 2)[-1]
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600.0)
    seen = next_ticks(sampler, 3)
    assert [tick.mono_s - before.mono_s for tick in seen] == pytest.approx([1.0, 2.0, 3.0])
    assert seen[0].wall_s < before.wall_s
    assert all(tick.mono_s >= tick.card_ticks[0].last_sample_s - 0.1 for tick in seen)


def test_an_error_in_a_read_silences_neither_card_nor_log(build: Build) -> None:
    """A bug in one read is survived: the card's other reads go on and so do the other cards."""

    def broken(name: str) -> None:
        if name == "rare":
            raise RuntimeError("bug")

    node = node_of(2)
    node.scripts[node.cards[0].identity.uuid].hook = broken
    seen = next_ticks(build(node), 4)
    assert seen[-1].card_ticks[0].up
    assert seen[-1].card_ticks[1].up


@pytest.mark.parametrize("overlap", [True, False])
def test_whether_window_calls_overlap_is_measured(overlap: bool) -> None:
    """Two cards whose calls run side by side are told from two whose calls wait for each other."""
    driver = threading.Lock()

    def block(_name: str) -> None:
        if overlap:
            time.sleep(0.0203)
        else:
            with driver:
                time.sleep(0.0203)

    script = Script(hook=block, window_block_s=0.0)
    readers = [ScriptedCard(card(n, LinkSource.WINDOW), script, RealClock(), {}) for n in range(2)]
    assert windows_overlap(readers) == (overlap, ())


def test_cards_share_a_thread_again_after_a_call_came_back(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card that hung is read by the thread of the others again, and none loses a tick by it."""
    monkeypatch.setattr("gpumon.sampling.card_threads._REUNITE_AFTER_S", 0.5)
    hang = Hang("quick")
    sampler = build(node_of(4, hang=hang))
    next_ticks(sampler, 2)
    threads = threading.active_count()
    hang.on = True
    next_ticks(sampler, 2)
    hang.let_go()
    hang.on = False
    seen = next_ticks(sampler, 4)
    assert threading.active_count() == threads
    assert all(card_tick.up for card_tick in seen[-1].card_ticks)
    assert min(len(card_tick.pcie.t1_s) for card_tick in seen[-1].card_ticks) >= 14
