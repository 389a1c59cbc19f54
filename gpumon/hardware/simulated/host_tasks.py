"""What a training process does on the host between its steps: feeding batches, saving, evaluating."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from gpumon.hardware.simulated.engine import Program
from gpumon.hardware.simulated.job import Job
from gpumon.hardware.simulated.physics import Work
from gpumon.hardware.simulated.timeline import Label

_PREFETCHED_PER_WORKER = 2  # PyTorch's default


@dataclass(frozen=True, slots=True)
class Loader:
    """A data loader. With no workers the batch is made in the training process itself."""

    batch_seconds: float  # CPU time to make one batch for one rank
    workers: int = 4  # processes of each rank
    batch_bytes: float = 4e6  # read from disk for it
    card_bytes: float = 0.0  # copied to the card: images are unpacked, text is next to nothing
    spread: float = 0.15


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A save every `every_steps` optimizer steps, by rank 0 alone or sharded over all ranks."""

    every_steps: int
    size_bytes: float
    sharded: bool = False
    bytes_per_second: float = 0.0  # 0: the node's disk


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A forward-only phase every `every_steps` optimizer steps, no exchange between cards."""

    every_steps: int
    seconds: float


class InputFeed:
    """When each rank's next batch is ready."""

    def __init__(self, job: Job, loader: Loader | None) -> None:
        self._job = job
        self._loader = loader
        # Per rank: when each worker has finished its latest batch, and when the last batches were taken.
        self._free_s: list[list[float]] = []
        self._taken_s: list[list[float]] = []
        if loader is not None:
            workers = max(loader.workers, 1)
            now = job.engine.now
            self._free_s = [[now] * workers for _ in range(job.size)]
            self._taken_s = [[now] * (workers * _PREFETCHED_PER_WORKER) for _ in range(job.size)]

    def next_batch(self, rank: int) -> Program:
        """Wait until this rank's next batch is there."""
        loader, job = self._loader, self._job
        if loader is None:
            return
        seconds = loader.batch_seconds * max(0.3, job.rng.gauss(1.0, loader.spread))
        now = job.engine.now
        if loader.workers == 0:
            job.disk_read.add(now, now + seconds, loader.batch_bytes)
            yield from job.idle(rank, Label.INPUT, seconds)
            self._copy(rank)
            return
        free, taken = self._free_s[rank], self._taken_s[rank]
        # A worker begins a batch when it is free and a place in the queue is: one was taken that many batches ago.
        begun = max(heapq.heappop(free), taken.pop(0))
        ready = begun + seconds
        heapq.heappush(free, ready)
        job.loader_cpu.add(begun, ready, seconds)
        job.disk_read.add(begun, ready, loader.batch_bytes)
        if ready > now:
            yield from job.idle(rank, Label.INPUT, ready - now, cpu_share=-0.95)
        taken.append(job.engine.now)
        self._copy(rank)

    def _copy(self, rank: int) -> None:
        """Send the batch to the card; from pinned memory this runs beside the kernels."""
        if self._loader is not None and self._loader.card_bytes > 0:
            self._job.copy(rank, True, self._loader.card_bytes, Label.INPUT)


def save(job: Job, rank: int, checkpoint: Checkpoint) -> Program:
    """Write this rank's part of a checkpoint; ranks without one go on and wait in the next collective."""
    if rank != 0 and not checkpoint.sharded:
        return
    writers = job.size if checkpoint.sharded else 1
    size = checkpoint.size_bytes / writers
    rate = (checkpoint.bytes_per_second or job.host.disk_bytes_per_second) / writers
    yield job.copy(rank, False, size, Label.CHECKPOINT, pinned=False)
    seconds = size / rate
    job.disk_write.add(job.engine.now, job.engine.now + seconds, size)
    yield from job.idle(rank, Label.CHECKPOINT, seconds * job.spread(), cpu_share=-0.5)


def evaluate(job: Job, rank: int, evaluation: Evaluation, kernels: Work) -> Program:
    """Run forward passes for a while."""
    left = evaluation.seconds
    while left > 0:
        seconds = min(0.15, left)
        yield job.kernel(rank, kernels, seconds)
        left -= seconds
