"""Without a signal that would decide, the verdict is unknown: rarer, and never another class."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpumon.analysis.case import Case
from gpumon.analysis.causes import throttled_power
from gpumon.analysis.evidence import JobEvidence
from gpumon.model.job import Layout
from gpumon.model.verdict import JobClass
from tests.analysis.scripted import Phase, Script, blinded, job, judged
from tests.findings import subjects

DDP = Layout(framework="pytorch", launcher="torchrun", asked="ddp", world_size=4, ranks_here=4)


@pytest.mark.parametrize("signal", ["link", "memory", "processes"])
def test_a_hang_that_cannot_be_seen_is_nothing_else(signal: str) -> None:
    """Kernels that wait for ever look like an exchange or light work, and for five minutes nothing says which it is."""
    hanging = [Script((Phase(1.0, 170.0, memory=0.02),)) for _ in range(4)]
    assert judged(blinded(hanging, signal), layout=DDP).job_class is JobClass.UNKNOWN


def test_decode_without_memory_activity_is_not_compute() -> None:
    """A card that draws as little as decode does may be bound by its memory; a card near its limit is not."""
    alone = Layout(framework="vllm", asked="single", world_size=1)
    decode = blinded([Script((Phase(1.0, 260.0, memory=0.86),))], "memory")
    assert judged(decode, layout=alone).job_class is JobClass.UNKNOWN
    matmuls = blinded([Script((Phase(1.0, 540.0, memory=0.4),))], "memory")
    assert judged(matmuls, layout=alone).job_class is JobClass.COMPUTE


def test_decode_over_two_cards_without_memory_activity_is_no_exchange() -> None:
    """Tokens that wait for card memory draw as little as cards that wait for each other; replicas do not decode."""
    decode = [Script((Phase(1.0, 230.0, 1.5e9, 1.5e9, memory=0.7),)) for _ in range(2)]
    server = Layout(framework="vllm", asked="tp", tensor_parallel=2, world_size=2)
    assert judged(blinded(decode, "memory"), layout=server).job_class is JobClass.UNKNOWN
    exchange = (Phase(0.3, 450.0, memory=0.4), Phase(0.7, 170.0, 25e9, 25e9, memory=0.05))
    replicas = blinded([Script(exchange) for _ in range(4)], "memory")
    assert judged(replicas, layout=DDP).job_class is JobClass.COMMUNICATION


def test_decode_on_a_card_of_300_watts_is_not_compute_either() -> None:
    """Tokens draw 0.85 of a small limit; a training that draws as much computes."""
    cards = blinded([Script((Phase(1.0, 255.0, memory=0.85),), limit=300.0, default_limit=300.0)], "memory")
    server = Layout(framework="vllm", asked="single", world_size=1)
    assert judged(cards, layout=server).job_class is JobClass.UNKNOWN
    training = Layout(framework="pytorch", launcher="torchrun", asked="ddp", world_size=1)
    assert judged(cards, layout=training).job_class is JobClass.COMPUTE


def test_gradients_through_the_host_without_processes_are_no_offload() -> None:
    """Down to the host and up again, with no kernel between: gloo or an optimizer there, and only processes tell."""
    phases = (
        Phase(0.5, 450.0),
        Phase(0.1, 100.0, 0.0, 12e9, kernel=0.0),
        Phase(0.6, 90.0, kernel=0.0),
        Phase(0.1, 100.0, 12e9, 0.0, kernel=0.0),
    )
    cards = blinded([Script(phases) for _ in range(4)], "processes")
    assert judged(cards, layout=Layout(), host=None).job_class is JobClass.UNKNOWN


def test_small_kernels_with_pauses_and_no_links_are_no_exchange() -> None:
    """A launch-bound replica draws as little as one that waits for its peers, and nothing is seen to move or not to."""
    phases = (Phase(0.07, 190.0, memory=0.12), Phase(0.03, 150.0, kernel=0.0, memory=0.0))
    cards = blinded([Script(phases) for _ in range(4)], "link")
    assert judged(cards, layout=DDP).job_class is JobClass.UNKNOWN


def test_an_unread_limit_leaves_an_active_power_cap_open() -> None:
    """The cap is normal at the default limit and a throttle at a lowered one."""
    capped = replace(subjects.evidence("GPU-0", 0), throttled={"sw_power_cap": 0.9})
    unread = replace(capped, power_limit=math.nan, power_default=math.nan)

    def told(*cards: object) -> bool:
        seen = JobEvidence(0.0, 40.0, cards)  # type: ignore[arg-type]  # cards of one job
        return throttled_power.cannot_tell(Case(job(1, DDP), seen, None))

    assert told(unread)
    assert not told(capped)
    assert not told(replace(unread, throttled={}))


def test_a_job_of_unknown_kind_may_be_a_server() -> None:
    """Tensor-parallel decode without a command line is bound by memory or unknown, not compute."""
    decode = [Script((Phase(1.0, 230.0, 0.3e9, 0.3e9, memory=0.62),)) for _ in range(2)]
    assert judged(decode, layout=Layout()).job_class in {JobClass.MEMORY, JobClass.UNKNOWN}


def test_memory_of_a_job_that_nobody_can_name_is_open() -> None:
    """A card whose memory is busy for 0.6 of the time serves tokens or trains: only what the job is decides which."""
    card = [Script((Phase(1.0, 380.0, memory=0.6),))]
    training = Layout(framework="pytorch", launcher="torchrun", asked="ddp", world_size=1)
    server = Layout(framework="vllm", asked="single", world_size=1)
    assert judged(card, layout=training).job_class is JobClass.COMPUTE
    assert judged(card, layout=server).job_class is JobClass.MEMORY
    assert judged(card, layout=Layout()).job_class is JobClass.UNKNOWN
