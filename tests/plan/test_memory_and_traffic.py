"""Bytes of a card and of its links by strategy, against figures worked out by hand."""

from __future__ import annotations

import pytest

from gpumon.plan.layouts import Layout
from gpumon.plan.memory import memory
from gpumon.plan.request import Method, Optimizer, Precision, Strategy
from gpumon.plan.traffic import token_traffic, training_traffic

from .questions import ask

EIGHT = {
    Strategy.DDP: Layout(Strategy.DDP, 8, 1),
    Strategy.ZERO1: Layout(Strategy.ZERO1, 8, 1),
    Strategy.ZERO2: Layout(Strategy.ZERO2, 8, 1),
    Strategy.ZERO3: Layout(Strategy.ZERO3, 8, 1),
    Strategy.FSDP: Layout(Strategy.FSDP, 8, 1),
    Strategy.TP: Layout(Strategy.TP, 8, 8),
    Strategy.OFFLOAD: Layout(Strategy.OFFLOAD, 8, 1),
}


@pytest.mark.parametrize(
    ("strategy", "bytes_a_parameter"),
    [
        (Strategy.DDP, 16),
        (Strategy.ZERO1, 4 + 12 / 8),
        (Strategy.ZERO2, 2 + 14 / 8),
        (Strategy.ZERO3, 16 / 8),
        (Strategy.FSDP, 16 / 8),
        (Strategy.TP, 16 / 8),
        (Strategy.OFFLOAD, 2),
    ],
)
def test_states_by_strategy(strategy: Strategy, bytes_a_parameter: float) -> None:
    """Weights, gradients and optimizer of the fullest of 8 cards. Source: ZeRO (arXiv 1910.02054), table of states."""
    card = memory(ask("8B", "h100-sxm", 8), EIGHT[strategy])
    states = card.weights_bytes + card.gradients_bytes + card.optimizer_bytes
    assert states == pytest.approx(8e9 * bytes_a_parameter)


def test_offload_moves_fourteen_bytes_a_parameter_to_the_host() -> None:
    """Gradients and optimizer of one copy are in host memory: 14 bytes a parameter."""
    assert memory(ask("8B", "h100-sxm", 1), Layout(Strategy.OFFLOAD, 1, 1)).host_bytes == pytest.approx(14 * 8e9)


def test_an_eight_bit_optimizer_saves_six_bytes_a_parameter() -> None:
    """Moments in 2 bytes instead of 8. Source: arXiv 2110.02861."""
    whole, small = (
        memory(ask("8B", "h100-sxm", 1, optimizer=optimizer), Layout(Strategy.DDP, 1, 1)).optimizer_bytes
        for optimizer in (Optimizer.ADAM, Optimizer.ADAM8BIT)
    )
    assert whole - small == pytest.approx(6 * 8e9)


def test_recomputation_keeps_two_of_thirty_four_bytes() -> None:
    """34 s b h a block, or its input and one block at work. Source: arXiv 2205.05198."""
    plain, again = (
        memory(ask("bert-large", "h100-sxm", 1, batch=32, recompute=on), Layout(Strategy.DDP, 1, 1)).activations_bytes
        for on in (False, True)
    )
    unit = 32 * 384 * 1024
    assert plain == 34 * unit * 24
    assert again == 2 * unit * 24 + 34 * unit


def test_key_value_cache_of_llama_3_8b() -> None:
    """A token of Llama 3 8B takes 131,072 bytes: 2 x 32 layers x 8 heads x 128 x 2 bytes."""
    request = ask("llama-3-8b", "h100-sxm", 1, method=Method.INFERENCE, context=1000, concurrency=10)
    assert memory(request, Layout(Strategy.DDP, 1, 1)).kv_cache_bytes == 131072 * 10_000


def test_the_cache_of_replicas_is_shared_out_and_of_tensor_parallelism_cut_by_heads() -> None:
    """Ten requests on four replicas are three on the fullest; TP16 over 8 key-value heads holds an eighth."""
    request = ask("llama-3-70b", "h100-sxm", 16, method=Method.INFERENCE, context=1000, concurrency=10)
    token = 2 * 80 * 8 * 128 * 2
    assert memory(request, Layout(Strategy.DDP, 4, 1)).kv_cache_bytes == token * 1000 * 3
    assert memory(request, Layout(Strategy.TP, 16, 16)).kv_cache_bytes == token * 10_000 / 8


def test_adapters_are_all_that_lora_exchanges() -> None:
    """LoRA's DDP step moves the adapters' gradients only, one hundredth of full training's."""
    full, lora = (
        training_traffic(ask("7B", "rtx4090", 8, method=method), EIGHT[Strategy.DDP])[0].sent_bytes
        for method in (Method.FULL, Method.LORA)
    )
    assert lora == pytest.approx(full / 100)


def test_fp32_gradients_are_twice_the_bytes() -> None:
    """A run in full precision moves twice the bytes of one in half precision."""
    half, full = (
        training_traffic(ask("7B", "rtx4090", 8, precision=precision), EIGHT[Strategy.DDP])[0].sent_bytes
        for precision in (Precision.BF16, Precision.FP32)
    )
    assert full == 2 * half


def test_zero2_reduces_every_micro_batch_and_gathers_once() -> None:
    """With four micro-batches gradients cross four times, weights once."""
    gradients, weights = training_traffic(ask("8B", "rtx4090", 8, accumulation=4), EIGHT[Strategy.ZERO2])
    assert gradients.sent_bytes == pytest.approx(4 * 7 / 8 * 16e9)
    assert weights.sent_bytes == pytest.approx(7 / 8 * 16e9)


def test_a_pipeline_hands_on_activations_only() -> None:
    """A middle stage sends 2 b s h e for each micro-batch: megabytes where DDP moves gigabytes.

    Source: arXiv 2104.04473; llama.cpp's layer split shows about 7 MB/s against 1400 of a tensor split.
    """
    request = ask("llama-2-7b", "rtx4090", 8, sequence=4096)
    (transfer,) = training_traffic(request, Layout(Strategy.PP, 8, 8))
    assert transfer.sent_bytes == 8 * 2 * 4096 * 4096 * 2


def test_groups_also_average_their_gradients() -> None:
    """Four copies of TP2 exchange activations in pairs and half of the gradients among the copies."""
    transfers = training_traffic(ask("8B", "rtx4090", 8), Layout(Strategy.TP, 8, 2))
    gradients = next(transfer for transfer in transfers if transfer.name == "gradients")
    assert gradients.members == 4
    assert gradients.sent_bytes == pytest.approx(2 * 3 / 4 * 8e9)


def test_experts_exchange_tokens() -> None:
    """Expert parallelism sends each token to its experts and back, forward and backward: 4 L b s k h e (N-1)/N."""
    transfers = training_traffic(ask("mixtral-8x7b", "h100-sxm", 8, sequence=1024), Layout(Strategy.EP, 8, 8))
    tokens = next(transfer for transfer in transfers if transfer.name == "tokens")
    assert tokens.sent_bytes == 4 * 32 * 1024 * 2 * 4096 * 2 * 7 / 8


def test_a_token_of_tensor_parallelism_is_latency() -> None:
    """One token over TP2 is two all-reduces a layer, each of h e bytes. Source: Megatron-LM (arXiv 1909.08053)."""
    request = ask("llama-3-8b", "rtx4090", 2, method=Method.INFERENCE, concurrency=1)
    (transfer,) = token_traffic(request, Layout(Strategy.TP, 2, 2))
    assert transfer.calls == 64
    assert transfer.sent_bytes == 64 * 4096 * 2
