"""Where a job's card time goes: what the layout says of waiting, and what two witnesses say together."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpumon.analysis import work
from gpumon.analysis.activity import LevelRange
from gpumon.analysis.case import confidence_of
from gpumon.analysis.evidence import CardEvidence
from gpumon.analysis.hysteresis import Standing, settle
from gpumon.analysis.overlap import Overlap
from gpumon.analysis.points import POINTS
from gpumon.analysis.verdict import Judgement
from gpumon.model.job import Layout
from gpumon.model.verdict import JobClass, TimeSplit
from tests.analysis.scripted import HostScript, Phase, Script, judged, watch
from tests.findings import subjects

GB = 1e9
WORK, WAIT = 450.0, 170.0  # watts of a RTX 5090 that works, and of one that waits in a collective
DDP = Layout(framework="pytorch", launcher="torchrun", asked="ddp", world_size=4, ranks_here=4)


def split_of(scripts: list[Script], **options: object) -> TimeSplit:
    """Return the time split of the last verdict, which must be stated."""
    split = judged(scripts, **options).time_split  # type: ignore[arg-type]  # options of judged, passed on
    assert split is not None
    return split


def work_of(card: CardEvidence, *, gap: float = 0.0, waits: float = 1.0, staged: bool = False) -> work.Work:
    """Return how much of a training card's time is work."""
    zeros = np.zeros(POINTS)
    return work.of_card(card, gap, serving=zeros, split_in_layers=False, staged=staged, waits=zeros + waits)


@pytest.mark.parametrize("memory_share", [0.1, 0.4, 0.7])
def test_work_and_memory_follow_from_power_and_activity(memory_share: float) -> None:
    """The shares of a training's passes and optimizer come back within 0.12 from the readings both would cause."""
    compute_share = 0.8 - memory_share
    watts = 0.2 * 150.0 + compute_share * 500.0 + memory_share * (150.0 + 0.57 * 350.0)
    activity = 0.5 * compute_share + 0.85 * memory_share
    card = subjects.evidence("GPU-0", 0)
    power = replace(card.power, mean=watts)
    quiet = replace(card.pcie, rx=0.0, tx=0.0)
    seen = replace(card, gap=0.0, power=power, memory_controller=activity, pcie=quiet)
    done = work_of(seen)
    assert float(done.total.mean()) == pytest.approx(0.8, abs=0.12)
    assert float(done.memory.mean()) == pytest.approx(memory_share, abs=0.12)


def test_a_card_that_cannot_wait_works_at_whatever_power() -> None:
    """A card alone that draws little works all the time a kernel is resident."""
    card = subjects.evidence("GPU-0", 0)
    seen = replace(card, power=replace(card.power, mean=170.0))
    done = work_of(seen, gap=0.1, waits=0.0)
    assert done.total == pytest.approx(np.full(POINTS, 0.9))


def test_an_upper_level_of_memory_activity_may_be_a_mix() -> None:
    """Optimizer and passes in one sample: an upper level of 0.7 for half of the time is not memory for half of it."""
    card = subjects.evidence("GPU-0", 0)
    humps = replace(card.memory_humps, low=0.2, high=0.7, share_high=0.5, separation=0.99, samples=280)
    assert humps.two
    seen = replace(card, gap=0.0, memory_controller=0.45, memory_humps=humps)
    assert float(work_of(seen).memory.mean()) == pytest.approx(0.28, abs=0.05)


def test_the_highest_power_of_a_slow_sensor_is_no_level_of_work() -> None:
    """Power a moment below its highest for most of the time is no work where the memory is read for a sixth of it."""
    card = subjects.evidence("GPU-0", 0)
    levels = LevelRange((18.0, 105.0), (140.0, 142.0), (195.0, 199.0), learned=True)
    power = replace(card.power, mean=185.0, separation=0.9)
    quiet = replace(card.pcie, rx=0.0, tx=0.0)
    seen = replace(card, gap=0.0, power=power, power_limit=350.0, levels=levels, pcie=quiet)
    blurred, sharp = (work_of(replace(seen, memory_controller=activity)) for activity in (0.16, 0.45))
    likely = np.exp(-blurred.misfit)
    assert float(blurred.total @ likely / likely.sum()) < 0.5
    assert float(sharp.total.mean()) > 0.75


