"""The traps that a verdict must survive: what looks like one thing and is another."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpumon.model.job import Layout
from gpumon.model.verdict import JobClass
from tests.analysis.scripted import HostScript, Phase, Script, blinded, judged, watch

GB = 1e9
WORK, WAIT = 450.0, 170.0  # watts of a RTX 5090 that works, and of one that waits in a collective
DDP = Layout(framework="pytorch", launcher="torchrun", asked="ddp", world_size=8, ranks_here=8)


def ddp_bound(cards: int = 4, **options: object) -> list[Script]:
    """Cards whose all-reduce moves 28 of 63 GB/s for six tenths of the step, the work standing still."""
    phases = (Phase(0.3, WORK), Phase(0.5, WAIT, 28 * GB, 28 * GB, memory=0.06))
    return [Script(phases, **options) for _ in range(cards)]  # type: ignore[arg-type]  # options of Script


def test_a_link_far_from_full_in_a_job_that_only_communicates() -> None:
    """Eight cards level off at 28 of 57 GB/s: communication, and the shared path is named, not the card's own link."""
    verdict = judged(ddp_bound(8), layout=DDP)
    assert (verdict.job_class, verdict.detail) == (JobClass.COMMUNICATION, "uplink")
    assert verdict.confidence >= 0.8
    assert any("level off" in sentence for sentence in verdict.evidence)
    split = verdict.time_split
    assert split is not None
    assert split.communication == pytest.approx(0.625, abs=0.08)
    assert split.compute == pytest.approx(0.375, abs=0.08)


def test_a_cold_start_in_a_job_that_communicated_from_birth() -> None:
    """Nothing was learned of the cards, and the verdict is there and right within 30 s."""
    early = watch(ddp_bound(), seconds=30, layout=DDP)
    assert early[-1].job_class is JobClass.COMMUNICATION
    assert all(verdict.job_class in {JobClass.UNKNOWN, JobClass.COMMUNICATION} for verdict in early)


def test_windows_alone_are_enough() -> None:
    """A fifth of the time seen, one direction a call: the same verdict."""
    assert judged(ddp_bound(windows=True), layout=DDP).job_class is JobClass.COMMUNICATION


def test_heavy_traffic_in_the_shadow_of_work() -> None:
    """The link is as busy, and power stays up meanwhile: compute, the traffic is overlap."""
    phases = (Phase(0.3, WORK), Phase(0.5, WORK + 20, 28 * GB, 28 * GB, memory=0.4))
    verdict = judged([Script(phases) for _ in range(4)], layout=DDP)
    assert verdict.job_class is JobClass.COMPUTE
    assert verdict.time_split is not None
    assert verdict.time_split.overlap >= 0.4


def test_tensor_parallelism_held_by_latency_with_quiet_links() -> None:
    """Small steady messages, kernels resident, low power: communication, although the links carry 2 % of their rate."""
    phases = (Phase(0.02, 300.0, 1.5 * GB, 1.5 * GB, memory=0.2), Phase(0.08, WAIT, 1.2 * GB, 1.2 * GB, memory=0.05))
    layout = Layout(framework="vllm", asked="tp", tensor_parallel=4)
    verdict = judged([Script(phases) for _ in range(4)], layout=layout)
    assert verdict.job_class in {JobClass.COMMUNICATION, JobClass.UNKNOWN}
    assert verdict.job_class is JobClass.UNKNOWN or verdict.detail == "latency"


@pytest.mark.parametrize(
    ("watts", "memory", "expected"),
    [
        (200.0, 0.86, JobClass.MEMORY),  # decode: 0.35 of the limit, and the memory is what is busy
        (374.0, 0.35, JobClass.COMPUTE),  # small matmuls: 0.65 of the limit
        (316.0, 0.25, JobClass.COMPUTE),  # a filler kernel: 0.55 of the limit
    ],
)
def test_low_power_that_is_not_waiting(watts: float, memory: float, expected: JobClass) -> None:
    """A card alone has nobody to wait for: low power is light or memory-bound work."""
    assert judged([Script((Phase(1.0, watts, memory=memory),))]).job_class is expected


