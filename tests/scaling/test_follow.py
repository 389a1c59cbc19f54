"""Jobs followed through time: when a run begins, what makes another one, what is kept of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from gpumon.analysis.evidence import CardEvidence, LinkEvidence
from gpumon.analysis.humps import Humps
from gpumon.analysis.overlap import Overlap
from gpumon.analysis.time_split import Split
from gpumon.model.card import PowerKind
from gpumon.model.job import Job, JobCard, JobKind, Layout
from gpumon.model.past import NOTHING, Past
from gpumon.model.process import Container, ProcessTable
from gpumon.model.report import Report, ReportSource
from gpumon.model.samples import Tick
from gpumon.model.topology import NodeFacts, Topology
from gpumon.model.verdict import JobClass, Verdict
from gpumon.scaling import Memory, Seen, follow, initial_memory
from gpumon.scaling.runs import Sampled, Watched, extend, folded
from tests.history.made import run, uuids
from tests.views import card_view

CARDS = tuple(card_view(number, name="NVIDIA GeForce RTX 4090").card for number in range(8))
NAMES = tuple(card.identity.uuid for card in CARDS)
FACTS = NodeFacts("node", "none", "6.8", "580.95.05", 64, True, "host", True, math.nan)
JOB = Job(
    "container:aaaaaaaaaaaa:1",
    JobKind.CONTAINER,
    "acme",
    tuple(JobCard(uuid, memory_bytes=10e9) for uuid in NAMES[:4]),
    ((100, 5),),
    container="aaaaaaaaaaaa",
    layout=Layout(asked="ddp"),
    workload="0123456789abcdef",
)
NO_PROCESSES = ProcessTable()
VERDICT = Verdict(JobClass.COMMUNICATION, "bandwidth", step_seconds=0.5, window_s=40.0)


def humps(value: float) -> Humps:
    """Return samples that are all alike."""
    return Humps(**{field.name: value for field in dataclasses.fields(Humps)})


def look(uuid: str, utilization: float = 1.0, rate: float = 6e9) -> CardEvidence:
    """Return what one card showed: a link in collectives half of the time."""
    link = LinkEvidence(
        ceiling=31e9, attainable=26e9, rx=rate / 2, tx=rate / 2, plateau=rate, humped=True, same_instant=0.95, slots=500
    )
    nan = math.nan
    return CardEvidence(
        **{field.name: nan for field in dataclasses.fields(CardEvidence) if field.default is dataclasses.MISSING}
        | {
            "uuid": uuid,
            "gpu": 0,
            "up": True,
            "window": (0.0, 40.0),
            "utilization": utilization,
            "power": humps(300.0),
            "power_kind": PowerKind.NONE,
            "levels": None,
            "gpm": None,
            "throttled": {},
            "pcie": link,
            "nvlink": None,
            "overlap": Overlap(),
        }
    )


def split(own: float) -> Split:
    """Return a split: own work, and the rest exchange."""
    zero = np.zeros(64)
    shares = dict.fromkeys(("overlap", "memory", "host_wait", "peer_wait", "idle"), zero)
    shares |= {"compute": zero + own, "communication": zero + 1.0 - own}
    unread = {field.name: None for field in dataclasses.fields(Split)}
    return Split(**{**unread, "shares": shares, "weights": zero + 1.0 / 64})


class Node:
    """Ticks of one job, ten seconds apart, since a job is looked at every ten."""

    def __init__(self, past: Past = NOTHING) -> None:
        self.memory: Memory = initial_memory()
        self.past = past
        self.number = 0

    def watch(
        self,
        rounds: int,
        job: Job | None = JOB,
        *,
        verdict: Verdict = VERDICT,
        busy: Mapping[str, float] | None = None,
        own: float = 0.7,
        energy: Iterator[float] | None = None,
        table: ProcessTable = NO_PROCESSES,
        reports: tuple[Report, ...] = (),
    ) -> None:
        """Follow the job for so many rounds."""
        for _ in range(rounds):
            self.number += 1
            tick = Tick(
                seq=10 * self.number,
                mono_s=10.0 * self.number,
                wall_s=1e9 + 10.0 * self.number,
                nvml_up=True,
                nvml_fault=None,
                node=FACTS,
                cards=CARDS,
                topology=Topology(),
                card_ticks=(),
                processes=table,
                host=None,  # type: ignore[arg-type] # not looked at
                reports=reports,
            )
            jobs = () if job is None else (job,)
            looks = {} if job is None else {card.uuid: look(card.uuid) for card in job.cards}
            looks |= {uuid: look(uuid, utilization) for uuid, utilization in (busy or {}).items()}
            seen = Seen(
                verdicts={one.gpu_job: verdict for one in jobs},
                looks={one.gpu_job: looks for one in jobs},
                splits={one.gpu_job: split(own) for one in jobs},
                energies={one.gpu_job: next(energy) for one in jobs} if energy else {},
            )
            self.memory, self.scalings = follow(self.memory, tick, jobs, seen, self.past)


def test_a_run_begins_when_its_cards_have_settled() -> None:
    """Ranks appear one after the other: a set of cards is a run's only after it stood for a while."""
    node = Node()
    for cards in range(1, 5):
        node.watch(1, dataclasses.replace(JOB, cards=JOB.cards[:cards]))
    assert node.memory.runs == ()
    node.watch(3)
    (seen,) = node.memory.runs
    assert (seen.count, seen.gpus, seen.card, seen.ended) == (4, (0, 1, 2, 3), "NVIDIA GeForce RTX 4090", False)


