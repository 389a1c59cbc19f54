"""Facts that are known from published sources; each test names its source."""

from __future__ import annotations

import math

import pytest

from gpumon.data import tables
from gpumon.plan.answer import evaluate, plan
from gpumon.plan.layouts import Layout, every
from gpumon.plan.memory import memory
from gpumon.plan.request import Method, Precision, Strategy
from gpumon.plan.tables_view import notes
from gpumon.plan.traffic import training_traffic
from gpumon.plan.verdict import advised_against, verdict

from .questions import ask


@pytest.mark.parametrize(("card", "all_memory"), [("rtx5090", 256e9), ("a100-sxm", 640e9)])
def test_full_training_of_70b_fits_no_eight_card_node(card: str, all_memory: float) -> None:
    """70B full training needs about 1.1 TB and fits neither 8x RTX 5090 (256 GB) nor 8x A100 80 GB (640 GB).

    Source: 16 bytes a parameter for mixed-precision Adam, ZeRO (arXiv 1910.02054).
    """
    request = ask("70B", card, 8, recompute=True)
    answer = plan(request)
    assert 8 * request.card.memory_bytes == all_memory
    assert answer.state_bytes == pytest.approx(1.12e12)
    assert not any(option.memory.fits for option in answer.options)


def test_eighteen_bytes_with_32_bit_gradients_are_said() -> None:
    """Where gradients are kept in 32 bit a parameter takes 18 bytes, and the text says so.

    Source: stas00/ml-engineering counts 18, the ZeRO paper 16.
    """
    assert any(
        "16 bytes a parameter; 18 where gradients are kept in 32 bit: 1.26 TB" in note
        for note in notes(plan(ask("70B", "rtx5090", 8)))
    )


def test_two_rtx5090_are_not_64_gb_for_one_model() -> None:
    """30B in bf16 is 60 GB; two cards of 32 GB hold it in no layout, whole copies least of all, and the text says why.

    Source: memory is per card; DDP and replicas hold a whole copy each, and every card its own context and cache.
    """
    request = ask("30B", "rtx5090", 2, method=Method.INFERENCE, concurrency=8)
    answer = plan(request)
    assert answer.state_bytes == 60e9
    assert not any(option.memory.fits for option in answer.options if option.layout.strategy is not Strategy.OFFLOAD)
    assert memory(request, Layout(Strategy.DDP, 2, 1)).weights_bytes == 60e9
    assert any("2 cards are 2 times 32.0 GB, not one card of 64.0 GB" in note for note in notes(answer))


def test_qlora_of_7b_fits_one_rtx5090() -> None:
    """7B QLoRA fits one 5090 with room to spare.

    Source: QLoRA (arXiv 2305.14314): half a byte a parameter; 65B fits 48 GB.
    """
    answer = plan(ask("7B", "rtx5090", 1, method=Method.QLORA))
    assert answer.fits
    assert not answer.chosen.memory.tight


def test_qlora_of_65b_fits_48_gb() -> None:
    """65B QLoRA at batch 1 with recomputation and a sequence of 512 fits a card of 48 GB.

    Source: headline of the QLoRA paper (arXiv 2305.14314), sequence as in its experiments.
    """
    assert plan(ask("65B", "rtxa6000", 1, method=Method.QLORA, recompute=True, sequence=512)).fits


def test_ddp_of_llama_7b_moves_24_5_gb_a_card_and_step() -> None:
    """Llama-7B bf16 gradients on 8 cards are 24.5 GB sent and received by each card in a DDP step.

    Source: ring all-reduce, 2(N-1)/N of 14 GB (nccl-tests, doc/PERFORMANCE.md).
    """
    (transfer,) = training_traffic(ask("7B", "rtx4090", 8), Layout(Strategy.DDP, 8, 1))
    assert transfer.sent_bytes == transfer.received_bytes == pytest.approx(24.5e9)


def test_fsdp_moves_half_as_much_again_every_micro_batch() -> None:
    """FSDP moves 36.8 GB for the same model, and again for every micro-batch.

    Source: ZeRO (arXiv 1910.02054): two all-gathers and a reduce-scatter of the weights.
    """
    plan_ = Layout(Strategy.FSDP, 8, 1)
    once = sum(each.sent_bytes for each in training_traffic(ask("7B", "rtx4090", 8), plan_))
    four = sum(each.sent_bytes for each in training_traffic(ask("7B", "rtx4090", 8, accumulation=4), plan_))
    assert once == pytest.approx(36.75e9)
    assert four == pytest.approx(4 * once)


def test_tp8_of_llama_7b_moves_7_5_gb_a_micro_batch() -> None:
    """TP8 with 4096 tokens, width 4096 and 32 layers moves 7.5 GB for each micro-batch, eight of them a step.

    Source: four all-reduces of b*s*h*e in each layer, Megatron-LM (arXiv 1909.08053).
    """
    (transfer,) = training_traffic(ask("llama-2-7b", "rtx4090", 8, sequence=4096), Layout(Strategy.TP, 8, 8))
    assert transfer.sent_bytes / 8 == pytest.approx(7.5e9, rel=0.01)


@pytest.mark.parametrize("method", [Method.INFERENCE, Method.LORA])
def test_tp8_of_70b_is_advised_against_on_5090_and_not_on_h100(method: Method) -> None:
    """TP8 on 70B is advised against over PCIe gen5 x16 without P2P, and not over NVLink of H100 SXM.

    Source: published tensor-parallel runs over PCIe (vLLM TP4 at half of PP4 on 4x RTX 5090,
    cloudrift-ai/server-benchmark; exllamav2#734) against NVSwitch machines (vllm-project/vllm#16300).
    """
    poor = plan(ask("70B", "rtx5090", 8, method=method, strategy=Strategy.TP))
    good = plan(ask("70B", "h100-sxm", 8, method=method, strategy=Strategy.TP))
    assert advised_against(poor)
    assert not advised_against(good)
    assert any(sentence.key in ("advised_against", "advised_other") for sentence in verdict(poor, "en"))
    assert not any(sentence.key in ("advised_against", "advised_other") for sentence in verdict(good, "en"))


