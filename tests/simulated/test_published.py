"""Published figures come out of the simulation within 20 %, from one card's throughput and the box's bandwidth.

Where a box's bandwidth was only measured through its trainings, it is taken from the run in the other precision, so
that no figure is predicted from itself. [L] is lambdal/deeplearning-benchmark, [T] grantwilkins/training_profile.
"""

from __future__ import annotations

import pytest

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.cards import CARDS, CardSpec
from gpumon.hardware.simulated.fabric import HostSpec
from gpumon.hardware.simulated.host_tasks import Checkpoint
from gpumon.hardware.simulated.physics import Conditions
from gpumon.hardware.simulated.scenario import Burn, JobPlan, NodePlan, Scenario, Workload, slots
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.timeline_file import CHANNELS
from gpumon.hardware.simulated.training import Training
from gpumon.hardware.simulated.truth import JobTruth, job_truths
from gpumon.hardware.simulated.world import World

WITHIN = 0.20
GB = 1e9


def _run(node: NodePlan, workload: Workload, seconds: float, warm_s: float = 5.0) -> JobTruth:
    cards = tuple(range(len(node.slots)))
    world = World(Scenario("published", "", node, (JobPlan("job", workload, cards),)), 0, keeps_all=True)
    world.advance(seconds)
    return job_truths(world, warm_s, seconds)[0]


def _bert(box: tuple[str, int], batch: int, alone: float, bandwidth: float, element_bytes: float) -> float:
    """Return sequences per second of BERT-large on a box (card, how many), gradients exchanged after the backward."""
    card, cards = box
    spec = CARDS[card]
    node = NodePlan(slots(card, cards), HostSpec(staging_bytes_per_second=bandwidth, peer_access=False))
    plan = Training(
        work.BERT_LARGE,
        "ddp",
        micro_batch=batch,
        element_bytes=element_bytes,
        overlap=False,
        micro_seconds=_micro_seconds(spec, work.BERT_LARGE, batch / alone),
    )
    truth = _run(node, plan, 60.0)
    return batch * cards / truth.optimizer_step_s


def _micro_seconds(spec: CardSpec, model: work.Model, step_s: float) -> float:
    """A published step on one card holds the optimizer too."""
    return step_s - work.optimizer_seconds(spec, model.parameters)


def test_pair_of_4090_in_16_bit() -> None:
    """[L] 2 x RTX 4090, BERT-large FP16, batch 28: 93.6 seq/s become 139.0; 6.1 GB/s from the FP32 runs."""
    assert _bert(("rtx4090", 2), 28, 93.6, 6.1 * GB, 2) == pytest.approx(139.0, rel=WITHIN)


def test_pair_of_4090_in_32_bit() -> None:
    """[L] 2 x RTX 4090, BERT-large FP32, batch 16: 45.0 seq/s become 55.5; 6.5 GB/s from the FP16 runs."""
    assert _bert(("rtx4090", 2), 16, 45.0, 6.5 * GB, 4) == pytest.approx(55.5, rel=WITHIN)


def test_pair_of_3090_in_16_bit() -> None:
    """[L] 2 x RTX 3090 (2022), BERT-large FP16, batch 28: 52.6 seq/s become 89.2; 7.1 GB/s from FP32."""
    assert _bert(("rtx3090", 2), 28, 52.6, 7.1 * GB, 2) == pytest.approx(89.2, rel=WITHIN)


def test_pair_of_3090_in_32_bit() -> None:
    """[L] 2 x RTX 3090 (2022), BERT-large FP32, batch 16: 24.8 seq/s become 38.4; 7.0 GB/s from FP16."""
    assert _bert(("rtx3090", 2), 16, 24.8, 7.0 * GB, 4) == pytest.approx(38.4, rel=WITHIN)


def test_four_3090_hardly_faster_than_one() -> None:
    """[L] 4 x RTX 3090, BERT-large FP16, batch 16: 47.2 seq/s become 68.0; 1.3 GB/s from FP32."""
    assert _bert(("rtx3090", 4), 16, 47.2, 1.3 * GB, 2) == pytest.approx(68.0, rel=WITHIN)


def test_eight_3090_slower_than_one() -> None:
    """[L] 8 x RTX 3090, BERT-large FP32, batch 8: 17.4 seq/s become 16.1; 0.8 GB/s from FP16."""
    assert _bert(("rtx3090", 8), 8, 17.4, 0.8 * GB, 4) == pytest.approx(16.1, rel=WITHIN)


def test_eight_3090_in_16_bit() -> None:
    """[L] 8 x RTX 3090, BERT-large FP16, batch 16: 47.2 seq/s become 68.9; 0.7 GB/s from FP32."""
    assert _bert(("rtx3090", 8), 16, 47.2, 0.7 * GB, 2) == pytest.approx(68.9, rel=WITHIN)


