"""What the host does to the job: loaders, threads, swap, disk, the far socket, the first process that works alone."""

from __future__ import annotations

import math

from gpumon.analysis.case import gigabytes, percent
from gpumon.analysis.findings import gains, signals
from gpumon.analysis.findings.detector import Detector, Found
from gpumon.analysis.findings.subject import Subject
from gpumon.model.fault import Fault
from gpumon.model.text import counted
from gpumon.model.verdict import JobClass

BUSY_LOADER = 0.7  # CPUs a loader process uses when it never waits for the queue
HALF_CORES = 0.5  # of the CPUs the job may use: then more loaders find room
WAITS = ("host_wait", "peer_wait")  # of the split: the late card's own wait, and that of the others for it
LOADING_S = 180.0  # of a job's life: weights are read before the first step, and the window has to forget it
READS = 5e6  # bytes per second from disk: batches, not logs
HELD = 0.1  # of the quota's periods
DISK_WAIT = 0.3  # seconds a second
SWAPPED_BYTES = 256e6
SWAP_BYTES_PER_SECOND = 10e6
THREADS_PER_CPU = 8
LOOKS_APART_S = 10
OFTEN = 0.08  # of the looks: saving every thousand steps costs 6 % (recorded 8x H100 run) and is nobody's mistake
ALL_THE_TIME = 0.5
FEWEST_LOOKS = 9
INPUT_GAIN = (0.3, 0.95)  # of the wait for input, once enough loaders run


def _waits_for_input(subject: Subject) -> bool:
    """Return True where the cards wait for batches: not for weights to be loaded, nor for an optimizer."""
    verdict = subject.verdict
    input_bound = verdict.job_class is JobClass.HOST and verdict.detail == "input"
    loading = subject.serving or subject.age_s < LOADING_S
    return input_bound and not loading and subject.strategy.strategy != "offload"


def _loaders(subject: Subject) -> int:
    """Return how many loader processes run; PyTorch and others name them after their rank's program or pt_data."""
    ranks = {process.pid for process in subject.processes}
    return sum(process.ppid in ranks for process in subject.relatives)


def _cpus(subject: Subject) -> int:
    return max((process.cpus_allowed for process in subject.processes), default=0)


def _said_waits(subject: Subject) -> str:
    low, high = subject.share(*WAITS)
    return f"the cards wait for input, or for one that does, {percent(low)} to {percent(high)} of the time"


def loader_workers_few(subject: Subject, edge: float) -> Found | None:
    """Every loader works all the time, and CPUs are free."""
    if not _waits_for_input(subject):
        return None
    loaders, used, cpus = _loaders(subject), subject.rate("relatives_cpus"), _cpus(subject)
    if subject.rate("throttled_ratio") >= HELD or subject.rate("io_pressure_ratio") >= DISK_WAIT:
        return None
    if loaders > 0 and not used >= BUSY_LOADER * edge * loaders:
        return None
    # A process without loaders that spins for its card looks like one that makes batches: it must have said that it
    # has none, or be seen to read.
    makes_batches = subject.layout.loader_workers == 0 or subject.rate("read_bytes_per_second") >= READS * edge
    makes_batches = makes_batches and not subject.waiting.culprits  # else one rank is late, for reasons of its own
    if loaders == 0 and not (makes_batches and subject.rate("busiest_process_cpus") >= BUSY_LOADER * edge):
        return None
    if (0.0 if math.isnan(used) else used) + len(subject.processes) > HALF_CORES / edge * cpus:
        return None
    asked = subject.layout.loader_workers
    sentence = (
        f"{counted(loaders, 'loader process')} for {counted(subject.size, 'card')} use {used:.1f} CPUs without a pause"
        if loaders
        else f"no loader process runs for {counted(subject.size, 'card')}: the training process makes its own batches"
    )
    said = f"; asked for: {asked} each" if asked >= 0 else ""
    return Found(
        (f"{sentence}{said}", f"the job may use {counted(cpus, 'CPU')}", _said_waits(subject)),
        gains.removing(subject.share(*WAITS), INPUT_GAIN),
    )


def loader_workers_many(subject: Subject, edge: float) -> Found | None:
    """More loaders than CPUs the job may use, and its quota holds it."""
    loaders, held = _loaders(subject), subject.rate("throttled_ratio")
    if subject.verdict.job_class is not JobClass.HOST or not held >= HELD * edge:
        return None
    cpus = subject.quota_cpus if not math.isnan(subject.quota_cpus) else float(_cpus(subject))
    if loaders + len(subject.processes) <= cpus:
        return None
    return Found(
        (
            f"{counted(loaders, 'loader')} and {counted(len(subject.processes), 'process')} on the cards have "
            f"{cpus:g} CPUs to share; the quota "
            f"held them in {percent(held)} of its periods",
            _said_waits(subject),
        ),
        gains.removing(subject.share(*WAITS), (0.1, 0.8)),
    )


