"""NodeViews by literal values, for tests of everything that shows one: metrics, page, JSON, top, report.

Figures are of the size seen on real nodes (docs/hardware.md); nothing here is computed by gpumon.
"""

from __future__ import annotations

import dataclasses
import math

from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, MigSlice, NvLinkFacts, PowerKind
from gpumon.model.fault import Fault
from gpumon.model.fields import READINGS
from gpumon.model.job import Job, JobCard, JobKind, Layout
from gpumon.model.samples import CardTick, SamplerStats
from gpumon.model.topology import LinkHop, NodeFacts, P2p, PciGpu, Topology, Uplink
from gpumon.model.verdict import Finding, JobClass, Scaling, Straggler, TimeSplit, Verdict
from gpumon.model.view import CardView, DirectionView, JobView, LinkView, NodeView, UplinkView

GB = 1e9
GIB = 2.0**30
WALL_S = 1_790_000_000.0
MONO_S = 5_000.0
NO_NVLINK = NvLinkFacts(links=0, active=0, version="", bytes_per_second_per_direction=math.nan, peers=())

HOSTILE_NAMES = (
    "a\nb",
    'say "hi"',
    "back\\",
    "tab\there",
    'curly{x="1"}',
    "# HELP fake",
    "é中",
    "<script>alert(1)</script>",
    "x" * 500,
    "\u202egnp.exe",
    "\x00\x1b[31m",
    "\udcff",
)

_GPM_KEYS = {"sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio"}
_NVLINK_KEYS = {"nvlink_links_active", "nvlink_links_inactive"}
_SERVER_ONLY = (
    _GPM_KEYS
    | _NVLINK_KEYS
    | {
        "ecc_corrected",
        "ecc_uncorrected",
        "row_remap_pending",
        "row_remap_failed",
        "temperature_memory_celsius",
    }
)
# Readings of a busy RTX 5090 in a communication-bound job. Server cards add the rest.
_READINGS: dict[str, float] = {
    "utilization_ratio": 1.0,
    "memory_controller_ratio": 0.22,
    "sm_active_ratio": 0.41,
    "sm_occupancy_ratio": 0.23,
    "tensor_active_ratio": 0.19,
    "dram_active_ratio": 0.31,
    "bus_busy_ratio": 0.61,
    "memory_used_bytes": 27.5 * GIB,
    "memory_total_bytes": 31.8 * GIB,
    "memory_reserved_bytes": 0.5 * GIB,
    "power_watts": 287.4,
    "power_limit_watts": 575.0,
    "power_default_limit_watts": 575.0,
    "energy_joules": 9_123_456.7,
    "temperature_gpu_celsius": 58.0,
    "temperature_memory_celsius": 66.0,
    "temperature_slowdown_celsius": 90.0,
    "sm_clock_hertz": 2.685e9,
    "memory_clock_hertz": 14.001e9,
    "sm_clock_max_hertz": 3.135e9,
    "memory_clock_max_hertz": 14.001e9,
    "throttle_power_seconds": 12.5,
    "throttle_sync_boost_seconds": 0.0,
    "throttle_sw_thermal_seconds": 0.0,
    "throttle_hw_thermal_seconds": 0.0,
    "throttle_hw_power_brake_seconds": 0.0,
    "link_generation": 5.0,
    "link_generation_max": 5.0,
    "link_width_lanes": 16.0,
    "link_width_max_lanes": 16.0,
    "card_generation_max": 5.0,
    "pcie_replays": 3.0,
    "pcie_correctable_errors": 3.0,
    "pcie_nonfatal_errors": 0.0,
    "pcie_fatal_errors": 0.0,
    "nvlink_links_active": 18.0,
    "nvlink_links_inactive": 0.0,
    "ecc_corrected": 2.0,
    "ecc_uncorrected": 0.0,
    "row_remap_pending": 0.0,
    "row_remap_failed": 0.0,
}
_COUNTER_KEYS = {row.key for row in READINGS if row.kind == "counter"}


def uuid(index: int) -> str:
    """Return the UUID of the factory's card with this index."""
    return f"GPU-{0xAAAA0000 + index:08x}-1b2c-4d3e-8f40-{index:012d}"


