"""Jobs as detectors see them, from literal figures: a healthy job of several cards that a test changes in one place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gpumon.analysis.activity import LevelRange
from gpumon.analysis.evidence import CardEvidence, LinkEvidence
from gpumon.analysis.findings.subject import CardFacts, NodeSubject, Subject, Swap
from gpumon.analysis.humps import Humps
from gpumon.analysis.overlap import Overlap
from gpumon.analysis.strategy import Seen
from gpumon.analysis.time_split import POINTS, Split
from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, NvLinkFacts, PowerKind
from gpumon.model.job import Job, JobCard, JobKind, Layout
from gpumon.model.process import Process
from gpumon.model.samples import Floats
from gpumon.model.topology import CardPath, LinkHop, P2p, Topology
from gpumon.model.verdict import TIME_STATES, JobClass, Verdict

GB = 1e9
TOTAL = 32 * GB
CEILING = 63 * GB


def link(rx: float, tx: float | None = None, busy: tuple[float, float] = (0.5, 0.6)) -> LinkEvidence:
    """A link that was looked at; rates in bytes per second."""
    return LinkEvidence(
        ceiling=CEILING,
        attainable=0.85 * CEILING,
        rx=rx,
        tx=rx if tx is None else tx,
        busy=busy,
        plateau=2 * rx,
        humped=True,
        same_instant=1.0,
        observed=0.9,
        slots=600,
    )


def evidence(uuid: str, gpu: int) -> CardEvidence:
    """A card at work: busy, warm, its link in use for half of the time."""
    power = Humps(low_quarter=150.0, high_quarter=500.0, mean=420.0, separation=0.9, share_high=0.8)
    return CardEvidence(
        uuid=uuid,
        gpu=gpu,
        up=True,
        window=(0.0, 40.0),
        utilization=0.99,
        late_utilization=0.99,
        gap=0.01,
        memory_controller=0.4,
        dram_active=math.nan,
        sm_active=math.nan,
        tensor_active=math.nan,
        power=power,
        power_limit=575.0,
        power_default=575.0,
        power_kind=PowerKind.RING,
        levels=LevelRange((60.0, 70.0), (140.0, 160.0), (480.0, 520.0), learned=True),
        gpm=None,
        sm_clock_ratio=0.95,
        temperature=65.0,
        throttled={},
        pcie=link(8 * GB),
        nvlink=None,
        overlap=Overlap(),
        memory_humps=Humps(mean=0.4),
        memory_used=20 * GB,
        power_coverage=1.0,
    )


def card(index: int, name: str = "NVIDIA GeForce RTX 5090", nvlinks: int = 0) -> Card:
    """A probed card."""
    links = NvLinkFacts(nvlinks, nvlinks, "4.0", 450 * GB, ("switch",) * nvlinks)
    return Card(
        CardIdentity(f"GPU-{index}", index, name, f"0000:{index + 1:02x}:00.0", "blackwell", index, index // 4),
        Capabilities(frozenset({"pcie_counter"}), LinkSource.COUNTER, LinkSource.NONE, PowerKind.RING, 32),
        links,
    )


def facts(index: int) -> CardFacts:
    """One of the job's cards."""
    own = LinkHop(f"0000:{index + 1:02x}:00.0", f"0000:{index:02x}:01.0", 5, 16, 5, 16)
    return CardFacts(
        card=card(index),
        seen=evidence(f"GPU-{index}", index),
        memory_total=TOTAL,
        downtrained=False,
        link=(5, 5, 16, 16),
        path=CardPath(f"GPU-{index}", own.address, (own,), "pci0000:00", index // 4),
        numa_nodes=frozenset({0, 1}),
    )


def process(pid: int, **changes: object) -> Process:
    """A rank."""
    base = Process(
        pid=pid,
        start_ticks=pid,
        ppid=99,
        session=99,
        uid=1000,
        state="R",
        comm="python3",
        cmdline=("python3", "train.py"),
        cgroup="0::/system.slice/docker-a.scope",
        environ={},
        cpu_seconds=10.0,
        threads=32,
        gpu_minors=frozenset({0}),
        shm_size_bytes=16e9,
        io_wait_seconds=0.0,
        cpus_allowed=128,
        loopback_bytes=0.0,
        rss_bytes=4e9,
        swap_bytes=0.0,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class KnownSplit:
    """A time split that is known to a few points: the part of `time_split.Split` that detectors read."""

    shares: dict[str, Floats]

    def mean(self, state: str) -> float:
        """Return the mean share of a state."""
        return float(self.shares[state].mean())

    def between(self, states: tuple[str, ...], outside: float) -> tuple[float, float]:
        """Return the range of some states together, without a share of the points at each end."""
        together = np.sort(sum((self.shares[state] for state in states), start=np.zeros(POINTS)))
        edge = int(outside * together.size)
        return float(together[edge]), float(together[-1 - edge])


def split(**shares: float) -> Split:
    """A time split of the given shares; what is left is compute."""
    given = {**dict.fromkeys(TIME_STATES, 0.0), "compute": 1.0 - sum(shares.values()), **shares}
    wander = np.linspace(0.95, 1.05, POINTS)
    return KnownSplit({state: share * wander for state, share in given.items()})  # type: ignore[return-value]


def certain_split(shares: Mapping[str, float], *, first: str = "compute", lead: float = 0.0) -> Split:
    """A time split of exactly the given shares, without a doubt; states that are not named have none."""
    return Split(
        shares={},
        weights=np.ones(1),
        means={**dict.fromkeys(TIME_STATES, 0.0), **shares},
        spreads=dict.fromkeys(TIME_STATES, 0.0),
        votes={},
        lead=lead,
        first=first,
        spread=0.0,
        signals=frozenset(),
    )


HOST = {
    "gpu_process_cpus": 8.0,
    "busiest_process_cpus": 1.0,
    "relatives_cpus": 0.0,
    "read_bytes_per_second": 0.0,
    "write_bytes_per_second": 0.0,
    "throttled_ratio": 0.0,
    "io_wait_ratio": 0.0,
    "io_pressure_ratio": 0.0,
    "loopback_bytes_per_second": 2e3,
}


def healthy(cards: int = 8) -> Subject:
    """A data-parallel training that computes, on cards without NVLink and without peer access; nothing is wrong."""
    uuids = [f"GPU-{index}" for index in range(cards)]
    pairs = tuple(
        P2p(uuids[a], uuids[b], "NODE", "gpu_not_supported") for a in range(cards) for b in range(a + 1, cards)
    )
    processes = tuple(process(1000 + index) for index in range(cards))
    job = Job(
        gpu_job="container:abc:1",
        kind=JobKind.CONTAINER,
        tenant="acme",
        cards=tuple(JobCard(uuid, memory_bytes=20 * GB) for uuid in uuids),
        processes=tuple((one.pid, one.start_ticks) for one in processes),
        allocated=cards,
        start_wall_s=0.0,
        first_seen_s=0.0,
        layout=Layout(
            framework="huggingface",
            launcher="torchrun",
            asked="ddp",
            world_size=cards,
            backend="nccl",
            privileges=frozenset({"cmdline", "environ"}),
        ),
    )
    return Subject(
        job=job,
        verdict=Verdict(job_class=JobClass.COMPUTE, since_s=0.0),
        strategy=Seen("ddp", "ddp", "ddp", "all cards move 8.0 GB/s each way at once"),
        cards=tuple(facts(index) for index in range(cards)),
        split=split(communication=0.05, overlap=0.2),
        step_s=0.5,
        seconds=40.0,
        host=HOST,
        processes=processes,
        topology=Topology(
            paths=tuple(facts(index).path for index in range(cards)),  # type: ignore[misc]
            p2p=pairs,
            acs_enabled=False,
            iommu="passthrough",
        ),
        swap=Swap(0.0, 0.0),
        tenants_known=True,
    )


def waiting(subject: Subject, share: float = 0.6, detail: str = "bandwidth") -> Subject:
    """The same job, most of whose time goes to exchange."""
    return replace(
        subject,
        verdict=replace(subject.verdict, job_class=JobClass.COMMUNICATION, detail=detail),
        split=split(communication=share, overlap=0.05),
    )


def host_bound(subject: Subject, detail: str, share: float = 0.5) -> Subject:
    """The same job, whose cards wait for the host."""
    return replace(
        subject,
        verdict=replace(subject.verdict, job_class=JobClass.HOST, detail=detail),
        split=split(host_wait=share),
    )


def asked(subject: Subject, **changes: object) -> Subject:
    """The same job with other layout facts."""
    return replace(subject, job=replace(subject.job, layout=replace(subject.job.layout, **changes)))  # type: ignore[arg-type]


def seen(subject: Subject, strategy: str, why: str = "", *, contradicts: bool = False) -> Subject:
    """The same job, recognised as another strategy."""
    asked_for = subject.strategy.asked if contradicts else strategy
    return replace(subject, strategy=Seen(strategy, asked_for, strategy, why, contradicts))


def each_card(subject: Subject, **changes: object) -> Subject:
    """The same job with other evidence of every card."""
    return replace(
        subject,
        cards=tuple(replace(one, seen=replace(one.seen, **changes)) for one in subject.cards),  # type: ignore[arg-type]
    )


def one_card(subject: Subject, at: int, **changes: object) -> Subject:
    """The same job with other evidence of one card."""
    cards = list(subject.cards)
    cards[at] = replace(cards[at], seen=replace(cards[at].seen, **changes))  # type: ignore[arg-type]
    return replace(subject, cards=tuple(cards))


def each_facts(subject: Subject, **changes: object) -> Subject:
    """The same job with other facts of every card."""
    return replace(subject, cards=tuple(replace(one, **changes) for one in subject.cards))  # type: ignore[arg-type]


def hosted(subject: Subject, **rates: float) -> Subject:
    """The same job with other host rates."""
    return replace(subject, host={**subject.host, **rates})


def peers(subject: Subject, status: str = "ok", path: str = "NODE") -> Subject:
    """The same job, with the driver saying this of every pair."""
    pairs = tuple(replace(pair, p2p=status, path=path) for pair in subject.topology.p2p)
    return replace(subject, topology=replace(subject.topology, p2p=pairs))


def nvlinked(subject: Subject, rate: float = 50 * GB) -> Subject:
    """The same job on cards with NVLink that moves so much."""
    fast = LinkEvidence(ceiling=450 * GB, attainable=450 * GB, rx=rate, tx=rate, slots=600, observed=1.0)
    with_links = replace(
        subject, cards=tuple(replace(one, card=card(one.gpu, "NVIDIA H100 80GB HBM3", 18)) for one in subject.cards)
    )
    return peers(each_card(with_links, nvlink=fast), path="NV18")


def node(*jobs: Subject, **changes: object) -> NodeSubject:
    """A node with these jobs."""
    tenants: dict[str, set[str]] = {}
    for job in jobs:
        for uuid in job.uuids:
            tenants.setdefault(uuid, set()).add(job.job.tenant)
    base = NodeSubject(
        jobs=jobs,
        topology=jobs[0].topology,
        virtualization="none",
        tenants={uuid: frozenset(names) for uuid, names in tenants.items()},
    )
    return replace(base, **changes)  # type: ignore[arg-type]
