"""How the job's cards talk to each other: switches that slow it down, paths it does not take, transfers that hang.

Each function asks one question of one job and says why in numbers. Catalogue and words: `model.findings`.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import gigabytes
from gpumon.analysis.findings import gains, signals
from gpumon.analysis.findings.detector import Detector, Found
from gpumon.analysis.findings.subject import Subject
from gpumon.analysis.strategy import LOOPBACK
from gpumon.model.fault import Fault
from gpumon.model.text import counted
from gpumon.model.verdict import JobClass

ON = frozenset({"1", "true", "yes", "y", "on"})
# Docker and Kubernetes give 64 MB. NCCL alone takes about 33 MB for each pair of ranks (NVIDIA/nccl#290), and each
# loader passes its batches there.
SMALL_SHM_BYTES = 256 * 2.0**20
# NCCL_P2P_DISABLE against NVLink: 5.2 instead of 222 GB/s (4x A100 SXM). Over PCIe 24 instead of about 13.
P2P_GAIN_NVLINK = (0.7, 0.97)
P2P_GAIN_PCIE = (0.0, 0.45)
# gloo takes 0.70 s a micro-step where NCCL takes 0.19 (2x TITAN X): of the exchange itself at least half goes.
GLOO_GAIN = (0.5, 0.9)
FROM_THE_START_S = 180.0  # loading weights included


def _exchanges(subject: Subject) -> bool:
    """Return True where the job's cards are seen to move data between them."""
    return subject.size > 1 and any(facts.seen.pcie.known and not facts.seen.pcie.quiet for facts in subject.cards)


def _mean_rate(subject: Subject) -> float:
    rates = [facts.seen.pcie.rate for facts in subject.cards if not math.isnan(facts.seen.pcie.rate)]
    return sum(rates) / len(rates) if rates else math.nan


def nccl_p2p_disabled(subject: Subject, edge: float) -> Found | None:
    """The variable is set and the driver allows what it forbids."""
    value = dict(subject.layout.nccl).get("NCCL_P2P_DISABLE", "")
    allowed = sum(pair.p2p == "ok" for pair in subject.pairs)
    if value.lower() not in ON or allowed < len(subject.pairs) or not _exchanges(subject):
        return None
    links = "NVLink" if subject.nvlink else "PCIe"
    part = P2P_GAIN_NVLINK if subject.nvlink else P2P_GAIN_PCIE
    return Found(
        (
            f"NCCL_P2P_DISABLE={value} is set, and the driver allows direct access over {links} between all "
            f"{allowed} pairs of the job's cards",
            f"PCIe carries {gigabytes(_mean_rate(subject))} a card instead",
        ),
        gains.removing(subject.share("communication"), part),
    )


def nccl_shm_disabled(subject: Subject, edge: float) -> Found | None:
    """The variable is set where shared memory is the only way but sockets."""
    value = dict(subject.layout.nccl).get("NCCL_SHM_DISABLE", "")
    direct = bool(subject.pairs) and all(pair.p2p == "ok" for pair in subject.pairs)
    forbidden = dict(subject.layout.nccl).get("NCCL_P2P_DISABLE", "").lower() in ON
    if value.lower() not in ON or subject.size < 2 or (direct and not forbidden):
        return None
    loopback = subject.rate("loopback_bytes_per_second")
    if not loopback >= LOOPBACK * edge:
        return None
    return Found(
        (
            f"NCCL_SHM_DISABLE={value} is set, and {gigabytes(loopback)} go through the job's loopback device",
            "the driver does not allow direct access between all of its cards",
        ),
        gains.removing(subject.share("communication"), GLOO_GAIN),
    )