def test_figures_of_a_run() -> None:
    """Medians and means over what was seen, energy by the mean power of a step."""
    node = Node()
    node.watch(13, energy=iter(np.arange(13) * 12_000.0))
    (seen,) = node.memory.runs
    assert seen.watched_s == 100.0
    assert (seen.step_s, seen.step_spread) == (0.5, 0.0)
    assert seen.shares is not None
    assert seen.shares.own == pytest.approx(0.7)
    assert seen.energy_joules_per_step == pytest.approx(600.0)  # 1,200 W for half a second
    assert seen.job_class == "communication"
    (learned,) = node.memory.rates.values()
    assert (learned.uuids, learned.link, learned.bytes_per_second) == (tuple(sorted(NAMES[:4])), "pcie", 6e9)


def test_another_set_of_cards_is_another_run() -> None:
    """A job that goes on with fewer cards is compared with itself; the old run keeps its figures."""
    node = Node()
    node.watch(10)
    node.watch(10, busy=dict.fromkeys(NAMES[2:4], 0.0), verdict=dataclasses.replace(VERDICT, step_seconds=0.4))
    first, second = node.memory.runs
    assert (first.count, first.step_s) == (4, 0.5)
    assert (second.count, second.step_s) == (2, 0.4)


def test_a_moment_of_rest_is_no_other_set() -> None:
    """A card that rests for a round during a checkpoint leaves the run as it is."""
    node = Node()
    node.watch(6)
    node.watch(1, busy={NAMES[0]: 0.0})
    node.watch(6)
    assert [seen.count for seen in node.memory.runs] == [4]


def test_standing_still_does_not_count() -> None:
    """An idle or hung stretch adds neither time nor steps nor energy."""
    node = Node()
    node.watch(8, energy=iter(np.arange(8) * 12_000.0))
    (before,) = node.memory.runs
    node.watch(5, verdict=Verdict(JobClass.IDLE), energy=iter([500_000.0] * 5))
    (after,) = node.memory.runs
    assert (after.watched_s, after.step_s) == (before.watched_s, 0.5)
    assert after.energy_joules_per_step == before.energy_joules_per_step


def test_an_ended_job_leaves_its_run() -> None:
    """When the job is gone its run is marked, and stays for comparison; few of many are kept."""
    node = Node()
    for number in range(70):
        node.watch(6, dataclasses.replace(JOB, gpu_job=f"container:aaaaaaaaaaaa:{number}"))
    node.watch(1, None)
    assert len(node.memory.runs) == 64
    assert all(seen.ended for seen in node.memory.runs)
    assert node.memory.runs[-1].gpu_job == "container:aaaaaaaaaaaa:69"


