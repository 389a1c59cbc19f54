"""For every finding: a job that has it, and its near twin that looks much the same and must not be told so."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpumon.analysis.findings.subject import CardFacts, NodeSubject, Saves, Subject, Swap
from gpumon.analysis.humps import Humps
from gpumon.model.job import JobCard
from gpumon.model.topology import LinkHop, Uplink
from gpumon.model.verdict import JobClass
from tests.findings.subjects import (
    GB,
    TOTAL,
    asked,
    card,
    each_card,
    each_facts,
    healthy,
    host_bound,
    hosted,
    link,
    node,
    nvlinked,
    one_card,
    peers,
    process,
    seen,
    waiting,
)


@dataclass(frozen=True, slots=True)
class Case:
    """`there` has the finding, `twin` has not; `about` says in what the twin differs."""

    finding: str
    there: Subject
    twin: Subject
    about: str


@dataclass(frozen=True, slots=True)
class NodeCase:
    """The same for a finding of the node; `node_of` puts the job into its node."""

    finding: str
    there: NodeSubject
    twin: NodeSubject
    about: str


JOB = healthy()
QUIET = link(1e6)


def _loaders(subject: Subject, count: int, **host: float) -> Subject:
    """The job with loader processes below its ranks, each of which uses most of a CPU unless said otherwise."""
    ranks = subject.processes
    relatives = tuple(
        process(5000 + number, ppid=ranks[number % len(ranks)].pid, comm="pt_data_worker") for number in range(count)
    )
    return hosted(replace(subject, relatives=relatives), **{"relatives_cpus": 0.95 * count, **host})


def _given(subject: Subject, count: int) -> Subject:
    """The job with so many cards more that it was given and does not use."""
    uuids = tuple(f"GPU-{10 + number}" for number in range(count))
    held = (*subject.job.cards, *(JobCard(uuid, used=False) for uuid in uuids))
    return replace(subject, given=uuids, job=replace(subject.job, cards=held, allocated=subject.size + count))


def _neighbour(subject: Subject, tenant: str = "acme", memory: float = 5 * GB) -> Subject:
    """The job with another job on its first card."""
    other = replace(
        subject.job,
        gpu_job="container:def:2",
        tenant=tenant,
        cards=(JobCard("GPU-0", shared=True, memory_bytes=memory),),
    )
    return replace(subject, neighbours=(other,))


def _memory(subject: Subject, share: float) -> Subject:
    return each_card(subject, memory_used=share * TOTAL)


def _processes(subject: Subject, **changes: object) -> Subject:
    return replace(subject, processes=tuple(replace(one, **changes) for one in subject.processes))  # type: ignore[arg-type]


def _far(one: CardFacts) -> CardFacts:
    return replace(one, numa_nodes=frozenset({1 - one.card.identity.numa_node}))


def _near(one: CardFacts) -> CardFacts:
    return replace(one, numa_nodes=frozenset({one.card.identity.numa_node}))


BOUND = waiting(JOB)
P2P_OFF = asked(BOUND, nccl=(("NCCL_P2P_DISABLE", "1"),))
SHM_OFF = hosted(asked(BOUND, nccl=(("NCCL_SHM_DISABLE", "1"),)), loopback_bytes_per_second=2 * GB)
GLOO = hosted(asked(waiting(JOB, detail="host_path"), backend="gloo"), loopback_bytes_per_second=2 * GB)
SEPARATE = replace(
    hosted(BOUND, loopback_bytes_per_second=1 * GB),
    processes=tuple(
        replace(one, cgroup=f"0::/system.slice/docker-{number}.scope") for number, one in enumerate(JOB.processes)
    ),
)
HUNG = replace(
    each_card(JOB, pcie=QUIET),
    verdict=replace(JOB.verdict, job_class=JobClass.HUNG, since_s=40.0),
    seen_from_start=True,
)
TP = seen(asked(BOUND, asked="tp", tensor_parallel=8, framework="vllm"), "tp")
SHARDED = _memory(seen(asked(BOUND, asked="fsdp", accumulation=4), "fsdp"), 0.3)
ACCUMULATED = asked(BOUND, accumulation=8)
SYNCS = each_card(_memory(ACCUMULATED, 0.2), pcie=link(20 * GB))
SMALL = each_card(_memory(waiting(JOB), 0.2), power=Humps(low_quarter=120.0, high_quarter=300.0, mean=220.0))
ONE_PROCESS = replace(JOB, processes=JOB.processes[:1], job=replace(JOB.job, processes=JOB.job.processes[:1]))
DATA_PARALLEL = seen(waiting(ONE_PROCESS), "dataparallel", "one process; card 0 moves 12 GB/s each way")
IN_TURN = seen(
    each_card(waiting(ONE_PROCESS, detail="pipeline_bubble"), gap=0.875),
    "device_map",
    "one process; its cards are busy 100 % in all",
)
LLAMA = asked(IN_TURN, framework="llama.cpp", asked="pp")
OFFLOAD = _memory(seen(host_bound(JOB, "offload"), "offload"), 0.3)
ALONE = each_card(
    seen(asked(each_card(JOB, pcie=QUIET), asked="ddp"), "independent", "8 cards work", contradicts=True), gap=0.02
)
ONE = _given(seen(healthy(1), "single"), 7)
NARROWED = _given(asked(seen(healthy(2), "ddp"), visible_devices="0,1"), 6)
INPUT = host_bound(JOB, "input")
THREADS = hosted(_processes(host_bound(JOB, "offload"), environ={"OMP_NUM_THREADS": "1"}), busiest_process_cpus=1.1)
SAVING = (False, True, True, False)
CHECKPOINT = hosted(replace(JOB, saves=Saves(SAVING * 9, gpu=0)), write_bytes_per_second=1.4e9)
LIMITED = each_card(JOB, power_limit=400.0, power=Humps(low_quarter=150.0, high_quarter=396.0, mean=350.0))

CASES: tuple[Case, ...] = (
    Case("nccl_p2p_disabled", peers(P2P_OFF), P2P_OFF, "the driver refuses direct access anyway"),
    Case("nccl_shm_disabled", SHM_OFF, peers(SHM_OFF), "direct access works, so shared memory is not needed"),
    Case(
        "shm_small",
        _processes(JOB, shm_size_bytes=64 * 2.0**20),
        _processes(JOB, shm_size_bytes=2.0**30),
        "the size NVIDIA's containers ask for",
    ),
    Case("shm_separate", SEPARATE, replace(SEPARATE, processes=JOB.processes), "all ranks in one container"),
    Case("gloo_backend", GLOO, hosted(GLOO, loopback_bytes_per_second=1e5), "gloo is named, but carries no gradients"),
    Case("hung_collective", HUNG, replace(HUNG, verdict=replace(HUNG.verdict, since_s=900.0)), "it hung after a while"),
    Case("vllm_custom_allreduce_off", TP, asked(TP, tensor_parallel=2), "two cards: the kernel is used"),
    Case("tp_over_pcie", TP, nvlinked(TP), "the cards have NVLink"),
    Case("tp_uneven", _given(TP, 2), TP, "every card it has is used"),
    Case("needless_sharding", SHARDED, _memory(SHARDED, 0.85), "a replica would not fit"),
    Case("no_accumulation", BOUND, ACCUMULATED, "gradients are accumulated already"),
    Case("accumulation_syncs", SYNCS, each_card(SYNCS, pcie=link(3 * GB)), "as many bytes as one exchange a step"),
    Case("batch_small", SMALL, _memory(SMALL, 0.8), "the memory is in use"),
    Case("data_parallel", DATA_PARALLEL, BOUND, "a process for each card"),
    Case("device_map_training", IN_TURN, LLAMA, "a server that splits layers"),
    Case("layer_split_one_stream", LLAMA, each_card(LLAMA, gap=0.2), "several requests: all cards work at once"),
    Case(
        "replicas_instead",
        _memory(asked(TP, framework="megatron"), 0.08),
        _memory(asked(TP, framework="megatron"), 0.5),
        "the model needs all cards",
    ),
    Case("needless_offload", OFFLOAD, _memory(OFFLOAD, 0.8), "the cards have no room"),
    Case("asked_not_seen", ALONE, seen(ALONE, "ddp"), "the cards exchange gradients"),
    Case("one_card_used", ONE, seen(healthy(1), "single"), "one card was given"),
    Case("visible_devices_narrow", NARROWED, asked(NARROWED, visible_devices=None), "the variable is not set"),
    Case(
        "cards_idle",
        one_card(JOB, 7, gap=1.0, utilization=0.0),
        one_card(JOB, 7, gap=0.9, utilization=0.1),
        "the card works now and then",
    ),
    Case(
        "mixed_cards",
        replace(JOB, cards=(replace(JOB.cards[0], card=card(0, "NVIDIA GeForce RTX 4090")), *JOB.cards[1:])),
        seen(
            replace(JOB, cards=(replace(JOB.cards[0], card=card(0, "NVIDIA GeForce RTX 4090")), *JOB.cards[1:])),
            "independent",
        ),
        "each card has its own work",
    ),
    Case("two_jobs_one_card", _neighbour(JOB), _neighbour(JOB, tenant="other"), "the other job is somebody else's"),
    Case(
        "loader_workers_few",
        _loaders(INPUT, 8),
        _loaders(INPUT, 8, relatives_cpus=1.0),
        "the loaders have time to spare: more of them do not help",
    ),
    Case(
        "loader_workers_many",
        replace(_loaders(INPUT, 64, throttled_ratio=0.4), quota_cpus=8.0),
        replace(_loaders(INPUT, 64), quota_cpus=8.0),
        "the quota never held them",
    ),
    Case("threads_wrong", THREADS, hosted(THREADS, busiest_process_cpus=14.0), "the processes use many CPUs each"),
    Case(
        "swapping",
        replace(_processes(JOB, swap_bytes=2e9), swap=Swap(30e6, 5e6)),
        replace(JOB, swap=Swap(30e6, 5e6)),
        "somebody else's memory is swapped",
    ),
    Case(
        "disk_slow",
        hosted(INPUT, io_pressure_ratio=0.6, read_bytes_per_second=40e6),
        hosted(INPUT, io_pressure_ratio=0.05, read_bytes_per_second=40e6),
        "reads that nobody waits for",
    ),
    Case(
        "numa_remote",
        replace(JOB, cards=tuple(map(_far, JOB.cards))),
        replace(JOB, cards=tuple(map(_near, JOB.cards))),
        "bound to the card's own socket",
    ),
    Case(
        "rank0_busy",
        CHECKPOINT,
        replace(CHECKPOINT, saves=Saves((True, *(False,) * 30), 0)),
        "one save in five minutes",
    ),
    Case("memory_nearly_full", _memory(JOB, 0.98), _memory(JOB, 0.93), "a few per cent are free"),
    Case(
        "memory_imbalance",
        one_card(JOB, 0, memory_used=0.95 * TOTAL),
        one_card(JOB, 0, memory_used=20 * GB + 8 * 0.5 * GB),
        "contexts of the other ranks on card 0",
    ),
    Case("power_limited", LIMITED, each_card(LIMITED, power_default=400.0), "the limit is the default"),
)

HOT = each_card(JOB, throttled={"sw_thermal": 0.8}, temperature=90.0)
NARROW = each_facts(JOB, downtrained=True, link=(4, 5, 4, 16))


def _below(one: CardFacts, lanes: int) -> CardFacts:
    """The card below a bridge of so many lanes at its full width."""
    assert one.path is not None
    port = one.path.hops[0].upstream
    bridge = LinkHop(port, "0000:00:1c.0", 3, lanes, 3, lanes)
    return replace(one, path=replace(one.path, hops=(*one.path.hops, bridge)))


def _under(lanes: int) -> Subject:
    return replace(JOB, cards=(_below(JOB.cards[0], lanes), *JOB.cards[1:]))


def _first_two(tenant: str, gpu_job: str, first: int) -> Subject:
    """A job of a tenant on two cards."""
    pair = BOUND.cards[first : first + 2]
    return replace(BOUND, cards=pair, job=replace(BOUND.job, gpu_job=gpu_job, tenant=tenant))


SHARED_LINK = Uplink("0000:60:00.0", ("GPU-0", "GPU-1", "GPU-2", "GPU-3"), LinkHop("0000:60:00.0", "", 4, 16, 4, 16))
MEETING = (_first_two("acme", "a", 0), _first_two("other", "b", 2))
DARK = each_card(nvlinked(BOUND, 0.0), pcie=link(4 * GB))
DIRECT = peers(BOUND)


def _stuck(stuck_s: float) -> Subject:
    """The job whose processes have been dead or unkillable for so long."""
    return replace(JOB, stuck_s=stuck_s)


def _redirected(subject: Subject) -> Subject:
    return replace(subject, topology=replace(subject.topology, acs_enabled=True))


NODE_CASES: tuple[NodeCase, ...] = (
    NodeCase("cards_hot", node(HOT), node(each_card(JOB, temperature=90.0)), "hot, and not slowed"),
    NodeCase("link_narrow", node(NARROW), node(each_facts(NARROW, downtrained=False)), "the slot has no more lanes"),
    NodeCase("chipset_slot", node(_under(4)), node(_under(16)), "a switch as wide as the card"),
    NodeCase(
        "uplink_contention",
        node(*MEETING, uplinks=((SHARED_LINK, 0.95),)),
        node(MEETING[0], _first_two("acme", "b", 2), uplinks=((SHARED_LINK, 0.95),)),
        "both jobs are one tenant's",
    ),
    NodeCase(
        "two_tenants_one_card",
        node(JOB, tenants={"GPU-0": frozenset({"acme", "other"})}),
        node(JOB, tenants={"GPU-0": frozenset({"acme", "unassigned"})}),
        "nobody knows whose the other job is",
    ),
    NodeCase("process_stuck", node(_stuck(480.0)), node(_stuck(5.0)), "an exit that takes its time"),
    NodeCase("nvlink_unused", node(DARK), node(nvlinked(BOUND)), "NVLink carries the exchange"),
    NodeCase("acs_redirects", node(_redirected(DIRECT)), node(_redirected(BOUND)), "no direct access to redirect"),
)
# `node` takes the topology of its first job.