def test_four_a6000_in_a_virtual_machine() -> None:
    """[L] 4 x A6000 in a cloud VM, BERT-large FP32, batch 18: 23.9 seq/s become 56.3; 5.0 GB/s from FP16."""
    assert _bert(("a6000", 4), 18, 23.9, 5.0 * GB, 4) == pytest.approx(56.3, rel=WITHIN)


def test_eight_a100_pcie_with_peer_access() -> None:
    """[L] 8 x A100 PCIe, BERT-large FP16, batch 32: 91.9 seq/s become 646.3; bandwidth from the links alone."""
    node = NodePlan(slots("a100pcie", 8))
    seconds = _micro_seconds(CARDS["a100pcie"], work.BERT_LARGE, 32 / 91.9)
    truth = _run(node, Training(work.BERT_LARGE, "ddp", micro_batch=32, overlap=False, micro_seconds=seconds), 30.0)
    assert 32 * 8 / truth.optimizer_step_s == pytest.approx(646.3, rel=WITHIN)


def test_eight_a6000_with_peer_access() -> None:
    """[L] 8 x A6000, BERT-large FP16, batch 36: 63.8 seq/s become 463.3; bandwidth from the links alone."""
    node = NodePlan(slots("a6000", 8))
    seconds = _micro_seconds(CARDS["a6000"], work.BERT_LARGE, 36 / 63.8)
    truth = _run(node, Training(work.BERT_LARGE, "ddp", micro_batch=36, overlap=False, micro_seconds=seconds), 40.0)
    assert 36 * 8 / truth.optimizer_step_s == pytest.approx(463.3, rel=WITHIN)


def test_eight_h100_sxm_scale_over_nvlink() -> None:
    """[L] 8 x H100 SXM5, BERT-large FP16, batch 112: 311 seq/s become 2327 over NVLink."""
    seconds = _micro_seconds(CARDS["h100sxm"], work.BERT_LARGE, 112 / 311)
    plan = Training(work.BERT_LARGE, "ddp", micro_batch=112, overlap=False, micro_seconds=seconds)
    truth = _run(NodePlan(slots("h100sxm", 8)), plan, 30.0)
    assert 112 * 8 / truth.optimizer_step_s == pytest.approx(2327, rel=WITHIN)


def test_resnet_scales_where_bert_does_not() -> None:
    """[L] 8 x RTX 3090, ResNet-50 FP16: 807 img/s become 5611 to 6204 in the box whose BERT gets 0.8 GB/s."""
    batch = 208
    node = NodePlan(slots("rtx3090", 8), HostSpec(staging_bytes_per_second=0.8 * GB))
    plan = Training(work.RESNET50, "ddp", micro_batch=batch, micro_seconds=batch / 807)
    truth = _run(node, plan, 40.0)
    assert batch * 8 / truth.optimizer_step_s == pytest.approx(5900, rel=WITHIN)