def card_view(index: int, *, server: bool = False, name: str = "NVIDIA GeForce RTX 5090") -> CardView:
    """Return a busy card: a GeForce one with every source a GeForce has, or a server one with everything."""
    features = {"pcie_counter", "pcie_window", "energy", "process_util", "power_instant"}
    keys = _READINGS.keys() - (set() if server else _SERVER_ONLY)
    readings = {key: _READINGS[key] for key in sorted(keys)}
    readings["power_watts"] += 3.0 * index
    readings["temperature_gpu_celsius"] += index
    if server:
        features |= {"gpm", "nvlink", "ecc", "mig"}
    return CardView(
        card=Card(
            identity=CardIdentity(
                uuid=uuid(index),
                index=index,
                name=name,
                pci_address=f"0000:{0x10 * (index + 1) % 256:02x}:00.0",
                architecture="hopper" if server else "blackwell",
                minor=index,
                numa_node=index // 4,
            ),
            capabilities=Capabilities(
                features=frozenset(features),
                pcie_source=LinkSource.COUNTER,
                nvlink_source=LinkSource.FIELD if server else LinkSource.NONE,
                power_kind=PowerKind.RING,
                counter_bits=32,
            ),
            nvlink=NvLinkFacts(18, 18, "4.0", 450 * GB, ("switch",) * 18) if server else NO_NVLINK,
        ),
        tick=CardTick(
            uuid=uuid(index),
            up=True,
            fault=None,
            last_sample_s=MONO_S - 0.2,
            power_kind=PowerKind.RING,
            readings=readings,
            throttle_reasons=frozenset({"sw_power_cap"} if index == 3 else ()),
            faults={}
            if server
            else {"row_remap_pending": Fault.NOT_SUPPORTED, "row_remap_failed": Fault.NOT_SUPPORTED},
        ),
        pcie=link_view(rx=28.1 * GB + index * 1e8, tx=27.7 * GB + index * 1e8, ceiling=63.0 * GB),
        nvlink=link_view(rx=212.0 * GB, tx=211.0 * GB, ceiling=450.0 * GB) if server else None,
        busy_seconds_total=4_321.0,
        counters={key: readings[key] for key in readings.keys() & _COUNTER_KEYS},
        throttle_seconds_total={
            "sw_power_cap": 12.5,
            "sync_boost": 0.0,
            "sw_thermal": 0.0,
            "hw_thermal": 0.0,
            "hw_power_brake": 0.0,
        },
    )


def link_view(*, rx: float, tx: float, ceiling: float) -> LinkView:
    """Return a link that was watched for an hour at these rates (bytes a second)."""
    attainable = 0.9 * ceiling

    def direction(rate: float) -> DirectionView:
        return DirectionView(
            bytes_per_second=rate,
            half_width_bytes_per_second=0.01 * rate,
            peak_bytes_per_second=min(ceiling, 1.9 * rate),
            observed_ratio=0.98,
            saturation_ratio=rate / attainable,
            bytes_total=3600.0 * rate,
            observed_bytes_total=3528.0 * rate,
            observed_seconds_total=3528.0,
            saturated_seconds_total=611.0,
        )

    return LinkView(
        rx=direction(rx),
        tx=direction(tx),
        ceiling_bytes_per_second=ceiling,
        attainable_bytes_per_second=attainable,
        ceiling_assumed=False,
        attainable_learned=True,
        narrowest_hop="0000:10:00.0",
        downtrained=False,
    )


def lost(view: CardView) -> CardView:
    """Return the card after it fell off the bus half a minute ago."""
    tick = CardTick(uuid=view.tick.uuid, up=False, fault=Fault.LOST, last_sample_s=MONO_S - 30.0)
    return dataclasses.replace(
        view, tick=tick, pcie=LinkView(), nvlink=None, xids={79: (1, WALL_S - 30.0)}, busy_seconds_total=math.nan
    )


