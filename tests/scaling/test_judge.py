"""One run against others: efficiency, slowdown, recommended count and set, each by named evidence. Literal values."""

from __future__ import annotations

import dataclasses
import math

import pytest

from gpumon.model.past import Past, Run, Shares
from gpumon.model.topology import CardPath, LinkHop, P2p, Topology, Uplink
from gpumon.scaling.judge import Node, judge
from tests.history.made import rate, run, uuids

EIGHT = {uuid: number for number, uuid in enumerate(uuids(8))}
# Two sockets with four cards each, two cards a switch.
PATHS = tuple(CardPath(uuid, "", (), f"pci{number // 4}", number // 4) for uuid, number in EIGHT.items())
HOP = LinkHop("0000:01:00.0", "", 4, 16, 4, 16)
UPLINKS = tuple(Uplink(f"bridge{n}", uuids(8)[2 * n : 2 * n + 2], HOP) for n in range(4))
NODE = Node(EIGHT, Topology(PATHS, UPLINKS), card_bytes=24e9, held_bytes=40e9)


def shares(own: float, exchange: float = 0.0, **others: float) -> Shares:
    """Return shares that sum to 1, the rest lost to the host."""
    waiting = others.get("waiting", 0.0)
    host = 1.0 - own - exchange - waiting
    hidden, memory, width = others.get("hidden", 0.0), others.get("memory", 0.0), others.get("width", 0.05)
    return Shares(own, host, exchange, waiting, hidden, memory, width)


def known(*runs: Run) -> Past:
    """Return a past of one workload."""
    return Past({runs[0].workload: runs}) if runs else Past()


def at(count: int, step_s: float, own: float, number: int = 0, **changes: object) -> Run:
    """Return a data-parallel run whose step has this length, `own` of it the card's own work."""
    lost = 1.0 - own
    made = run(count, number, step_s=step_s, shares=shares(own, lost if count > 1 else 0.0))
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


ALONE = at(1, 0.30, 1.0)


def test_one_card_has_no_efficiency() -> None:
    """A job of one card is not judged."""
    assert judge(ALONE, known(at(2, 0.4, 0.75)), NODE) is None


def test_period_of_a_run_on_one_card() -> None:
    """With the same workload seen on one card the efficiency is the ratio of the steps, within a few percent."""
    said = judge(at(8, 0.40, 0.75), known(ALONE), NODE)
    assert said is not None
    assert said.evidence == "period"
    assert said.efficiency == pytest.approx(0.75, abs=0.001)
    assert said.uncertainty < 0.03
    assert (said.recommended_gpus, said.recommended_set, said.slowdown) == (8, tuple(range(8)), False)


def test_reported_goes_before_period() -> None:
    """What both runs report decides, whatever their periods say; there is no need to know what a step is."""
    now = at(4, 0.9, 0.3, throughput=480.0, throughput_spread=0.01, unit="samples", shares=None)
    before = at(1, 0.3, 1.0, throughput=150.0, throughput_spread=0.01, unit="samples", shares=None)
    said = judge(now, known(before), NODE)
    assert said is not None
    assert (said.evidence, said.efficiency) == ("reported", pytest.approx(0.8))


def test_different_units_are_not_compared() -> None:
    """Samples of one run and tokens of another say nothing about each other; the period does."""
    now = at(4, 0.40, 0.75, throughput=480.0, unit="tokens")
    said = judge(now, known(at(1, 0.3, 1.0, throughput=1.0, unit="samples")), NODE)
    assert said is not None
    assert said.evidence == "period"


def test_without_a_past_the_model_says_it() -> None:
    """The share of the time that is not exchange is the efficiency, with the uncertainty of the shares."""
    said = judge(at(4, 0.50, 0.6), Past(), NODE)
    assert said is not None
    assert (said.evidence, said.slowdown) == ("model", False)
    assert said.efficiency == pytest.approx(0.6, abs=0.001)
    assert said.uncertainty == pytest.approx(0.05, abs=0.01)


def test_slower_with_more_cards() -> None:
    """Four cards that did more than these eight: alarm, four recommended, with the numbers in the sentence."""
    said = judge(at(8, 1.10, 0.27), known(at(4, 0.50, 0.6)), NODE)
    assert said is not None
    assert said.slowdown
    assert said.recommended_gpus == 4
    assert said.recommended_set == (0, 1, 2, 3)
    assert "4 of these cards 10% faster than on 8" in said.reasons[0]


def test_a_little_slower_is_no_alarm() -> None:
    """Two percent is what runs differ by from day to day."""
    said = judge(at(8, 1.02, 0.29), known(at(4, 0.50, 0.6)), NODE)
    assert said is not None
    assert not said.slowdown


def test_a_wide_margin_of_the_model_is_an_alarm() -> None:
    """Two cards that exchange for 1.7 times what they may are slower than one, although nobody has seen one."""
    said = judge(at(2, 0.9, 0.33, shares=shares(0.33, 0.67, width=0.03)), Past(), NODE)
    assert said is not None
    assert said.slowdown
    assert said.recommended_gpus == 1
    assert "(model)" in said.reasons[0]


@pytest.mark.parametrize("own", [0.40, 0.45, 0.55])
def test_a_narrow_margin_of_the_model_is_a_remark(own: float) -> None:
    """Near break-even the model does not accuse; it only says what one card would do."""
    said = judge(at(2, 0.7, own, shares=shares(own, 1.0 - own, width=0.04)), Past(), NODE)
    assert said is not None
    assert not said.slowdown


def test_what_was_seen_silences_the_model() -> None:
    """One card that reported less proves that the exchange is not what the shares make of it."""
    now = at(2, 0.52, 0.30, throughput=100.0, unit="samples")
    said = judge(now, known(at(1, 0.30, 1.0, throughput=60.0, unit="samples")), NODE)
    assert said is not None
    assert (said.evidence, said.slowdown) == ("reported", False)


def test_a_period_that_is_another_count_of_micro_batches_is_brought_to_one_step() -> None:
    """One run shows its optimizer step, the other its micro-batch: the accumulation makes them comparable."""
    now = at(4, 1.6, 0.75, accumulation=4)
    said = judge(now, known(at(1, 0.30, 1.0, accumulation=4)), NODE)
    assert said is not None
    assert said.evidence == "period"
    assert said.efficiency == pytest.approx(0.75, abs=0.001)


def test_a_period_that_fits_nothing_is_not_used() -> None:
    """A step in which a card works five times as long as alone is no step of this work."""
    said = judge(at(4, 2.0, 0.75), known(ALONE), NODE)
    assert said is not None
    assert said.evidence == "model"


def test_a_period_that_cannot_be_checked_is_not_used() -> None:
    """Without knowing where the time goes, a period may be anything."""
    assert judge(at(4, 1.0, 0.5, shares=None), known(ALONE), NODE) is None


def tensor(count: int, step_s: float, own: float) -> Run:
    """Return a tensor-parallel run: the same work a step, however many cards."""
    return at(count, step_s, own, strategy="tp", shares=shares(own, 1.0 - own))


def test_strong_scaling_is_told_apart() -> None:
    """Tensor parallelism that halves its step on four times the cards has an efficiency of one half."""
    said = judge(tensor(4, 0.5, 0.5), known(at(1, 1.0, 1.0)), NODE)
    assert said is not None
    assert (said.evidence, said.efficiency) == ("period", pytest.approx(0.5))


def test_tensor_parallelism_that_loses_is_slower() -> None:
    """Four cards whose step is longer than that of two do less of the same work."""
    said = judge(tensor(4, 0.60, 0.25), known(tensor(2, 0.52, 0.58)), NODE)
    assert said is not None
    assert said.slowdown
    assert said.recommended_gpus == 2


def test_an_unknown_strategy_is_told_by_the_work_of_a_card() -> None:
    """A quarter of the work of each card in a step of four: the same work in smaller parts."""
    now = at(4, 0.40, 0.62, strategy="")
    said = judge(now, known(at(1, 1.0, 1.0, strategy="")), NODE)
    assert said is not None
    assert (said.evidence, said.efficiency) == ("period", pytest.approx(0.625))


def test_only_the_same_product_is_compared() -> None:
    """A run on faster cards says nothing about these."""
    said = judge(at(8, 1.10, 0.27), known(at(4, 0.3, 0.6, card="NVIDIA GeForce RTX 5090")), NODE)
    assert said is not None
    assert (said.evidence, said.slowdown) == ("model", False)


def test_a_short_run_is_not_compared() -> None:
    """Half a minute is too little for a median."""
    said = judge(at(8, 0.40, 0.75), known(at(1, 0.30, 1.0, watched_s=30.0)), NODE)
    assert said is not None
    assert said.evidence == "model"


def test_several_runs_stand_by_their_median() -> None:
    """One odd run of three decides nothing."""
    past = known(*(at(4, step_s, own, n) for n, (step_s, own) in enumerate([(0.5, 0.6), (0.51, 0.59), (0.7, 0.43)])))
    said = judge(at(8, 0.60, 0.5), past, NODE)
    assert said is not None
    assert not said.slowdown


def test_a_model_that_does_not_fit_on_fewer_cards_is_not_sent_there() -> None:
    """Weights cut over four cards that fill them do not go on two, whatever would be faster."""
    full = dataclasses.replace(NODE, held_bytes=90e9)
    said = judge(tensor(4, 0.9, 0.05), Past(), full)
    assert said is not None
    assert said.recommended_gpus == 4
    assert not said.slowdown


def test_a_pool_says_nothing_about_what_is_needed() -> None:
    """A server that takes the whole card whatever the model is not sent to fewer by the model alone."""
    said = judge(tensor(4, 0.9, 0.05), Past(), dataclasses.replace(NODE, pooled=True))
    assert said is not None
    assert (said.recommended_gpus, said.slowdown) == (4, False)


def test_flat_throughput_is_as_good_on_fewer_cards() -> None:
    """Where two cards did as much as eight do, two are recommended, and it is no alarm."""
    said = judge(at(8, 1.23, 0.245), known(at(2, 0.31, 0.97)), NODE)
    assert said is not None
    assert (said.recommended_gpus, said.slowdown) == (2, False)


def test_more_cards_are_recommended_where_they_were_seen_to_pay() -> None:
    """A run on eight cards that did nearly twice as much counts for one on four of the same node."""
    said = judge(at(4, 0.40, 0.75), known(at(8, 0.41, 0.73)), NODE)
    assert said is not None
    assert said.recommended_gpus == 8
    assert said.recommended_set == tuple(range(8))


def test_cards_that_are_not_there_are_not_recommended() -> None:
    """A run from when the node had eight cards does not send a job to eight where four are left."""
    four = dataclasses.replace(NODE, indices=dict(list(EIGHT.items())[:4]))
    said = judge(at(4, 0.40, 0.75), known(at(8, 0.41, 0.73)), four)
    assert said is not None
    assert said.recommended_gpus == 4


def test_the_set_stays_on_one_socket_and_under_one_switch() -> None:
    """Cards 1, 2, 3, 5: the pair under one switch is taken."""
    own = tuple(sorted(uuids(8)[n] for n in (1, 2, 3, 5)))
    now = at(4, 1.10, 0.27, uuids=own, gpus=(1, 2, 3, 5))
    said = judge(now, known(at(2, 0.5, 0.6)), NODE)
    assert said is not None
    assert said.recommended_set == (2, 3)


def test_a_rate_that_was_seen_chooses_the_set() -> None:
    """A pair that has carried more than the others is taken, wherever it sits."""
    pair = (uuids(8)[1], uuids(8)[6])
    learned = dataclasses.replace(rate(2, 24e9), uuids=pair, gpus=(1, 6))
    past = dataclasses.replace(known(at(2, 0.5, 0.6)), rates={(pair, "pcie"): learned})
    said = judge(at(8, 2.4, 0.125, shares=shares(0.125, 0.875, width=0.02)), past, NODE)
    assert said is not None
    assert said.recommended_set == (1, 6)


def test_nvlink_pairs_come_first() -> None:
    """Two cards that a bridge joins are taken before two under one switch."""
    bridge = P2p(uuids(8)[0], uuids(8)[5], "NV4", "ok")
    others = tuple(P2p(uuids(8)[0], uuids(8)[n], "PHB", "ok") for n in (1, 2, 3))
    node = dataclasses.replace(NODE, topology=Topology(PATHS, UPLINKS, (bridge, *others)))
    said = judge(at(8, 2.4, 0.125, shares=shares(0.125, 0.875, width=0.02)), known(at(2, 0.5, 0.6)), node)
    assert said is not None
    assert said.recommended_set == (0, 5)


def test_a_card_the_others_wait_for_is_left_out() -> None:
    """The straggler is not part of a smaller set."""
    node = dataclasses.replace(NODE, avoid=frozenset({uuids(8)[1]}))
    said = judge(at(8, 1.10, 0.27), known(at(4, 0.50, 0.6)), node)
    assert said is not None
    assert 1 not in said.recommended_set


def test_nothing_is_recommended_below_what_the_job_has() -> None:
    """A prediction whose low end is slower than the present stays a prediction."""
    said = judge(at(4, 0.9, 0.34, shares=shares(0.34, 0.66, width=0.15)), Past(), NODE)
    assert said is not None
    assert said.recommended_gpus == 4


def test_waiting_for_a_checkpoint_is_no_loss_of_scaling() -> None:
    """One card alone would save too: a job that waits for its disk scales."""
    now = at(8, 0.5, 0.5, shares=shares(0.5, 0.02, waiting=0.42), job_class="host")
    said = judge(now, Past(), NODE)
    assert said is not None
    assert said.efficiency == pytest.approx(0.98, abs=0.01)


def test_efficiency_is_a_number_whatever_the_shares() -> None:
    """Shares at their edges give numbers, not errors."""
    for own in (0.02, 0.5, 1.0):
        for width in (0.0, 0.4):
            said = judge(at(8, 1.0, own, shares=shares(own, 1.0 - own, width=width)), Past(), NODE)
            assert said is None or not math.isnan(said.efficiency)


def test_one_odd_run_of_many_does_not_hide_a_slowdown() -> None:
    """Four runs agree, one does not: the quartiles say how much they vary."""
    steps = (0.5, 0.502, 0.498, 0.501, 0.58)
    past = known(*(at(4, step_s, 0.3 / step_s, number) for number, step_s in enumerate(steps)))
    said = judge(at(8, 1.10, 0.27), past, NODE)
    assert said is not None
    assert said.slowdown


def test_what_is_too_uncertain_is_not_said() -> None:
    """An efficiency that may be anything between 0.3 and 0.9 is no statement."""
    assert judge(at(4, 0.5, 0.6, shares=shares(0.6, 0.4, width=0.3)), Past(), NODE) is None


def sharded(count: int, step_s: float, own: float, memory: float, **changes: object) -> Run:
    """Return a run whose update of the weights, `memory` of the step, is cut up over its cards."""
    lost = 1.0 - own if count > 1 else 0.0
    made = at(count, step_s, own, strategy="zero2" if count > 1 else "single", **changes)
    return dataclasses.replace(made, shares=shares(own, lost, memory=memory, width=0.03))


def test_an_update_that_is_cut_up_is_whole_on_one_card() -> None:
    """ZeRO: one card updates all weights, so two that look slower than it by their own work are not."""
    now = sharded(2, 0.2, 0.37, 0.16)
    said = judge(now, Past(), NODE)
    assert said is not None
    assert said.efficiency == pytest.approx(0.45, abs=0.01)  # half of what memory binds counts as update
    assert not said.slowdown
    plain = judge(dataclasses.replace(now, strategy="ddp"), Past(), NODE)
    assert plain is not None
    assert (plain.slowdown, plain.recommended_gpus) == (True, 1)


def test_an_update_that_is_cut_up_does_not_hide_that_two_runs_did_the_same_work() -> None:
    """Half of one card's step is the update: on four cards each works for 0.625 of it, and the periods still count."""
    said = judge(sharded(4, 0.5, 0.375, 0.075), known(sharded(1, 0.3, 1.0, 0.5)), NODE)
    assert said is not None
    assert (said.evidence, said.efficiency) == ("period", pytest.approx(0.6))


def test_a_period_twice_as_long_as_the_work_allows_is_not_used() -> None:
    """Two steps taken for one: the card would work twice as long as the update leaves room for."""
    said = judge(sharded(4, 1.0, 0.375, 0.075), known(sharded(1, 0.3, 1.0, 0.5)), NODE)
    assert said is None or said.evidence == "model"


def test_less_work_and_a_faster_set_are_not_taken_together() -> None:
    """Tensor parallel: an uplink for each of two cards helps the exchange, but their work may be longer than seen."""
    paths = tuple(CardPath(uuid, "", (), f"pci{number // 2}", number // 2) for uuid, number in EIGHT.items())
    node = dataclasses.replace(NODE, topology=Topology(paths), detail="uplink", held_bytes=20e9)
    now = at(4, 0.3, 0.28, strategy="tp", shares=shares(0.28, 0.68, width=0.06))
    said = judge(now, Past(), node)
    assert said is not None
    assert said.recommended_gpus == 4


def test_a_run_without_a_pace_is_compared_by_where_its_time_goes() -> None:
    """The same work was seen on one card, too fast for a period: a margin beyond what is uncertain is an alarm."""
    now = at(2, 0.094, 0.42, shares=shares(0.42, 0.58, width=0.03))
    alone = at(1, math.nan, 1.0)
    said = judge(now, known(alone), NODE)
    assert said is not None
    assert (said.evidence, said.slowdown, said.recommended_gpus) == ("model", True, 1)
    assert "(model)" in said.reasons[0]


@pytest.mark.parametrize(("own", "width"), [(0.42, 0.07), (0.46, 0.03)])
def test_such_a_run_is_no_proof_within_the_uncertainty(own: float, width: float) -> None:
    """What the shares leave open, one and a half times, must not reach the present."""
    now = at(2, 0.094, own, shares=shares(own, 1.0 - own, width=width))
    said = judge(now, known(at(1, math.nan, 1.0)), NODE)
    assert said is not None
    assert not said.slowdown


def test_nor_is_a_margin_without_a_run() -> None:
    """The same shares and nothing seen before stay a remark below 1.5 times break-even."""
    said = judge(at(2, 0.094, 0.42, shares=shares(0.42, 0.58, width=0.03)), Past(), NODE)
    assert said is not None
    assert not said.slowdown


@pytest.mark.parametrize(("own", "used"), [(0.62, True), (0.42, False)])
def test_uncertain_shares_confirm_a_period_only_as_they_stand(own: float, used: bool) -> None:
    """Work and exchange that cannot be told apart fit any period somewhere: the likely working time must fit."""
    now = at(4, 0.4, own, strategy="tp", shares=shares(own, 1.0 - own, width=0.4))
    said = judge(now, known(at(1, 1.0, 1.0)), NODE)
    assert (said is not None and said.evidence == "period") is used


@pytest.mark.parametrize(("accumulation", "used"), [(2, False), (8, True)])
def test_nor_where_few_micro_batches_could_be_mistaken(accumulation: int, used: bool) -> None:
    """One run shows a micro-batch, the other its step: shares that are off by two would fit two of two as well."""
    now = at(2, 0.25, 0.4, accumulation=accumulation, shares=shares(0.4, 0.6, width=0.3))
    said = judge(now, known(at(1, 0.1 * accumulation, 1.0, accumulation=accumulation)), NODE)
    assert (said is not None and said.evidence == "period") is used