@pytest.mark.parametrize(("every", "useful"), [(100, 0.58), (50, 0.42), (10, 0.10)])
def test_useful_share_between_checkpoints(every: int, useful: float) -> None:
    """[T] 8 x H100, rank 0 saves every 100, 50, 10 micro-steps of 0.233 s: 58, 42, 10 % of the time is useful."""
    plan = Training(
        work.OPT_3B,
        "ddp",
        micro_batch=4,
        accumulation=2,
        micro_seconds=0.215,
        checkpoint=Checkpoint(every_steps=every // 2, size_bytes=40e9, bytes_per_second=40e9 / 13.0),
    )
    cycle_s = every * 0.233 + 16.0
    truth = _run(NodePlan(slots("h100sxm", 8)), plan, 5.0 + 4 * cycle_s)
    others = 1.0 - truth.split["peer_wait"] * 8 / 7
    assert others == pytest.approx(useful, abs=0.2 * useful + 0.02)


def test_waiting_h100_draws_150_watts_at_full_utilization() -> None:
    """[T] while rank 0 saves, ranks 1 to 7 show 100 % at about 150 W and rank 0 shows 0 to 5 %."""
    plan = Training(
        work.OPT_3B, "ddp", micro_batch=4, micro_seconds=0.215, checkpoint=Checkpoint(5, 40e9, bytes_per_second=3e9)
    )
    node = NodePlan(slots("h100sxm", 8))
    world = World(Scenario("t", "", node, (JobPlan("job", plan, tuple(range(8))),)), 0, keeps_all=True)
    world.advance(20.0)
    # The fifth step ends within 2 s, the copy to the host within 6: from then on rank 0 writes.
    writing, waiting = world.timelines[0].rates_at(12.0), world.timelines[3].rates_at(12.0)
    power, kernel = CHANNELS.index("power"), CHANNELS.index("kernel")
    assert writing[kernel] == 0.0
    assert waiting[kernel] == 1.0
    assert waiting[power] == pytest.approx(150, rel=0.10)


@pytest.mark.parametrize(("cards", "tokens_per_second"), [(2, 19.06), (4, 18.83), (8, 18.76)])
def test_layer_split_of_a_70b_model_is_flat(cards: int, tokens_per_second: float) -> None:
    """RTX 4090, llama.cpp, 70B Q4, layers split: 19.06, 18.83, 18.76 tok/s (XiongjieDai/GPU-Benchmarks)."""
    plan = Serving(work.MODEL_70B, "layers", batch=1, prompt_tokens=1, output_tokens=512, weight_bytes=40e9)
    truth = _run(NodePlan(slots("rtx4090", cards)), plan, 60.0)
    assert truth.samples_per_second == pytest.approx(tokens_per_second, rel=WITHIN)


@pytest.mark.parametrize(("cards", "tokens_per_second"), [(2, 122.6), (4, 117.6), (8, 116.1)])
def test_layer_split_of_an_8b_model_loses(cards: int, tokens_per_second: float) -> None:
    """RTX 4090, llama.cpp, 8B Q4, layers split: 127.7 tok/s on one card fall to 122.6, 117.6, 116.1 (same source)."""
    read_at_one_card = 0.85 * CARDS["rtx4090"].memory_bytes_per_second / 127.7
    plan = Serving(
        work.MODEL_8B, "layers", batch=1, prompt_tokens=1, output_tokens=1024, context_tokens=0,
        weight_bytes=read_at_one_card * 0.95,
    )  # fmt: skip
    truth = _run(NodePlan(slots("rtx4090", cards)), plan, 60.0)
    measured = truth.samples_per_second
    assert measured == pytest.approx(tokens_per_second, rel=WITHIN)
    assert measured < 127.7


def test_patched_peer_access_between_4090() -> None:
    """4 x RTX 4090 with patched peer access: all-reduce at 24.4 to 24.7 GB/s (tinygrad/open-gpu-kernel-modules#17)."""
    assert _all_reduce(NodePlan(slots("rtx4090", 4, sockets=1), HostSpec(peer_access=True))) == pytest.approx(
        24.5 * GB, rel=WITHIN
    )


def test_all_reduce_of_eight_a100_sxm() -> None:
    """8 x A100 SXM over NVSwitch: all-reduce at 200 to 235 GB/s."""
    assert _all_reduce(NodePlan(slots("a100sxm", 8))) == pytest.approx(235 * GB, rel=WITHIN)


def test_all_reduce_of_eight_h200() -> None:
    """8 x H200 SXM over NVSwitch, ring: all-reduce at 363 to 367 GB/s."""
    assert _all_reduce(NodePlan(slots("h200sxm", 8))) == pytest.approx(365 * GB, rel=WITHIN)


@pytest.mark.parametrize(("limit_watts", "speed"), [(300, 0.55), (350, 0.64), (400, 0.72), (450, 0.80), (550, 0.94)])
def test_speed_left_by_a_power_limit(limit_watts: float, speed: float) -> None:
    """RTX PRO 6000, GEMM at limits of 300 to 550 of 600 W keeps 55 to 94 % of the speed (voipmonitor/rtx6kpro)."""
    truths = []
    for watts in (limit_watts, 600.0):
        node = NodePlan(slots("rtxpro6000", 1, sockets=1), conditions={0: Conditions(power_limit_watts=watts)})
        truths.append(_run(node, Burn("dense", intensity=1.0), 20.0))
    assert truths[0].samples_per_second / truths[1].samples_per_second == pytest.approx(speed, rel=0.1)


def test_pipeline_bubble() -> None:
    """1F1B: the bubble is (p-1)/(m+p-1) of the step (arXiv 2104.04473): 4 stages, 8 micro-batches."""
    plan = Training(work.MODEL_3B, "pp", micro_batch=2, sequence=2048, accumulation=8, jitter=0.0)
    truth = _run(NodePlan(slots("a100sxm", 4)), plan, 60.0)
    assert truth.split["peer_wait"] == pytest.approx(3 / 11, rel=WITHIN)


def test_small_all_reduces_cost_three_milliseconds_a_token() -> None:
    """60 layers x 2 all-reduces x 25 us are 3 ms a token before any byte counts (tensor-parallel decode over PCIe)."""
    model = work.Model("sixty", 8e9, 60, 4096, 0.25)
    plan = Serving(model, "tp", batch=1, prompt_tokens=1, output_tokens=1000, weight_bytes=4e9)
    truth = _run(NodePlan(slots("rtx5090", 4)), plan, 60.0)
    assert truth.labels["latency"] / truth.samples_per_second == pytest.approx(3e-3, rel=WITHIN)


def _all_reduce(node: NodePlan) -> float:
    """Return the bus bandwidth of a large all-reduce alone on the node."""
    plan = Training(work.MODEL_8B, "ddp", micro_seconds=0.1, overlap=False, jitter=0.0)
    scenario = Scenario("nccl-tests", "", node, (JobPlan("job", plan, tuple(range(len(node.slots)))),))
    world = World(scenario, 0, keeps_all=True)
    world.advance(60.0)
    truth = job_truths(world, 5.0, 60.0)[0]
    sent = 2 * (1 - 1 / len(node.slots)) * plan.gradient_bytes
    return sent / (truth.split["communication"] * truth.optimizer_step_s)
