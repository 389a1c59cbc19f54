"""Bytes per card and step follow from the algorithms, for every strategy (facts: ZeRO, Megatron, nccl-tests)."""

from __future__ import annotations

import pytest

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.fabric import WIRE_PER_PAYLOAD
from gpumon.hardware.simulated.host_tasks import Loader
from gpumon.hardware.simulated.scenario import JobPlan, NodePlan, Scenario, Workload, slots
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.training import Training
from gpumon.hardware.simulated.truth import JobTruth, _step, job_truths
from gpumon.hardware.simulated.world import World

CARDS = 4
PART = (CARDS - 1) / CARDS
WEIGHTS = 2 * work.BERT_LARGE.parameters


def _run(workload: Workload, seconds: float = 30.0) -> tuple[JobTruth, World]:
    node = NodePlan(slots("rtx5090", CARDS))
    world = World(Scenario("s", "", node, (JobPlan("job", workload, tuple(range(CARDS))),)), 0, keeps_all=True)
    world.advance(seconds)
    return job_truths(world, 0.0, seconds)[0], world


def _received_per_step(workload: Training) -> list[float]:
    """Return the payload each card receives between the second and the last optimizer step."""
    _, world = _run(workload)
    steps = world.jobs[0].log.optimizer_steps_s
    truth = job_truths(world, steps[1], steps[-1])[0]
    return [truth.rx_bytes[card] / WIRE_PER_PAYLOAD / (len(steps) - 2) for card in truth.cards]


@pytest.mark.parametrize(
    ("strategy", "accumulation", "no_sync", "multiple"),
    [
        ("ddp", 1, True, 2.0),
        ("ddp", 4, True, 2.0),
        ("ddp", 4, False, 8.0),
        ("zero1", 2, True, 2.0),
        ("zero2", 2, True, 3.0),
        ("zero3", 1, True, 3.0),
        ("fsdp", 2, True, 6.0),
    ],
)
def test_bytes_per_step(strategy: str, accumulation: int, no_sync: bool, multiple: float) -> None:
    """Each card receives the multiple of (N-1)/N of the weights that its strategy sends in an optimizer step."""
    plan = Training(work.BERT_LARGE, strategy, micro_batch=4, sequence=384, accumulation=accumulation, no_sync=no_sync)
    for received in _received_per_step(plan):
        assert received == pytest.approx(multiple * PART * WEIGHTS, rel=0.03)


def test_tensor_parallel_bytes() -> None:
    """Megatron: 4 all-reduces of the activations a layer and micro-batch."""
    plan = Training(work.BERT_LARGE, "tp", micro_batch=8, sequence=512)
    activations = 8 * 512 * work.BERT_LARGE.hidden * 2
    for received in _received_per_step(plan):
        assert received == pytest.approx(4 * work.BERT_LARGE.layers * activations * 2 * PART, rel=0.03)


def test_pipeline_passes_boundaries_only() -> None:
    """Inner stages receive two boundaries a micro-batch, the ends one, and every card a little from its launches."""
    plan = Training(work.BERT_LARGE, "pp", micro_batch=64, sequence=512, accumulation=8)
    boundary = 8 * 64 * 512 * work.BERT_LARGE.hidden * 2
    received = _received_per_step(plan)
    for card, boundaries in zip(received, (1, 2, 2, 1), strict=True):
        assert card == pytest.approx(boundaries * boundary, rel=0.1)


def test_offload_moves_as_much_each_way_in_turn() -> None:
    """ZeRO-Offload: the same bytes down and up, never both copies in the same instant."""
    plan = Training(work.BERT_LARGE, "offload", micro_batch=8, sequence=512)
    truth, world = _run(plan)
    assert truth.labels["offload"] > 0.2
    times = world.timelines[0].stretches(30.0)
    rx, tx = times.rate[0], times.rate[1]
    copying = (rx > 1e9) != (tx > 1e9)
    assert copying.any()


def test_gloo_goes_through_the_loopback() -> None:
    """Over gloo the job's loopback carries the gradients and utilization is low."""
    truth, world = _run(Training(work.GPT_125M, "gloo", micro_batch=8, sequence=512))
    steps = len(world.jobs[0].log.optimizer_steps_s)
    sent = 2 * PART * 2 * work.GPT_125M.parameters * CARDS
    assert world.jobs[0].loopback.value_at(30.0) == pytest.approx(steps * sent, rel=0.05)
    assert truth.labels["host_path"] > 0.5


def test_data_parallel_loads_card_0() -> None:
    """DataParallel: card 0 sends what all others receive."""
    truth, _ = _run(Training(work.BERT_LARGE, "dataparallel", micro_batch=8, sequence=384))
    others = sum(truth.rx_bytes[card] for card in truth.cards[1:])
    assert truth.tx_bytes[0] == pytest.approx(others, rel=0.1)


def test_device_map_works_one_card_at_a_time() -> None:
    """With device_map the shares of compute of all cards add up to at most one."""
    truth, _ = _run(Training(work.MODEL_1B, "device_map", micro_batch=4, sequence=512))
    assert truth.split["compute"] * CARDS <= 1.0


def test_loader_sets_the_pace() -> None:
    """A job whose loaders make w batches at a time cannot step faster than batch time over w."""
    loader = Loader(batch_seconds=2.0, workers=4, spread=0.02)
    truth, _ = _run(Training(work.RESNET50, "ddp", micro_batch=64, micro_seconds=0.1, loader=loader), 60.0)
    assert truth.optimizer_step_s == pytest.approx(0.5, rel=0.1)
    assert truth.job_class.value == "host"
    assert truth.detail == "input"


def test_layers_blended_or_not_give_the_same_time() -> None:
    """Alternation too fast for any sensor is blended; the step lasts as long as kernels plus exchanges."""
    plan = Training(work.BERT_LARGE, "tp", micro_batch=8, sequence=512, jitter=0.0)
    truth, world = _run(plan)
    spec = world.cards[0].card
    compute_s = work.training_seconds(spec, plan.model, 8 * 512, plan.utilization) / CARDS
    assert truth.split["compute"] * truth.optimizer_step_s == pytest.approx(compute_s, rel=0.1)


def test_server_pauses_for_all_cards_together() -> None:
    """In a lull every card of a server is idle at the same time."""
    plan = Serving(work.MODEL_8B, "tp", batch=8, output_tokens=100, busy_seconds=6.0, lull_seconds=6.0)
    truth, _ = _run(plan, 90.0)
    assert 0.25 < truth.split["idle"] < 0.75
    assert truth.split["peer_wait"] < 0.1


@pytest.mark.parametrize(
    "strategy",
    ["ddp", "zero1", "zero2", "zero3", "fsdp", "tp", "pp", "offload", "gloo", "dataparallel", "device_map"],
)
def test_split_adds_up(strategy: str) -> None:
    """Whatever runs, the seven states of its time add up to one."""
    truth, _ = _run(Training(work.BERT_LARGE, strategy, micro_batch=4, sequence=384, accumulation=2), 15.0)
    assert sum(truth.split.values()) == pytest.approx(1.0, abs=1e-6)


def test_the_true_step_leaves_out_steps_with_a_pause_however_long_it_is_for_others() -> None:
    """Rank 0 evaluates for one second and waits two more for a slower card: the step is that of the others."""
    ends_s, pauses = [1.0, 2.0, 3.0, 7.0, 8.0], [(3.0, 4.0)]
    assert _step(ends_s, pauses, 0.0, 10.0) == 1.0
    assert _step([1.0, 3.0], [(1.0, 1.5)], 0.0, 10.0) == 1.5