def test_layers_that_are_cut_up_do_not_draw_the_limit() -> None:
    """Tensor parallelism at 0.6 of the limit in each sample works for more than half of the time."""
    card = subjects.evidence("GPU-0", 0)
    levels = LevelRange((30.0, 140.0), (45.0, 200.0), (290.0, 450.0), learned=False)
    power = replace(card.power, mean=270.0)
    quiet = replace(card.pcie, rx=0.0, tx=0.0)
    seen = replace(card, gap=0.0, power=power, power_limit=450.0, memory_controller=0.3, levels=levels, pcie=quiet)
    zeros = np.zeros(POINTS)
    done = work.of_card(seen, 0.0, serving=zeros, split_in_layers=True, staged=False, waits=zeros + 1.0)
    assert float(done.total.mean()) > 0.62


def test_a_stage_waits_while_its_link_is_quiet() -> None:
    """Equal power while a link is busy and while it is not shows that a replica works, and says nothing of a stage."""
    card = subjects.evidence("GPU-0", 0)
    busy = replace(card.pcie, busy=(0.15, 0.2))
    test = Overlap(valid=True, watts_busy=250.0, watts_quiet=252.0, standard_error=2.0)
    levels = LevelRange((50.0, 60.0), (120.0, 180.0), (420.0, 500.0), learned=False)
    seen = replace(card, gap=0.0, power=replace(card.power, mean=250.0), pcie=busy, overlap=test, levels=levels)
    seen = replace(seen, memory_controller=math.nan)
    assert float(work_of(seen).total.mean()) >= 0.9
    assert float(work_of(seen, staged=True).total.mean()) <= 0.6
    assert float(work_of(seen, gap=0.4).total.mean()) <= 0.5


def test_stages_wait_for_each_other() -> None:
    """In a pipeline waiting with quiet links is waiting for a peer, and a bubble, not small messages."""
    phases = (Phase(0.4, WORK), Phase(0.02, WAIT, 8 * GB, 8 * GB, memory=0.05), Phase(0.58, WAIT, memory=0.02))
    layout = Layout(framework="megatron", asked="pp", pipeline_parallel=4, world_size=4)
    verdict = judged([Script(phases) for _ in range(4)], layout=layout)
    assert verdict.time_split is not None
    assert verdict.time_split.peer_wait == pytest.approx(0.58, abs=0.08)
    assert (verdict.job_class, verdict.detail) == (JobClass.COMMUNICATION, "pipeline_bubble")


def test_layers_and_their_messages_do_not_overlap() -> None:
    """Tensor parallelism never works while it exchanges, however busy the link looks."""
    phases = (Phase(1.0, 340.0, 12 * GB, 12 * GB, memory=0.25),)
    layout = Layout(framework="vllm", asked="tp", tensor_parallel=4, world_size=4)
    verdict = judged([Script(phases) for _ in range(4)], layout=layout)
    assert verdict.time_split is None or verdict.time_split.overlap == 0.0


def test_layers_that_exchange_for_most_of_the_time_do_not_work_meanwhile() -> None:
    """Where power leaves the work open, the time for which a layer's messages fill the link says how much it can be."""
    phases = (Phase(0.015, 350.0, 50 * GB, 50 * GB, memory=0.25), Phase(0.005, 350.0, memory=0.25))
    layout = Layout(framework="megatron", asked="tp", tensor_parallel=4, world_size=4)
    verdict = judged([Script(phases) for _ in range(4)], layout=layout)
    assert verdict.job_class is JobClass.COMMUNICATION


def test_levels_that_were_never_seen_leave_a_tenth_of_doubt() -> None:
    """A job that messages hold for nearly all of the time is named so with 0.9 where no level was learned."""
    phases = (Phase(0.019, 150.0, 50 * GB, 50 * GB, memory=0.1), Phase(0.001, 150.0, memory=0.1))
    layout = Layout(framework="megatron", asked="tp", tensor_parallel=4, world_size=4)
    verdict = judged([Script(phases) for _ in range(4)], layout=layout)
    assert (verdict.job_class, verdict.confidence) == (JobClass.COMMUNICATION, pytest.approx(0.9, abs=0.005))


def test_a_replica_that_does_not_work_exchanges() -> None:
    """Bytes move for 0.7 of the step and the work stands still for 0.4 of it: 0.3 are overlap."""
    phases = (
        Phase(0.3, WORK, memory=0.4),
        Phase(0.3, WORK, 20 * GB, 20 * GB, memory=0.4),
        Phase(0.4, WAIT, 20 * GB, 20 * GB, memory=0.05),
    )
    split = split_of([Script(phases) for _ in range(4)], layout=DDP)
    assert split.communication == pytest.approx(0.4, abs=0.06)
    assert split.overlap == pytest.approx(0.3, abs=0.08)


