"""Verdicts, remedies and signals: what is advised, and what is not."""

from __future__ import annotations

import re
import string
from dataclasses import replace

import pytest

from gpumon.plan.answer import plan
from gpumon.plan.remedies import remedies
from gpumon.plan.request import Method, Precision, Strategy
from gpumon.plan.signals import signals
from gpumon.plan.timing import carry_rate, modelled_one_card_rate
from gpumon.plan.verdict import verdict
from gpumon.plan.wording import SENTENCES, SHORT

from .questions import ask


def _keys(answer: object) -> list[str]:
    return [remedy.key for remedy in remedies(answer)]  # type: ignore[arg-type]


def test_accumulation_is_advised_where_gradients_rule_the_step() -> None:
    """DDP that waits for links is told to accumulate, with the efficiency before and after."""
    answer = plan(ask("1B", "rtx4090", 8, strategy=Strategy.DDP, batch=2, sequence=1024, recompute=True))
    remedy = next(remedy for remedy in remedies(answer) if remedy.key == "accumulate")
    assert remedy.option.efficiency.typical > answer.chosen.efficiency.typical
    assert remedy.amount > 1


def test_accumulation_is_not_advised_for_fsdp() -> None:
    """FSDP exchanges for every micro-batch, so accumulation saves nothing and is not advised."""
    answer = plan(ask("1B", "rtx4090", 8, strategy=Strategy.FSDP, batch=2, sequence=1024, recompute=True))
    assert answer.chosen.link_ratio > 0.3
    assert "accumulate" not in _keys(answer)


def test_nothing_is_advised_where_nothing_is_wrong() -> None:
    """LoRA on cards that hold it scales by itself: no remedy."""
    assert _keys(plan(ask("7B", "rtx4090", 8, method=Method.LORA, recompute=True, batch=4))) == []


def test_quantisation_is_advised_where_a_copy_then_fits_fewer_cards() -> None:
    """8B in bf16 needs two RTX 4090 for a copy; in 4 bit each card holds its own."""
    answer = plan(ask("8B", "rtx4090", 4, method=Method.INFERENCE))
    remedy = next(remedy for remedy in remedies(answer) if remedy.key == "quantise")
    assert remedy.option.layout.group == 1 < answer.chosen.layout.group


def test_replicas_are_chosen_over_tensor_parallelism_on_pcie() -> None:
    """Where a card holds the model and many users come, replicas give more than TP over PCIe.

    Source: 4x RTX 3090, vLLM: four replicas 3425 against TP4 1007 tokens/s (noonghunna/club-3090, docs/MULTI_CARD.md).
    """
    request = ask("llama-3-8b", "rtx3090", 4, method=Method.INFERENCE, precision=Precision.INT4, concurrency=64)
    answer = plan(request)
    rates = {option.layout: option.throughput.typical for option in answer.options}
    replicas, tensor = (
        next(rates[layout] for layout in rates if layout.strategy is strategy and layout.group == group)
        for strategy, group in ((Strategy.DDP, 1), (Strategy.TP, 4))
    )
    assert answer.chosen.layout.strategy is Strategy.DDP
    assert replicas > 1.5 * tensor


def test_a_single_user_is_told_the_layout_that_answers_fastest() -> None:
    """Next to the layout with most throughput stands the one a single user would choose."""
    answer = plan(
        ask("8B", "rtx4090", 4, method=Method.INFERENCE, precision=Precision.INT4, concurrency=64, context=1024)
    )
    remedy = next(remedy for remedy in remedies(answer) if remedy.key == "one_user")
    assert remedy.option.layout.strategy is Strategy.TP


def test_measuring_is_advised_only_where_the_links_matter_and_are_unknown() -> None:
    """A wide typical range asks for a measurement; a given bandwidth does not."""
    unknown = plan(ask("1B", "rtx4090", 8, strategy=Strategy.DDP, recompute=True))
    known = plan(ask("1B", "rtx4090", 8, strategy=Strategy.DDP, recompute=True, bandwidth=((1, 6e9),)))
    assert "measure" in _keys(unknown)
    assert "measure" not in _keys(known)


def test_fewer_cards_are_advised_where_more_give_nothing() -> None:
    """When the last cards add less than 5 %, the smaller count is named with what it gives."""
    answer = plan(ask("gpt2-medium", "rtx4090", 8, strategy=Strategy.DDP, batch=4, bandwidth=((2, 20e9), (5, 0.5e9))))
    remedy = next(remedy for remedy in remedies(answer) if remedy.key == "fewer_cards")
    assert remedy.option.layout.cards == 4


def test_a_network_between_nodes_is_a_signal_of_its_own() -> None:
    """Sixteen cards at high bandwidth raise the third signal; sixteen with tiny exchanges do not."""
    heavy = signals(plan(ask("7B", "h100-sxm", 16, strategy=Strategy.FSDP)))
    light = signals(plan(ask("7B", "h100-sxm", 16, method=Method.LORA, strategy=Strategy.DDP, batch=8, recompute=True)))
    assert heavy[2].applies
    assert not light[2].applies


def test_a_batch_that_does_not_fit_is_no_reason_for_nvlink() -> None:
    """Where recomputation makes the job fit one card, 'does not fit on one card' is not raised."""
    answer = plan(ask("7B", "rtx4090", 4, method=Method.LORA, batch=2))
    assert answer.chosen.link_ratio > 0.3
    assert not any(signal.applies for signal in signals(answer))
    assert _keys(answer)[0] == "recompute"


def test_nvlink_machines_are_told_that_they_are_needed_not_that_they_are_missing() -> None:
    """Full training of 70B on H100 SXM raises the signal without advising to move."""
    sentences = {
        sentence.subject: sentence for sentence in verdict(plan(ask("70B", "h100-sxm", 32, recompute=True)), "en")
    }
    assert sentences["platform"].key == "platform_already"


@pytest.mark.parametrize("key", sorted(SENTENCES))
def test_both_languages_carry_the_same_figures(key: str) -> None:
    """English and Chinese of a sentence name the same figures, and the Chinese one is Chinese."""
    english, chinese = SENTENCES[key]
    fields = [{name for _, name, _, _ in string.Formatter().parse(text) if name} for text in (english, chinese)]
    assert fields[0] == fields[1]
    assert re.search("[\u4e00-\u9fff]", chinese)


def test_every_short_form_has_its_sentence() -> None:
    """Tiles say in a word what a sentence says in full."""
    assert set(SHORT) <= set(SENTENCES)


def test_a_measured_one_card_rate_is_carried_over_to_other_questions() -> None:
    """A card measured at half of the typical speed is expected at half of the typical speed with LoRA as well."""
    full, lora = (ask("8B", "rtx4090", 8, method=method) for method in (Method.FULL, Method.LORA))
    measured = replace(full, one_card_rate=modelled_one_card_rate(full) / 2)
    carried = carry_rate(measured, replace(measured, method=Method.LORA))
    assert carried.one_card_rate == pytest.approx(modelled_one_card_rate(lora) / 2)
    assert carry_rate(full, lora).one_card_rate is None


def test_a_measured_rate_of_many_users_is_carried_over_to_one() -> None:
    """Half of the typical output rate at 32 requests means about half of the typical rate for a user alone."""
    question = ask("llama-3-8b", "rtx5090", 1, method=Method.INFERENCE)
    measured = replace(question, one_card_rate=modelled_one_card_rate(question) / 2)
    usual, slow = (plan(each).chosen.lone_tokens_per_second for each in (question, measured))
    assert usual is not None
    assert slow == pytest.approx(usual / 2)
