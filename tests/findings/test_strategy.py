"""How a job is cut up: what each shape is taken for, what a command line decides, and what contradicts it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.strategy import watch
from gpumon.analysis.shape import Shape
from gpumon.analysis.strategy import LOOKS_KEPT, Told, by_shape, recognise
from gpumon.model.job import Job
from tests.findings.subjects import GB, asked, healthy

JOBS = 16  # of the benchmark's, for the suite
# Eight replicas of a model of 1.2e9 parameters: 20 GB held, 4.2 GB of gradients in a step of half a second.
REPLICAS = Shape(
    known=True,
    rate=(8.4 * GB,) * 8,
    lean=(-0.01,) * 8,
    same_instant=1.0,
    humped=1.0,
    quiet_run_s=0.2,
    slot_s=0.02,
    power_swing=0.6,
    power_spread=0.4,
    busy=(0.99,) * 8,
    memory=(20 * GB,) * 8,
    memory_share=(0.63,) * 8,
    computes=True,
)
STEADY = replace(REPLICAS, humped=0.0, quiet_run_s=0.0, power_swing=0.1, power_spread=0.04)
SERVER = replace(STEADY, memory=(29 * GB,) * 8, memory_share=(0.91,) * 8)
STAGES = replace(
    REPLICAS, rate=(0.06 * GB, *(0.13 * GB,) * 6, 0.06 * GB), same_instant=0.3, quiet_run_s=2.0, power_swing=0.6
)
IN_TURN = replace(STAGES, busy=(0.125,) * 8)
QUIET = replace(STEADY, quiet=True, rate=(1e6,) * 8, lean=(0.5,) * 8)
THROUGH_FIRST = replace(REPLICAS, rate=(12 * GB, *(1.8 * GB,) * 7), same_instant=0.03)
FED = replace(THROUGH_FIRST, rate=(9 * GB, *(0.2 * GB,) * 7), lean=(0.9,) * 8, busy=(0.3,) * 8)


def _job(processes: int = 8, **layout: object) -> Job:
    job = asked(healthy(), **{"asked": "", "launcher": "", **layout}).job
    return replace(job, processes=job.processes[:processes])


def _told(shape: Shape, processes: int = 8, *, step_s: float = 0.5, loopback: float = 0.0, cpus: float = 8.0) -> str:
    return by_shape(_job(processes), shape, step_s=step_s, loopback=loopback, process_cpus=cpus).strategy


@pytest.mark.parametrize(
    ("shape", "strategy"),
    [
        (REPLICAS, "ddp"),
        (replace(REPLICAS, memory=(8 * GB,) * 8), "zero1"),
        (replace(REPLICAS, memory=(2.7 * GB,) * 8, quiet_run_s=0.0, humped=0.0), "fsdp"),
        (STEADY, "tp"),
        (SERVER, "tp"),
        (STAGES, "pp"),
        (QUIET, "independent"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_process_for_each_card(shape: Shape, strategy: str) -> None:
    """Volume over memory, pauses, steady power, halves at the ends and silence each tell one strategy."""
    assert _told(shape) == strategy


@pytest.mark.parametrize(
    ("shape", "strategy"), [(IN_TURN, "device_map"), (THROUGH_FIRST, "dataparallel"), (FED, "offload")]
)
def test_one_process_for_all_cards(shape: Shape, strategy: str) -> None:
    """Cards in turn, everything through the first card, and a first card that is only fed."""
    assert _told(shape, processes=1) == strategy


SHORT_LOOKS = replace(STEADY, memory=(8 * GB,) * 8, window_s=0.02, slot_s=0.047, power_spread=0.15)


@pytest.mark.parametrize(("unevenness", "strategy"), [(1.04, "fsdp"), (1.4, "tp"), (1.13, "")])
def test_short_looks_tell_layers_from_shards(unevenness: float, strategy: str) -> None:
    """Steady power and traffic: weights keep the link at one rate, layers in turn show 20 ms of more and of less."""
    assert _told(replace(SHORT_LOOKS, unevenness=unevenness)) == strategy


def test_long_looks_tell_layers_by_little_volume_only() -> None:
    """Counters over 50 ms blur both: at a third of what shards may send it is layers, at four tenths nobody knows."""
    assert _told(replace(STEADY, memory=(6 * GB,) * 8, window_s=0.05)) == "tp"
    assert _told(replace(STEADY, memory=(3.5 * GB,) * 8, window_s=0.05)) == ""


def test_replicas_that_share_their_state_are_not_shards() -> None:
    """All along and much, but no more than ZeRO-2 may send for the memory it holds: not told."""
    all_along = replace(REPLICAS, quiet_run_s=0.0, humped=0.0)
    assert _told(replace(all_along, memory=(4.2 * GB,) * 8)) == ""
    assert _told(replace(all_along, memory=(2.7 * GB,) * 8)) == "fsdp"


def test_little_volume_in_bursts_is_no_gradients() -> None:
    """A twentieth of what gradients would be is stages, which meet by chance, or nothing that is known."""
    assert _told(replace(REPLICAS, rate=(0.4 * GB,) * 8, power_swing=0.1)) == ""


def test_steps_too_short_for_the_power_sensor() -> None:
    """Bursts of an eighth of a second are replicas although power stands still, where short looks show them."""
    quick = replace(REPLICAS, rate=(33 * GB,) * 8, power_spread=0.05, power_swing=0.1, quiet_run_s=0.06)
    assert _told(replace(quick, window_s=0.02, slot_s=0.047), step_s=0.12) == "ddp"
    assert _told(replace(quick, window_s=0.05, slot_s=0.05), step_s=0.12) == ""


def test_stages_that_few_looks_fall_on() -> None:
    """Boundaries that few windows see, unevenly and at once by chance, are stages; counters would see them all."""
    by_chance = replace(STAGES, rate=(0.02 * GB, *(0.13 * GB, 0.06 * GB) * 3, 0.19 * GB), same_instant=0.8)
    assert _told(replace(by_chance, window_s=0.02)) == "pp"
    assert _told(replace(by_chance, window_s=0.05)) == ""


def test_a_first_card_that_moves_what_all_others_do_together() -> None:
    """With four cards that is enough; with two both carry the same, and only taking turns tells."""
    four = replace(THROUGH_FIRST, rate=THROUGH_FIRST.rate[:1] + (4 * GB,) * 3, busy=(0.9,) * 4, lean=(0.0,) * 4)
    two = replace(four, rate=(4 * GB,) * 2, busy=(0.9,) * 2, lean=(0.0,) * 2)
    assert _told(replace(four, same_instant=0.9), processes=1) == "dataparallel"
    assert _told(replace(two, same_instant=0.9), processes=1) == ""
    assert _told(replace(two, same_instant=0.1), processes=1) == "dataparallel"


def test_three_dimensions_are_not_told_by_shape() -> None:
    """Groups that exchange unevenly, 5 to 26 GB/s in and nearly nothing to 23 out, are no single strategy.

    Source: one reading of 8 cards under Megatron with all three kinds of parallelism.
    """
    rx, tx = (26, 9, 5, 14, 21, 12, 8, 17), (23, 11, 0.001, 12, 19, 15, 6, 14)
    rate = tuple(max(pair) * GB for pair in zip(rx, tx, strict=True))
    lean = tuple((to - out) / (to + out) for to, out in zip(rx, tx, strict=True))
    assert _told(replace(STEADY, rate=rate, lean=lean)) == ""


def test_optimizer_on_the_host() -> None:
    """Kernels pause while the processes use more CPUs than spinning takes."""
    assert _told(replace(REPLICAS, busy=(0.5,) * 8), cpus=60.0) == "offload"
    assert _told(replace(REPLICAS, busy=(0.5,) * 8), cpus=8.0) != "offload"


def test_gradients_through_sockets_are_replicas() -> None:
    """Traffic through the loopback device is data parallelism that goes a detour."""
    assert _told(replace(REPLICAS, busy=(0.3,) * 8), loopback=6 * GB, cpus=12.0) == "ddp"


def test_what_two_strategies_would_look_like_is_not_told() -> None:
    """Between once and twice the gradients of 2 bytes lie those of 4 bytes and ZeRO-1; unseen links tell nothing."""
    assert _told(replace(REPLICAS, memory=(14 * GB,) * 8)) == ""
    assert _told(replace(REPLICAS, known=False)) == ""
    assert _told(REPLICAS, step_s=math.nan) == ""


def test_tokens_over_nvlink_are_not_independence() -> None:
    """Half a gigabyte a second is a five-hundredth of NVLink, and more than jobs of one card each move."""
    assert _told(replace(QUIET, rate=(0.5 * GB,) * 8)) == ""


def test_a_hanging_job_is_not_independent() -> None:
    """Quiet links and full utilization without work of any kind say nothing."""
    assert _told(replace(QUIET, computes=False)) == ""


def test_the_command_line_decides_what_looks_the_same() -> None:
    """ZeRO-1 was asked for and replicas are seen: it is ZeRO-1, and nothing is contradicted."""
    seen = recognise(_job(asked="zero1"), (Told("ddp", "gradients"),) * 3)
    assert (seen.strategy, seen.asked, seen.by_shape, seen.contradicts) == ("zero1", "zero1", "ddp", False)


def test_three_dimensions_are_named() -> None:
    """Tensor and pipeline parallel replicas are all three."""
    job = _job(asked="tp+pp", tensor_parallel=2, pipeline_parallel=2, data_parallel=2)
    assert recognise(job, ()).strategy == "tp+pp+dp"


def test_silence_of_a_minute_contradicts_data_parallelism() -> None:
    """Asked for DDP, and at every look each card works alone: that is what is seen, and a contradiction."""
    job, alone = _job(asked="ddp"), Told("independent", "8 cards work")
    assert recognise(job, (alone,) * (LOOKS_KEPT - 1)).strategy == "ddp"
    seen = recognise(job, (alone,) * LOOKS_KEPT)
    assert (seen.strategy, seen.contradicts) == ("independent", True)


def test_stages_may_be_silent() -> None:
    """A pipeline that exchanges next to nothing is not contradicted by silence."""
    assert not recognise(_job(asked="pp"), (Told("independent"),) * LOOKS_KEPT).contradicts


def test_one_odd_look_changes_nothing() -> None:
    """The answer given most often stands."""
    told = (Told("ddp"), Told("fsdp"), Told("ddp"), Told())
    assert recognise(_job(), told).strategy == "ddp"


def test_an_answer_by_amounts_needs_half_of_the_looks() -> None:
    """One look of three that finds a period is not enough; a host that works is seen only when it is caught."""
    assert recognise(_job(), (Told(), Told(), Told("ddp"))).strategy == ""
    assert recognise(_job(), (Told("pp"), Told("pp"), Told("offload"))).strategy == "offload"


def test_phases_that_never_stand_long_are_looked_at() -> None:
    """An optimizer on the host that takes turns with the cards every few seconds is seen, although no window lasts."""
    assert watch(1_000_063, command_line=False).said == "offload"


@pytest.mark.parametrize("command_line", [True, False])
def test_simulated_jobs_are_recognised(command_line: bool) -> None:
    """Of clear jobs at least 0.90 are named right with their command line and 0.75 without, one wrong at most."""
    outcomes = [outcome for outcome in (watch(seed, command_line) for seed in range(JOBS)) if outcome.clear]
    right = sum(outcome.right for outcome in outcomes)
    wrong = [outcome for outcome in outcomes if outcome.said and not outcome.right]
    assert right >= (0.90 if command_line else 0.75) * len(outcomes)
    assert len(wrong) <= 1, wrong