def test_a_server_idles_between_requests_and_not_between_tokens() -> None:
    """Lulls are idle; the short gaps in which the host starts the next token are the host's."""
    phases = (Phase(4.0, 300.0, kernel=0.9, memory=0.8), Phase(2.0, 90.0, kernel=0.0))
    layout = Layout(framework="vllm", asked="single", world_size=1)
    split = split_of([Script(phases)], layout=layout, host=HostScript(cpus=0.4), seconds=48)
    assert split.idle == pytest.approx(1 / 3, abs=0.06)
    assert split.host_wait == pytest.approx(0.067, abs=0.04)


def test_collectives_through_the_host_are_communication() -> None:
    """With gloo no kernel runs while gradients are added up: communication by the host path, not a wait for input."""
    phases = (
        Phase(0.5, WORK),
        Phase(0.2, 100.0, 0.0, 4 * GB, kernel=0.0),
        Phase(0.6, 90.0, kernel=0.0),
        Phase(0.2, 100.0, 4 * GB, 0.0, kernel=0.0),
    )
    layout = replace(DDP, backend="gloo")
    verdict = judged([Script(phases) for _ in range(2)], layout=layout, host=HostScript(cpus=1.6))
    assert (verdict.job_class, verdict.detail) == (JobClass.COMMUNICATION, "host_path")
    assert verdict.time_split is not None
    assert verdict.time_split.communication == pytest.approx(2 / 3, abs=0.08)


def test_copies_of_batches_are_no_exchange() -> None:
    """What only comes in is copied beside the kernels: no overlap with a collective."""
    phases = (Phase(0.7, WORK, 6 * GB, 0.05 * GB, memory=0.4), Phase(0.3, WORK, memory=0.4))
    split = split_of([Script(phases) for _ in range(2)], layout=DDP)
    assert split.overlap <= 0.05
    assert split.compute >= 0.8


def test_confidence_near_a_half_is_a_guess() -> None:
    """A share of 0.52 says hardly more than a coin, one of 0.8 nearly all, and the two sides mirror each other."""
    assert confidence_of(0.52) < 0.6
    assert confidence_of(0.8) > 0.95
    assert confidence_of(0.42) == pytest.approx(1.0 - confidence_of(0.58))


def test_a_verdict_that_judgements_contradict_loses_confidence() -> None:
    """What stands may stay for its minute, but what speaks for its rival makes it a guess."""
    standing = Standing(JobClass.COMPUTE, "", 0.95, since_s=0.0, changed_s=100.0, judged_s=100.0)
    rival = Judgement(JobClass.HOST, "input", 0.9)
    for now_s in (104.0, 108.0, 112.0, 116.0):
        standing = settle(standing, rival, regime_s=0.0, now_s=now_s)
    assert standing.job_class is JobClass.COMPUTE
    assert standing.confidence < 0.6


def test_a_hang_is_surer_the_longer_it_lasts() -> None:
    """At five minutes a doubt is left, which fades."""
    script = Script((Phase(1.0, WAIT, memory=0.02),))
    verdicts = watch([script] * 2, seconds=420, layout=DDP)
    hung = [verdict.confidence for verdict in verdicts if verdict.job_class is JobClass.HUNG]
    assert hung[0] < 0.85
    assert hung[-1] > 0.92


def test_a_job_that_goes_to_and_fro_is_as_sure_as_its_cycle() -> None:
    """Fifteen seconds of steps and fifteen of saving: each is named while it lasts, and neither for sure."""
    steps, saving = Judgement(JobClass.COMPUTE, "", 0.97), Judgement(JobClass.HOST, "checkpoint", 0.97)
    standing, regime_s, confident = Standing(), 0.0, []
    for now_s in range(3, 124, 3):
        regime_s = float(now_s // 15 * 15)
        judgement = steps if now_s // 15 % 2 == 0 else saving
        standing = settle(standing, judgement, regime_s, float(now_s))
        confident.append((standing.job_class, standing.confidence))
    assert {job_class for job_class, _ in confident[10:]} == {JobClass.COMPUTE, JobClass.HOST}
    assert max(confidence for _, confidence in confident[25:]) < 0.8
