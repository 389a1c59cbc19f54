"""Costs, overlap and agreement as measured on scripted cards whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpumon.doctor.agreement import compare_bytes, compare_power, compare_sources
from gpumon.doctor.measure import call_costs, overlap_verdict, window_overlap
from gpumon.model.fault import Fault

from .conftest import Script, ScriptedCard, ScriptedNode, StepClock, make_card


def _card(script: Script) -> tuple[ScriptedCard, StepClock]:
    clock = StepClock()
    return ScriptedCard(make_card(0), clock, script), clock


def test_costs_are_those_of_the_calls(node: ScriptedNode) -> None:
    """Median and 95th percentile are the scripted costs; a missing call gives its reason."""
    (costs,) = call_costs(node, node.cards, lambda _card: StepClock())
    by_call = {cost.call: cost for cost in costs.costs}
    assert by_call["counters"].median_s == pytest.approx(0.0003)
    assert by_call["window rx"].p95_s == pytest.approx(0.021)
    assert by_call["processes"].median_s == pytest.approx(0.0045)
    assert by_call["gpm"].fault == "not_supported"
    assert math.isnan(by_call["gpm"].median_s)


def test_one_card_of_each_model_is_measured(node: ScriptedNode) -> None:
    """Cards of one model answer alike, so the first stands for them."""
    assert [costs.gpu for costs in call_costs(node, node.cards, lambda _card: StepClock())] == [0]


def test_failing_call_does_not_end_the_others() -> None:
    """A call that fails is told with its reason, the rest is measured."""
    node = ScriptedNode(Script(faults={"processes": Fault.NO_PERMISSION}))
    (costs,) = call_costs(node, node.cards, lambda _card: StepClock())
    by_call = {cost.call: cost for cost in costs.costs}
    assert by_call["processes"].fault == "no_permission"
    assert by_call["counters"].fault == ""


def test_windows_that_overlap(node: ScriptedNode) -> None:
    """Cards whose windows take the same time together as alone overlap."""
    directions, cards = window_overlap(node, node.cards, lambda _card: StepClock())
    assert (directions.verdict, cards.verdict, cards.callers) == ("overlap", "overlap", 2)


def test_windows_that_queue() -> None:
    """Where a call takes as long as all callers' windows in turn, they queue; somewhere between, partly."""
    verdicts = {
        together_s: overlap_verdict(alone_s=0.021, together_s=together_s, callers=8)
        for together_s in (0.022, 0.060, 0.165, math.nan)
    }
    assert verdicts == {0.022: "overlap", 0.060: "partly", 0.165: "queue", math.nan: "unknown"}


def test_cards_without_the_window_call_are_left_out() -> None:
    """There is no overlap to measure where no card has the call."""
    card = make_card(0)
    bare = replace(card, capabilities=replace(card.capabilities, features=frozenset()))
    assert window_overlap(ScriptedNode(cards=(bare,)), (bare,), lambda _card: StepClock()) == ()


@pytest.mark.parametrize(
    ("unit", "ratio", "meaning"),
    [
        (1.0, 1.0, "they agree"),
        (1 / 1.024, 1.024, "window rx counts in 1024 bytes where 1000 was assumed"),
        (1000.0, 0.001, "the units differ by 1000"),
        (1 / 1.12, 1.12, "they differ: packet headers, or traffic that changed between the reads"),
    ],
)
def test_unit_of_the_window_call(unit: float, ratio: float, meaning: str) -> None:
    """Steady traffic settles whether counter and window count in the same unit."""
    reader, clock = _card(Script(window_unit=unit))
    ratios, _ = compare_bytes(reader, clock)
    assert ratios[0].ratio == pytest.approx(ratio, rel=2e-3)
    assert ratios[0].meaning == meaning


def test_idle_link_settles_nothing() -> None:
    """Without traffic the ratio is missing, not 1."""
    reader, clock = _card(Script(bytes_per_second=1e6))
    ratios, _ = compare_bytes(reader, clock)
    assert math.isnan(ratios[0].ratio)
    assert ratios[0].meaning == "not enough traffic to compare"


def test_gpm_is_compared_where_it_exists() -> None:
    """GPM's bytes over the whole span stand beside the counters'."""
    reader, clock = _card(Script(gpm=True))
    ratios, _ = compare_bytes(reader, clock)
    gpm = [ratio for ratio in ratios if ratio.right == "gpm rx"]
    assert gpm[0].ratio == pytest.approx(1.0, rel=1e-2)


def test_wraps_of_the_counter_are_seen() -> None:
    """A 32-bit counter at 20 GB/s wraps every 0.2 s; the comparison survives it."""
    reader, clock = _card(Script(bytes_per_second=20e9))
    ratios, (facts,) = compare_bytes(reader, clock)
    assert facts.wraps_seen >= 4
    assert facts.largest_seen < 1 << 32
    assert ratios[0].ratio == pytest.approx(1.0, rel=2e-3)


@pytest.mark.parametrize("span_s", [0.0, 0.5, 1.0])
def test_averaging_of_a_power_reading(span_s: float) -> None:
    """The span a reading averages over is found by its fit with the ring."""
    reader, clock = _card(Script(power_span_s=span_s))
    facts = compare_power(reader, clock)
    assert facts.averages_over_s == span_s
    assert facts.ring_spacing_s == pytest.approx(0.02)
    assert dict(facts.means_watts)["energy"] == pytest.approx(300.0, rel=0.1)


def test_all_comparisons_of_a_node(node: ScriptedNode) -> None:
    """One card of the model is compared in bytes and in power."""
    agreement = compare_sources(node, node.cards, lambda _card: StepClock())
    assert {ratio.gpu for ratio in agreement.ratios} == {0}
    assert [facts.gpu for facts in agreement.power] == [0]
