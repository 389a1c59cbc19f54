"""The pipeline's step: cards, jobs, counters and intervals over literal ticks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpumon import pipeline
from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, NvLinkFacts, PowerKind
from gpumon.model.past import Past
from gpumon.model.process import HostSample, ProcessTable
from gpumon.model.samples import CardTick, Event, LinkSlots, Series, Tick
from gpumon.model.settings import Settings
from gpumon.model.topology import NodeFacts, Topology

NODE = NodeFacts("node", "none", "6.8", "580.1", 64, False, "host", True, 0.0)
NO_NVLINK = NvLinkFacts(0, 0, "", math.nan, ())
SETTINGS = Settings()


def card(index: int) -> Card:
    identity = CardIdentity(f"GPU-{index}", index, "RTX 5090", f"0000:{index:02x}:00.0", "blackwell", index, 0)
    features = Capabilities(frozenset({"pcie_counter"}), LinkSource.COUNTER, LinkSource.NONE, PowerKind.RING, 32)
    return Card(identity, features, NO_NVLINK)


def card_tick(index: int, now_s: float, rate: float = 0.0, **readings: float) -> CardTick:
    edges = np.linspace(now_s - 1.0, now_s, 21)
    moved = np.full(20, rate / 20)
    link = LinkSlots(edges[:-1], edges[1:], moved, moved / 2, source=LinkSource.COUNTER)
    values = {
        "utilization_ratio": 0.9,
        "link_generation": 5.0,
        "link_generation_max": 5.0,
        "link_width_lanes": 16.0,
        "link_width_max_lanes": 16.0,
        **readings,
    }
    busy = Series(np.array([now_s]), np.array([values["utilization_ratio"]]))
    return CardTick(f"GPU-{index}", True, None, now_s, pcie=link, utilization=busy, readings=values)


def tick(seq: int, *card_ticks: CardTick, events: tuple[Event, ...] = ()) -> Tick:
    cards = tuple(card(number) for number in range(len(card_ticks)))
    return Tick(
        seq,
        float(seq),
        1e9 + seq,
        True,
        None,
        NODE,
        cards,
        Topology(),
        card_ticks,
        ProcessTable(),
        HostSample(),
        events,
    )


def test_totals_follow_the_slots() -> None:
    """Bytes, observed seconds and the 15 s mean are those of the slots that were seen."""
    state = pipeline.initial_state()
    for second in range(1, 21):
        state = pipeline.step(state, tick(second, card_tick(0, float(second), 10e9)), SETTINGS)
    assert state.view is not None
    link = state.view.cards[0].pcie
    assert math.isclose(link.rx.bytes_total, 200e9)
    assert math.isclose(link.tx.observed_bytes_total, 100e9)
    assert math.isclose(link.rx.observed_seconds_total, 20.0)
    assert math.isclose(link.rx.bytes_per_second, 10e9)
    assert link.rx.observed_ratio > 0.99
    assert math.isclose(link.ceiling_bytes_per_second, 63.0e9, rel_tol=0.001)
    assert not link.ceiling_assumed


def test_a_lost_card_keeps_its_counters() -> None:
    """A card that stops answering keeps its totals and does not disturb its neighbour."""
    state = pipeline.initial_state()
    for second in range(1, 6):
        pair = (card_tick(0, second, 1e9, energy_joules=100.0 * second), card_tick(1, second, 1e9))
        state = pipeline.step(state, tick(second, *pair), SETTINGS)
    gone = replace(card_tick(0, 6.0), up=False)
    state = pipeline.step(state, tick(6, gone, card_tick(1, 6.0, 1e9)), SETTINGS)
    assert state.view is not None
    assert math.isclose(state.view.cards[0].counters["energy_joules"], 400.0)
    assert math.isclose(state.view.cards[0].pcie.rx.bytes_total, 5e9)
    assert math.isclose(state.view.cards[1].pcie.rx.bytes_total, 6e9)


def test_xids_are_counted_by_code() -> None:
    """Each Xid event raises its code's counter by one and moves its last-seen time."""
    state = pipeline.initial_state()
    state = pipeline.step(state, tick(1, card_tick(0, 1.0), events=(Event(1.0, "xid", "GPU-0", 31),)), SETTINGS)
    state = pipeline.step(state, tick(2, card_tick(0, 2.0)), SETTINGS)
    state = pipeline.step(state, tick(3, card_tick(0, 3.0), events=(Event(3.0, "xid", "GPU-0", 31),)), SETTINGS)
    assert state.view is not None
    assert state.view.cards[0].xids == {31: (2, 1e9 + 3)}


def test_a_card_lost_before_a_restart_is_still_expected() -> None:
    """What answered in the last week, by the history, is expected once the driver answers."""
    past = Past(most_cards=3)
    state = pipeline.step(pipeline.initial_state(), replace(tick(1), nvml_up=False), SETTINGS, past)
    assert state.view is not None
    assert state.view.gpus_expected == 0
    state = pipeline.step(state, tick(2, card_tick(0, 2.0)), SETTINGS, past)
    assert state.view is not None
    assert state.view.gpus_expected == 3


def test_expected_cards_is_the_most_ever_seen() -> None:
    """The node is expected to have as many cards as were seen at once, unless the config says otherwise."""
    state = pipeline.step(pipeline.initial_state(), tick(1, card_tick(0, 1.0), card_tick(1, 1.0)), SETTINGS)
    state = pipeline.step(state, tick(2, card_tick(0, 2.0)), SETTINGS)
    assert state.view is not None
    assert state.view.gpus_expected == 2