COMMUNICATION = Verdict(
    job_class=JobClass.COMMUNICATION,
    detail="bandwidth",
    confidence=0.93,
    since_s=MONO_S - 840.0,
    time_split=TimeSplit(
        compute=0.35,
        communication=0.48,
        overlap=0.09,
        memory=0.03,
        host_wait=0.02,
        peer_wait=0.02,
        idle=0.01,
        uncertainty=0.06,
    ),
    step_seconds=0.467,
    strategy="ddp",
    evidence=(
        "PCIe carries 28.1 GB/s in and 27.7 GB/s out on every card, in the same instants.",
        "While the links are busy, power falls by 276 W: the work stops for the transfer.",
        "The transfers fill 57 % of each 0.467 s step.",
    ),
    against="Power that stays level while the links are busy.",
    findings=(
        Finding(
            finding="no_accumulation",
            severity="warning",
            audience="customer",
            title="Gradients are exchanged after every micro-batch",
            evidence=("A transfer of 14.2 GB follows each 0.16 s of computing.",),
            advice="Accumulate gradients over 4 or more micro-batches (no_sync) before each exchange.",
            title_zh="每个微批次后都同步梯度",
            advice_zh="先累积 4 个以上微批次(no_sync)再同步。",
            gain=(1.3, 1.8),
        ),
    ),
    scaling=Scaling(
        efficiency=0.41,
        evidence="period",
        recommended_gpus=4,
        recommended_set=(0, 1, 2, 3),
        slowdown=True,
        uncertainty=0.05,
    ),
    advice="Accumulate gradients before each exchange, or run on 4 cards: they reach 96 % of this speed.",
    advice_zh="同步前先累积梯度,或改用 4 张卡:速度可达现在的 96 %。",
    window_s=30.0,
)
INPUT_BOUND = Verdict(
    job_class=JobClass.HOST,
    detail="input",
    confidence=0.84,
    since_s=MONO_S - 300.0,
    time_split=TimeSplit(
        compute=0.31,
        communication=0.04,
        overlap=0.02,
        memory=0.02,
        host_wait=0.55,
        peer_wait=0.04,
        idle=0.02,
        uncertainty=0.08,
    ),
    step_seconds=0.9,
    strategy="ddp",
    evidence=("The cards are idle for 0.5 s of each 0.9 s step.", "Loader threads use 7.9 of 8 CPUs."),
    advice="Give the loader more CPUs or workers.",
    advice_zh="给数据加载更多 CPU 或进程。",
    window_s=30.0,
)
COMPUTE = Verdict(
    job_class=JobClass.COMPUTE,
    confidence=0.97,
    since_s=MONO_S - 3000.0,
    time_split=TimeSplit(0.9, 0.01, 0.05, 0.02, 0.01, 0.01, 0.0, 0.04),
    step_seconds=0.31,
    strategy="ddp",
    evidence=("Power holds at 548 W of 575 W.", "Links carry 1.1 GB/s of 57 GB/s."),
    window_s=30.0,
)
HOT = Verdict(
    job_class=JobClass.THROTTLED,
    detail="thermal",
    confidence=0.88,
    since_s=MONO_S - 200.0,
    time_split=TimeSplit(0.55, 0.1, 0.03, 0.02, 0.0, 0.3, 0.0, 0.08),
    evidence=("Card 3 was slowed by heat for 71 % of the last 30 s.", "Card 3 at 91 C."),
    advice="Tell the machine's operator: card 3 is too hot.",
    advice_zh="请联系机器管理员：3 号卡过热。",
    window_s=30.0,
)
IDLE = Verdict(
    job_class=JobClass.IDLE,
    confidence=0.99,
    since_s=MONO_S - 1900.0,
    time_split=TimeSplit(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.01),
    evidence=("No kernel has run for 31 minutes; 27.5 GiB of each card are held.",),
    advice="Stop the process, or start the work.",
    advice_zh="停止进程,或开始工作。",
    window_s=60.0,
)
UNKNOWN = Verdict(job_class=JobClass.UNKNOWN, confidence=0.3, evidence=("Watched for 8 s so far.",), window_s=8.0)