def threads_wrong(subject: Subject, edge: float) -> Found | None:
    """OMP_NUM_THREADS leaves the CPUs unused while one thread is the pace, or threads crowd the CPUs."""
    if subject.verdict.job_class is not JobClass.HOST:
        return None
    values = {
        process.environ.get("OMP_NUM_THREADS", "")
        for process in subject.processes
        if not isinstance(process.environ, Fault)
    }
    cpus, processes = _cpus(subject), len(subject.processes)
    threads = sum(process.threads for process in subject.processes)
    busiest = subject.rate("busiest_process_cpus")
    if values == {"1"} and subject.verdict.detail == "offload" and busiest <= 1.5 and cpus >= 4 * processes:
        return Found(
            (
                f"OMP_NUM_THREADS=1 in {counted(processes, 'process')}; the busiest uses {busiest:.1f} of the "
                f"{cpus} CPUs while the cards wait",
            )
        )
    if values <= {""} and cpus and threads > THREADS_PER_CPU * cpus and subject.rate("throttled_ratio") >= HELD * edge:
        return Found(
            (
                f"{threads} threads of {counted(processes, 'process')} share {counted(cpus, 'CPU')} and are held in "
                f"{percent(subject.rate('throttled_ratio'))} of the quota's periods; OMP_NUM_THREADS is not set",
            )
        )
    return None


def swapping(subject: Subject, edge: float) -> Found | None:
    """The host swaps, and memory of this job is what was put out."""
    swap = subject.swap
    moved = swap.in_bytes_per_second + swap.out_bytes_per_second
    sizes = [process.swap_bytes for process in (*subject.processes, *subject.relatives)]
    swapped = sum(size for size in sizes if not math.isnan(size))
    if swapped < SWAPPED_BYTES * edge or not moved >= SWAP_BYTES_PER_SECOND * edge:
        return None
    return Found(
        (
            f"{swapped / 1e9:.1f} GB of the job lie in swap; the host swaps {gigabytes(swap.in_bytes_per_second)} in "
            f"and {gigabytes(swap.out_bytes_per_second)} out",
        )
    )


def disk_slow(subject: Subject, edge: float) -> Found | None:
    """The cards wait for input, and the loaders wait for the disk."""
    if not _waits_for_input(subject):
        return None
    pressure, waits = subject.rate("io_pressure_ratio"), subject.rate("io_wait_ratio")
    if not (pressure >= DISK_WAIT * edge or waits >= DISK_WAIT * edge * max(1, _loaders(subject))):
        return None
    read, written = subject.rate("read_bytes_per_second"), subject.rate("write_bytes_per_second")
    if read < READS or written > read:  # a checkpoint makes its writers wait, too
        return None
    waited = pressure if pressure >= DISK_WAIT * edge else min(1.0, waits)
    return Found(
        (
            f"processes of the job waited for the disk {percent(waited)} of the time"
            + (f" and read {gigabytes(read)}" if not math.isnan(read) else ""),
            _said_waits(subject),
        ),
        gains.removing(subject.share(*WAITS), INPUT_GAIN),
    )


def numa_remote(subject: Subject, edge: float) -> Found | None:
    """Every CPU a process may run on lies on another socket than its card."""
    far = [
        (facts.gpu, facts.card.identity.numa_node, facts.numa_nodes)
        for facts in subject.cards
        if facts.card.identity.numa_node >= 0
        and facts.numa_nodes
        and facts.card.identity.numa_node not in facts.numa_nodes
    ]
    if not far:
        return None
    gpu, node, nodes = far[0]
    return Found(
        (
            f"{len(far)} of {subject.size} processes may only run on the other socket: card {gpu} is near NUMA node "
            f"{node}, its process bound to {', '.join(map(str, sorted(nodes)))}",
        )
    )


def rank0_busy(subject: Subject, edge: float) -> Found | None:
    """Again and again one process works alone on the host while the others wait."""
    saves = subject.saves
    again = saves.times >= 2 or saves.share >= ALL_THE_TIME
    if subject.size < 2 or not again or len(saves.looks) < FEWEST_LOOKS or saves.share < OFTEN * edge:
        return None
    said = f"card {saves.gpu} ran nothing while its process worked alone and the others waited, at "
    said += f"{sum(saves.looks)} of {len(saves.looks)} looks, {LOOKS_APART_S} s apart"
    written = subject.rate("write_bytes_per_second")
    sentences = (said, f"the job writes {gigabytes(written)}") if written >= READS else (said,)
    return Found(sentences, gains.removing((0.5 * saves.share, saves.share), (0.5, 0.95)))


DETECTORS: tuple[Detector[Subject], ...] = (
    Detector(
        "loader_workers_few",
        (signals.UTILIZATION, signals.CPU_TIME, signals.AFFINITY, signals.PROCESS_LIST),
        loader_workers_few,
    ),
    Detector("loader_workers_many", (signals.CPU_QUOTA, signals.AFFINITY, signals.PROCESS_LIST), loader_workers_many),
    Detector("threads_wrong", (signals.ENVIRONMENT, signals.AFFINITY, signals.CPU_TIME), threads_wrong),
    Detector("swapping", (signals.SWAP,), swapping, looks=3, any_class=True),
    Detector("disk_slow", (signals.DISK_WAIT, signals.UTILIZATION), disk_slow),
    Detector("numa_remote", (signals.NUMA,), numa_remote, looks=3, any_class=True),
    Detector("rank0_busy", (signals.UTILIZATION, signals.DISK_WRITES), rank0_busy, any_class=True),
)