def test_runs_of_this_process_are_compared_without_a_history() -> None:
    """A job on one card, then the same on four: the efficiency is known by period."""
    node = Node()
    alone = dataclasses.replace(JOB, gpu_job="container:bbbbbbbbbbbb:1", cards=JOB.cards[:1])
    node.watch(12, alone, own=1.0, verdict=dataclasses.replace(VERDICT, step_seconds=0.35))
    node.watch(12)
    said = node.scalings[JOB.gpu_job]
    assert said is not None
    assert (said.evidence, said.efficiency) == ("period", pytest.approx(0.7))


def test_a_shared_card_is_not_judged() -> None:
    """With somebody else on one of its cards nothing is said of the job, and nothing old stays."""
    node = Node()
    node.watch(12)
    assert node.scalings[JOB.gpu_job] is not None
    cards = (dataclasses.replace(JOB.cards[0], shared=True), *JOB.cards[1:])
    node.watch(1, dataclasses.replace(JOB, cards=cards))
    assert node.scalings[JOB.gpu_job] is None


def test_what_a_job_reports_is_its_runs() -> None:
    """Reported samples become the run's throughput, by their median."""
    node = Node()
    node.watch(4)
    for rate in (100.0, 104.0, 400.0, 101.0, 99.0):
        node.watch(1, reports=(Report(0.0, ReportSource.SOCKET, pid=100, samples_per_second=rate),))
    (seen,) = node.memory.runs
    assert (seen.throughput, seen.unit) == (101.0, "samples")


def _table(image: str, *, pending: bool = False) -> ProcessTable:
    full = "a" * 64
    return ProcessTable(
        containers={} if pending else {full: Container(full, "c", "docker", image, {})},
        containers_pending=frozenset({full} if pending else ()),
    )


def test_the_image_is_part_of_the_workload() -> None:
    """Another image is another workload, another version of it is not; while it is being asked for, no run begins."""
    names = set()
    for image in ("", "ghcr.io/acme/train:1", "ghcr.io/acme/train:2@sha256:00", "ghcr.io/acme/other:1"):
        node = Node()
        node.watch(4, table=_table(image, pending=True))
        assert node.memory.runs == ()
        node.watch(4, table=_table(image))
        names.add(node.memory.runs[0].workload)
    assert len(names) == 3
    assert JOB.workload in names


def test_copies_to_the_host_teach_no_rate() -> None:
    """Offload moves as much in turn as collectives do at once, and says nothing about sets of cards."""
    node = Node()
    node.watch(6, verdict=dataclasses.replace(VERDICT, job_class=JobClass.HOST, detail="offload"))
    assert node.memory.rates == {}


def test_a_long_run_keeps_few_values_from_all_of_its_time() -> None:
    """A week of looks is held in 64 values that cover it."""
    steps = Sampled()
    for number in range(60_000):
        steps = steps.add(float(number))
    assert len(steps.values) < 64
    assert steps.median == pytest.approx(30_000, rel=0.1)


def test_missing_energy_is_missing() -> None:
    """Without a counter the energy of a step is unknown, not zero."""
    watched = Watched(run(2, step_s=math.nan))
    for number in range(5):
        watched = extend(watched, VERDICT, None, span_s=10.0, wall_s=float(number), energy_joules=math.nan)
    assert math.isnan(watched.run.energy_joules_per_step)
    assert uuids(2) == watched.run.uuids


def test_a_forgotten_run_is_dropped_and_begun_anew() -> None:
    """What the history is told to forget goes from memory too; a job that goes on is watched from then on."""
    node = Node()
    node.watch(10)
    (before,) = node.memory.runs
    node.past = Past(forgotten=frozenset({before.beginning}))
    node.watch(1)
    (anew,) = node.memory.runs
    assert (before.watched_s, anew.watched_s) == (70.0, 0.0)
    node.watch(3)
    assert node.memory.runs[0].watched_s == 30.0
    node.watch(1, None)
    (ended,) = node.memory.runs
    node.past = Past(forgotten=frozenset({ended.beginning}))
    node.watch(1, None)
    assert node.memory.runs == ()


def test_a_step_and_its_micro_batches_are_one_pace() -> None:
    """A period that is one micro-batch in some windows and the whole step in others has the spread of either."""
    steps = Sampled((2.29, 2.30, 4.60, 4.61, 4.60, 2.31, 4.58, 5.4))
    brought = folded(steps)
    assert brought.median == pytest.approx(4.6)
    assert brought.spread < 0.01
    assert folded(Sampled()).values == ()