def shm_small(subject: Subject, edge: float) -> Found | None:
    """Several ranks or loaders share a /dev/shm of Docker's default size."""
    sizes = [process.shm_size_bytes for process in subject.processes if not math.isnan(process.shm_size_bytes)]
    loaders = [process for process in subject.relatives if process.comm.startswith("pt_data")]
    if not sizes or min(sizes) > SMALL_SHM_BYTES or (len(subject.processes) < 2 and not loaders):
        return None
    sharing = f"{counted(len(subject.processes), 'process')} on the cards"
    sharing += f" and {counted(len(loaders), 'loader')}" if loaders else ""
    return Found((f"/dev/shm holds {min(sizes) / 2**20:.0f} MiB and {sharing} share it",))


def shm_separate(subject: Subject, edge: float) -> Found | None:
    """The ranks of one job live in several containers and their traffic goes through the loopback device."""
    groups = {process.cgroup for process in subject.processes if not isinstance(process.cgroup, Fault)}
    loopback = subject.rate("loopback_bytes_per_second")
    if len(groups) < 2 or subject.job.kind.value not in ("container", "pod") or subject.layout.backend == "gloo":
        return None
    if not loopback >= LOOPBACK * edge or subject.size < 2:
        return None
    return Found(
        (
            f"the {len(subject.processes)} processes lie in {len(groups)} containers, and {gigabytes(loopback)} go "
            "through the loopback device",
        ),
        gains.removing(subject.share("communication"), GLOO_GAIN),
    )


def gloo_backend(subject: Subject, edge: float) -> Found | None:
    """gloo was asked for, and gradients are seen to pass through loopback sockets."""
    loopback = subject.rate("loopback_bytes_per_second")
    if subject.layout.backend != "gloo" or subject.size < 2 or not loopback >= LOOPBACK * edge:
        return None
    sentences = [f"{gigabytes(loopback)} go through the job's loopback device while its cards wait"]
    cpus = subject.rate("gpu_process_cpus")
    if not math.isnan(cpus):
        sentences.append(f"its {len(subject.processes)} processes use {cpus:.1f} CPUs")
    return Found(tuple(sentences), gains.removing(subject.share("communication", "host_wait"), GLOO_GAIN))


def hung_collective(subject: Subject, edge: float) -> Found | None:
    """All cards have stood in a transfer since the job began."""
    began_s = subject.verdict.since_s - subject.job.first_seen_s
    if subject.verdict.job_class is not JobClass.HUNG or subject.size < 2 or not subject.seen_from_start:
        return None
    if not began_s <= FROM_THE_START_S:
        return None
    utilization = min(facts.seen.utilization for facts in subject.cards)
    return Found(
        (
            f"all {subject.size} cards show at least {100 * utilization:.0f} % utilization and move "
            f"{gigabytes(_mean_rate(subject))} a card since {max(0.0, began_s):.0f} s after the start",
        )
    )


def vllm_custom_allreduce_off(subject: Subject, edge: float) -> Found | None:
    """vLLM was asked for tensor parallelism over more than two cards without NVLink."""
    layout = subject.layout
    if layout.framework != "vllm" or layout.tensor_parallel <= 2 or subject.nvlink:
        return None
    return Found(
        (
            f"asked for: tensor parallelism over {layout.tensor_parallel} cards, which have no NVLink; vLLM uses its "
            "own kernel over PCIe on two cards only",
        )
    )


DETECTORS: tuple[Detector[Subject], ...] = (
    Detector("nccl_p2p_disabled", (signals.ENVIRONMENT, signals.PEER_ACCESS, signals.PCIE), nccl_p2p_disabled),
    Detector("nccl_shm_disabled", (signals.ENVIRONMENT, signals.LOOPBACK, signals.PEER_ACCESS), nccl_shm_disabled),
    Detector("shm_small", (signals.SHARED_MEMORY,), shm_small, any_class=True),
    Detector("shm_separate", (signals.LOOPBACK, signals.PROCESS_LIST), shm_separate),
    Detector("gloo_backend", (signals.BACKEND, signals.LOOPBACK), gloo_backend),
    Detector("hung_collective", (signals.UTILIZATION, signals.PCIE, signals.POWER), hung_collective),
    Detector("vllm_custom_allreduce_off", (signals.COMMAND_LINE,), vllm_custom_allreduce_off, any_class=True),
)