def job_view(name: str, gpus: tuple[int, ...], verdict: Verdict = COMMUNICATION, tenant: str = "acme") -> JobView:
    """Return a running container job on these cards, with every figure a job can have."""
    return JobView(
        job=Job(
            gpu_job=name,
            kind=JobKind.CONTAINER,
            tenant=tenant,
            cards=tuple(JobCard(uuid=uuid(index), memory_bytes=27.0 * GIB) for index in gpus),
            processes=tuple((4000 + index, 777_000 + index) for index in gpus),
            container="3f1c9a7e5b20",
            user="user1000",
            allocated=len(gpus),
            start_wall_s=WALL_S - 3600.0,
            first_seen_s=MONO_S - 3600.0,
            layout=Layout(framework="pytorch", launcher="torchrun", asked="ddp", ranks_here=len(gpus)),
        ),
        verdict=verdict,
        utilization_ratio=1.0,
        power_watts=290.0 * len(gpus),
        memory_bytes=27.0 * GIB * len(gpus),
        energy_joules_total=1.1e6 * len(gpus),
        link_saturation={"pcie": 0.51, "uplink": 0.74},
        class_seconds_total={"communication": 840.0, "compute": 120.0},
        time_seconds_total={"compute": 2400.0, "communication": 3300.0, "idle": 60.0},
    )


def straggling(view: JobView, gpu: int, verdict: Verdict | None = None) -> JobView:
    """Return the job with one card that the others wait for; without a verdict of its own, for an unknown cause."""
    straggler = Straggler(uuid=uuid(gpu), gpu=gpu, cause="thermal", cost_ratio=0.18)
    verdict = verdict or dataclasses.replace(view.verdict, detail="straggler")
    return dataclasses.replace(view, verdict=dataclasses.replace(verdict, stragglers=(straggler,)))