@pytest.mark.parametrize("cards", [2, 4, 8])
def test_a_layer_split_does_not_speed_up_one_stream(cards: int) -> None:
    """Layer-split generation of an 8B Q4 model is a little slower on more RTX 4090, and the text says so.

    Source: XiongjieDai/GPU-Benchmarks-on-LLM-Inference: 127.7 tokens/s on one card; 122.6, 117.6, 116.1 on 2, 4, 8.
    """
    published = {1: 127.7, 2: 122.6, 4: 117.6, 8: 116.1}
    request = ask(
        "llama-3-8b", "rtx4090", cards, method=Method.INFERENCE, strategy=Strategy.PP, precision=Precision.INT4
    )
    answer = plan(request)
    lone = answer.chosen.lone_tokens_per_second
    alone = evaluate(request, Layout(Strategy.DDP, 1, 1)).lone_tokens_per_second
    assert lone is not None
    assert alone is not None
    assert lone < alone
    assert lone / alone == pytest.approx(published[cards] / published[1], abs=0.05)
    assert any(sentence.key == "layer_split" for sentence in verdict(answer, "en"))


def test_pipeline_serves_more_than_tensor_parallelism_over_pcie() -> None:
    """Under load a pipeline on 4x RTX 5090 without P2P serves clearly more than tensor parallelism.

    Source: cloudrift-ai/server-benchmark, vLLM on 4x RTX 5090: PP4 4622 against TP4 2305 tokens/s.
    """
    request = ask("30B", "rtx5090", 4, method=Method.INFERENCE, concurrency=256, context=1024)
    rates = {layout: evaluate(request, layout).throughput.typical for layout in every(request, 4)}
    assert rates[Layout(Strategy.PP, 4, 4)] > 1.2 * rates[Layout(Strategy.TP, 4, 4)]


def test_pcie_gen5_x16_carries_63_gb_a_second_one_way() -> None:
    """PCIe 5.0 x16 is 63 GB/s in one direction after line coding.

    Source: PCI Express Base Specification: 32 GT/s, 16 lanes, 128b/130b.
    """
    assert tables.pcie_bytes_per_second(5, 16) == pytest.approx(63.0e9, rel=0.001)


@pytest.mark.parametrize(("card", "both_ways"), [("a100-sxm", 600e9), ("h100-sxm", 900e9)])
def test_nvlink_of_a100_and_h100(card: str, both_ways: float) -> None:
    """NVLink carries 600 GB/s on A100 and 900 GB/s on H100, both directions together. Source: NVIDIA data sheets."""
    assert ask("7B", card, 8).card.nvlink_bytes_per_second == both_ways


@pytest.mark.parametrize("cards", [2, 4, 8])
@pytest.mark.parametrize(
    "job",
    [
        {"model": "bert-large", "batch": 28, "precision": Precision.FP16},
        {"model": "gpt2-medium", "batch": 4},
        {"model": "1.5B", "accumulation": 8, "recompute": True},
    ],
)
def test_usual_rtx4090_speed_ups_are_within_the_range(cards: int, job: dict[str, object]) -> None:
    """Speed-ups of 0.70 to 0.85 a card, as multi-card 4090 jobs show, lie within the efficiency range given for them.

    Source: lambdal/deeplearning-benchmark: BERT-large on 2x RTX 4090 0.74; 4090 rental practice of 0.7 to 0.85.
    """
    changes = dict(job)
    request = ask(str(changes.pop("model")), "rtx4090", cards, strategy=Strategy.DDP, **changes)
    efficiency = evaluate(request, Layout(Strategy.DDP, cards, 1)).efficiency
    assert efficiency.low <= 0.70
    assert efficiency.high >= 0.85


def test_break_even_of_the_second_card_is_one_gradient_exchange_a_step() -> None:
    """Two cards equal one exactly where the bandwidth moves the gradients once within one single-card step.

    Source: 2 t = t + G/B, so B = G/t.
    """

    def speed_up(bandwidth: float) -> float:
        request = ask("1B", "rtx4090", 2, one_card_rate=2.0, bandwidth=((1, bandwidth),))
        return 2 * evaluate(request, Layout(Strategy.DDP, 2, 1)).efficiency.typical

    gradients, step = 2e9, 0.5
    assert speed_up(gradients / step) == pytest.approx(1.0, abs=0.01)
    assert speed_up(2 * gradients / step) > 1.2
    assert speed_up(0.5 * gradients / step) < 0.8


def test_pipeline_bubble() -> None:
    """Eight stages and m micro-batches lose (p-1)/m of the computing time. Source: arXiv 2104.04473."""
    request = ask("7B", "h100-sxm", 8, accumulation=4)
    time = evaluate(request, Layout(Strategy.PP, 8, 8)).time
    assert math.isclose(time.bubble_seconds / time.compute_seconds, 7 / 32)


def test_signals_for_full_training_of_70b() -> None:
    """Full training of 70B on 5090s raises the signals 'too large and communication-heavy' and '70B class'."""
    sentences = {sentence.subject: sentence for sentence in verdict(plan(ask("70B", "rtx5090", 8)), "en")}
    assert sentences["platform"].key == "platform_yes"
    assert "70B class" in sentences["platform"].text