def test_offload_with_equal_means_each_way() -> None:
    """Gradients down, silence with busy CPUs, weights up: host, although RX equals TX in the mean."""
    phases = (
        Phase(0.4, WORK),
        Phase(0.4, 120.0, 0.0, 20 * GB, kernel=0.0),
        Phase(0.8, 90.0, kernel=0.0),
        Phase(0.4, 120.0, 20 * GB, 0.0, kernel=0.0),
    )
    layout = Layout(framework="deepspeed", asked="offload", offload=True)
    verdict = judged([Script(phases)], layout=layout, host=HostScript(cpus=12.0))
    assert (verdict.job_class, verdict.detail) == (JobClass.HOST, "offload")


def test_the_checkpoint_inversion() -> None:
    """Seven cards at 100 % wait for the one at 0 %: host, checkpoint, and the idle-looking card is named."""
    waiting = Script((Phase(1.0, WAIT, memory=0.02),))
    holding = Script((Phase(1.0, 90.0, kernel=0.02, memory=0.0),))
    verdict = judged([holding, *[waiting] * 7], layout=DDP, host=HostScript(write=1.5 * GB))
    assert (verdict.job_class, verdict.detail) == (JobClass.HOST, "checkpoint")
    assert [straggler.gpu for straggler in verdict.stragglers] == [0]
    assert verdict.stragglers[0].cause == "host"


def test_a_card_at_its_default_power_limit_is_not_throttled() -> None:
    """The software power cap at the default limit is full load, not a fault."""
    script = Script((Phase(1.0, 570.0, memory=0.4),), throttle=frozenset({"sw_power_cap"}), clock_ratio=0.88)
    assert judged([script]).job_class is JobClass.COMPUTE


def test_a_lowered_limit_that_binds_is_throttled() -> None:
    """The same card limited to 400 of 575 W is held by that limit."""
    script = Script(
        (Phase(1.0, 398.0, memory=0.4),), limit=400.0, throttle=frozenset({"sw_power_cap"}), clock_ratio=0.7
    )
    verdict = judged([script])
    assert (verdict.job_class, verdict.detail) == (JobClass.THROTTLED, "power")


def test_a_twin_at_the_border_is_unknown() -> None:
    """Half the step works and half communicates: either name would be a guess."""
    phases = (Phase(0.5, WORK), Phase(0.5, WAIT, 28 * GB, 28 * GB, memory=0.06))
    assert judged([Script(phases) for _ in range(4)], layout=DDP).job_class is JobClass.UNKNOWN


@pytest.mark.parametrize("signal", ["power", "link", "memory", "utilization", "processes"])
def test_a_missing_signal_makes_no_wrong_verdict(signal: str) -> None:
    """Without one of its signals the job is communication-bound or unknown, never something else."""
    verdict = judged(blinded(ddp_bound(), signal), layout=DDP)
    assert verdict.job_class in {JobClass.COMMUNICATION, JobClass.UNKNOWN}


def test_one_signal_makes_no_verdict() -> None:
    """Utilization alone says nothing but that kernels run."""
    alone = blinded(ddp_bound(), "power", "link", "memory")
    assert judged(alone, layout=DDP, host=None).job_class is JobClass.UNKNOWN


def test_late_polls_change_nothing() -> None:
    """A poller that is held up for 300 ms every other second leaves the verdict as it is."""
    verdict = judged(ddp_bound(late_every_s=2.0), layout=DDP)
    assert verdict.job_class is JobClass.COMMUNICATION


def test_a_steady_job_keeps_its_verdict() -> None:
    """Once given, the verdict of a steady job does not change for four minutes."""
    classes = [verdict.job_class for verdict in watch(ddp_bound()[:2], seconds=240, layout=DDP)]
    changes = sum(left is not right for left, right in pairwise(classes))
    assert changes == 1


@pytest.mark.parametrize(("first_seen_s", "from_s"), [(1.0, 60), (-1000.0, 6)])
def test_a_job_that_loads_its_weights_is_not_held_back(first_seen_s: float, from_s: int) -> None:
    """In its first minute a job that has run no kernel yet reads what it needs; one that has long been there waits."""
    reading = [Script((Phase(1.0, 85.0, kernel=0.0, memory=0.0),))] * 2
    said = watch(reading, 75, host=HostScript(loaders=1.0, read=1e9), first_seen_s=first_seen_s)
    assert all(verdict.job_class is JobClass.UNKNOWN for verdict in said[:from_s])
    assert said[-1].job_class is JobClass.HOST
    assert any(verdict.job_class is JobClass.HOST for verdict in said[from_s : from_s + 12])