def node_view(cards: tuple[CardView, ...], jobs: tuple[JobView, ...], *, simulated: bool = False) -> NodeView:
    """Return the node with these cards, four to a switch, and these jobs."""
    uuids = tuple(card.card.identity.uuid for card in cards)
    groups = tuple(uuids[start : start + 4] for start in range(0, len(uuids), 4))
    addresses = tuple(f"0000:{0x40 * (number + 1):02x}:01.0" for number in range(len(groups)))
    return NodeView(
        seq=5000,
        mono_s=MONO_S,
        wall_s=WALL_S,
        nvml_up=True,
        nvml_fault="",
        node=NodeFacts(
            hostname="node-17",
            virtualization="none",
            kernel="6.8.0-60-generic",
            driver_version="580.95.05",
            cpu_count=128,
            simulated=simulated,
            standing="host",
            host_pids=True,
            boot_wall_s=WALL_S - 86_400.0,
        ),
        topology=Topology(
            uplinks=tuple(
                Uplink(address, group, LinkHop(address, "", 5, 16, 5, 16))
                for address, group in zip(addresses, groups, strict=True)
                if len(group) > 1
            ),
            p2p=tuple(
                P2p(uuids[a], uuids[b], "PXB" if a // 4 == b // 4 else "SYS", "chipset_not_supported")
                for a in range(len(uuids))
                for b in range(a + 1, len(uuids))
            ),
            pci_gpus=tuple(PciGpu(card.card.identity.pci_address, "nvidia", 16, 16) for card in cards),
        ),
        cards=cards,
        uplinks=tuple(
            UplinkView(address, group, 63.0 * GB, 56.7 * GB, rx_saturation_ratio=0.74, tx_saturation_ratio=0.71)
            for address, group in zip(addresses, groups, strict=True)
            if len(group) > 1
        ),
        jobs=jobs,
        findings=(),
        gpus_expected=len(cards),
        sampler=SamplerStats(
            duration_seconds={"card": 0.004, "processes": 0.0046, "host": 0.001, "analysis": 0.0021},
            samples={"card": 40_000, "processes": 1667, "host": 5000, "analysis": 5000},
            missed={"card": 2},
            last_sample_s={"card": MONO_S, "processes": MONO_S - 1.2, "host": MONO_S, "analysis": MONO_S},
            nvml_errors={"not_supported": 21},
            rejected={"power_over_limit": 1},
            cpu_seconds=61.5,
            driver_seconds=88.0,
        ),
        analysis_seconds=0.0021,
    )


def geforce(jobs: int = 1) -> NodeView:
    """Return 8x RTX 5090 without NVLink: one job on all cards, or up to eight on equal parts of them."""
    each = 8 // jobs
    return node_view(
        tuple(card_view(index) for index in range(8)),
        tuple(job_view(f"c.3f1c9a7e5b{n:02d}", tuple(range(n * each, (n + 1) * each))) for n in range(jobs)),
    )


def sxm(jobs: int = 1) -> NodeView:
    """Return 8x H100 SXM with NVLink, GPM and ECC."""
    each = 8 // jobs
    cards = tuple(card_view(index, server=True, name="NVIDIA H100 80GB HBM3") for index in range(8))
    views = tuple(job_view(f"s.81{n}.0", tuple(range(n * each, (n + 1) * each))) for n in range(jobs))
    linked = {"pcie": 0.2, "nvlink": 0.47, "uplink": 0.3}
    return node_view(cards, tuple(dataclasses.replace(view, link_saturation=linked) for view in views))


def crowded() -> NodeView:
    """Return 16 cards and 20 jobs of every kind: the most a page must show well."""
    verdicts = (COMMUNICATION, INPUT_BOUND, COMPUTE, IDLE, UNKNOWN)
    jobs = tuple(
        job_view(f"c.{n:012x}", (n % 16,), verdicts[n % len(verdicts)], tenant=f"tenant{n % 3}") for n in range(20)
    )
    return node_view(tuple(card_view(index) for index in range(16)), jobs)


def mig() -> NodeView:
    """Return a board with three slices beside a whole one (figures of cases/mig-board-vs-slice.json)."""
    board, whole = (
        card_view(0, server=True, name="Example GPU 80GB"),
        card_view(1, server=True, name="Example GPU 80GB"),
    )
    profiles = (("1g.10gb", 1.0), ("2g.20gb", 9.0), ("3g.40gb", 20.0))
    slices = tuple(
        MigSlice(f"MIG-bbbb000{n}-0000-5000-8000-00000000000{n}", profile, n, 0)
        for n, (profile, _) in enumerate(profiles, start=1)
    )
    readings = {**board.tick.readings, "power_watts": 300.0, "temperature_gpu_celsius": 60.0}
    del readings["utilization_ratio"], readings["memory_controller_ratio"]
    used = {part.mig_uuid: gib * GIB for part, (_, gib) in zip(slices, profiles, strict=True)}
    board = dataclasses.replace(
        board,
        card=dataclasses.replace(board.card, mig_enabled=True, mig_slices=slices),
        tick=dataclasses.replace(board.tick, readings=readings, mig_memory_used_bytes=used),
    )
    whole_readings = {**whole.tick.readings, "power_watts": 100.0, "utilization_ratio": 0.1}
    whole = dataclasses.replace(whole, tick=dataclasses.replace(whole.tick, readings=whole_readings))
    job = job_view("p.6ba7b810", (0,))
    cards = tuple(JobCard(uuid=uuid(0), mig_uuid=part.mig_uuid) for part in slices[:2])
    return node_view((board, whole), (dataclasses.replace(job, job=dataclasses.replace(job.job, cards=cards)),))


def lost_card() -> NodeView:
    """Return 8x RTX 5090 of which card 5 fell off the bus under a job on all of them."""
    view = geforce()
    cards = tuple(lost(card) if card.card.identity.index == 5 else card for card in view.cards)
    return dataclasses.replace(view, cards=cards, jobs=(dataclasses.replace(view.jobs[0], gpus_lost=1),))


def no_driver() -> NodeView:
    """Return the node before its driver is there: no card is known."""
    view = node_view((), ())
    return dataclasses.replace(
        view,
        nvml_up=False,
        nvml_fault=Fault.DRIVER_NOT_LOADED.value,
        node=dataclasses.replace(view.node, driver_version=""),
        topology=Topology(pci_gpus=(PciGpu("0000:10:00.0", "none", 16, 16),)),
    )


def no_jobs() -> NodeView:
    """Return eight cards that nobody uses."""
    return node_view(tuple(card_view(index) for index in range(8)), ())


def hostile() -> NodeView:
    """Return a node where every name an outsider can choose is an attack."""
    jobs = []
    for number, name in enumerate(HOSTILE_NAMES):
        view = job_view(f"c.{number:012x}", (number % 2,))
        job = dataclasses.replace(view.job, pod=name, namespace=name, user=name, layout=Layout(framework=name))
        jobs.append(dataclasses.replace(view, job=job))
    return node_view(tuple(card_view(index, name=HOSTILE_NAMES[index]) for index in range(2)), tuple(jobs))
