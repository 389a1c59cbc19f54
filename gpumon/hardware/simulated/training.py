"""Training jobs whose ranks all do the same: data parallel in its forms, sharded, tensor parallel, through the host.

Each strategy is a class with one program, `step`, that a rank runs once for every optimizer step. Bytes follow from
the algorithms: a ring all-reduce sends 2(N-1)/N of its size from every card, a reduce-scatter or an all-gather half.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.engine import Program, Signal, all_of
from gpumon.hardware.simulated.host_tasks import Checkpoint, Evaluation, InputFeed, Loader
from gpumon.hardware.simulated.job import Group, Job
from gpumon.hardware.simulated.physics import Work
from gpumon.hardware.simulated.timeline import Label
from gpumon.hardware.simulated.work import Model

# Phases are not cut finer than this: no sensor of a card resolves less, and events cost time.
_FINEST_PHASE_S = 12e-3
_MOST_PIECES = 6
# Layers that take turns with their collectives faster than this are run as one blended stretch.
_SLOWEST_BLEND_S = 16e-3
_STRETCH_S = 50e-3
# PyTorch's CPU Adam updates about this many parameters a second on one socket's cores (DeepSpeed: 1 s for 1e9).
_HOST_ADAM_PARAMETERS_PER_SECOND = 1.1e9


@dataclass(frozen=True, slots=True)
class Training:
    """A training run as its author wrote it."""

    model: Model
    strategy: str  # ddp, zero1, zero2, zero3, tp, pp, offload, gloo, dataparallel, device_map, single
    micro_batch: float = 8  # sequences of each replica in one micro-step
    sequence: int = 1024  # tokens in a sequence
    accumulation: int = 1  # micro-steps in an optimizer step
    no_sync: bool = True  # gradients are exchanged in the last micro-step only
    overlap: bool = True  # exchange begins while the backward pass runs
    element_bytes: float = 2.0  # of weights and gradients as they are sent
    utilization: float = 0.6  # of what large matrix products reach
    intensity: float = 0.85  # power of the kernels between awake (0) and dense tensor work (1)
    micro_seconds: float = 0.0  # measured forward and backward on one card; 0: from the arithmetic
    trained_parameters: float = 0.0  # 0: all; fewer with adapters
    transport: str = ""  # "", "staging", "sockets"
    kernel_share: float = 1.0  # below 1: launches are the CPU's limit
    gap_seconds: float = 0.0  # before each micro-step nothing runs for this long: Python, logging, first launches
    jitter: float = 0.01
    loader: Loader | None = None
    checkpoint: Checkpoint | None = None
    evaluation: Evaluation | None = None
    hangs_at_s: float = float("inf")
    slow_rank: int = -1  # its process loses `slow_seconds` on the host in every micro-step
    slow_seconds: float = 0.0

    @property
    def gradient_bytes(self) -> float:
        """Bytes of all gradients as they are sent."""
        return (self.trained_parameters or self.model.parameters) * self.element_bytes

    @property
    def kernels(self) -> Work:
        """What forward and backward do to a card."""
        dense = work.training(self.intensity, self.utilization)
        if self.kernel_share >= 1.0:
            return dense
        return work.launch_bound(self.kernel_share)


class Replicas:
    """What every strategy needs: one rank a card, its share of the arithmetic, its batches."""

    def __init__(self, job: Job, plan: Training, compute_shares: int = 1) -> None:
        self.job = job
        self.plan = plan
        self.group = Group(job, range(job.size), plan.transport)
        self.feed = InputFeed(job, plan.loader)
        card = job.cards[0].card
        tokens = plan.micro_batch * plan.sequence
        whole = plan.micro_seconds or work.training_seconds(card, plan.model, tokens, plan.utilization)
        self.forward_s = whole / 3 / compute_shares
        self.backward_s = whole * 2 / 3 / compute_shares
        self.kernels = plan.kernels
        self.streaming = work.streaming(card)
        trained = plan.trained_parameters or plan.model.parameters
        self.optimizer_s = work.optimizer_seconds(card, trained)
        self.part = (job.size - 1) / job.size

    def begin_micro(self, rank: int) -> Program:
        """Wait for the batch; lose what the host, or a slow host, loses."""
        yield from self.feed.next_batch(rank)
        if self.plan.gap_seconds > 0:
            yield from self.job.idle(rank, Label.HOST_OTHER, self.plan.gap_seconds * self.job.spread())
        if rank == self.plan.slow_rank and self.plan.slow_seconds > 0:
            yield from self.job.idle(rank, Label.INPUT, self.plan.slow_seconds * self.job.spread())

    def end_micro(self, rank: int) -> None:
        """Write down that a micro-step is over."""
        if rank == 0:
            self.job.log.micro_steps_s.append(self.job.engine.now)
            self.job.log.samples += self.plan.micro_batch * self.job.size

    def pieces(self, seconds: float) -> int:
        """Return into how many parts a pass is cut."""
        return max(1, min(_MOST_PIECES, self.plan.model.layers, int(seconds / _FINEST_PHASE_S)))

    def step(self, rank: int) -> Program:
        """One optimizer step of one rank; with one process, rank 0 drives every card."""
        raise NotImplementedError

    def optimize(self, rank: int, share: float = 1.0) -> Signal:
        """Run the optimizer on `share` of the parameters."""
        return self.job.kernel(rank, self.streaming, self.optimizer_s * share)


class DistributedDataParallel(Replicas):
    """DDP: gradients all-reduced in buckets, from the back of the model to its front."""

    def step(self, rank: int) -> Program:
        """One optimizer step of one rank."""
        plan = self.plan
        for micro in range(plan.accumulation):
            yield from self.begin_micro(rank)
            exchange = self.job.size > 1 and (micro == plan.accumulation - 1 or not plan.no_sync)
            yield self.job.kernel(rank, self.kernels, self.forward_s)
            sent = 2 * self.part * plan.gradient_bytes
            if exchange and plan.overlap:
                pieces = self.pieces(self.backward_s)
                buckets = []
                for _ in range(pieces):
                    yield self.job.kernel(rank, self.kernels, self.backward_s / pieces)
                    buckets.append(self.group.queue(rank, sent / pieces))
                yield all_of(buckets)
            else:
                yield self.job.kernel(rank, self.kernels, self.backward_s)
                if exchange:
                    yield self.group.queue(rank, sent)
            self.end_micro(rank)
        yield self.optimize(rank)


class ShardedOptimizer(Replicas):
    """ZeRO-1 and ZeRO-2: gradients reduce-scattered, each rank updates its share, weights gathered again."""

    def step(self, rank: int) -> Program:
        """One optimizer step of one rank."""
        plan = self.plan
        scattered = self.part * plan.gradient_bytes
        for micro in range(plan.accumulation):
            yield from self.begin_micro(rank)
            yield self.job.kernel(rank, self.kernels, self.forward_s)
            last = micro == plan.accumulation - 1
            if not (last or plan.strategy == "zero2"):
                yield self.job.kernel(rank, self.kernels, self.backward_s)
            else:
                pieces = self.pieces(self.backward_s) if plan.overlap else 1
                buckets = []
                for _ in range(pieces):
                    yield self.job.kernel(rank, self.kernels, self.backward_s / pieces)
                    buckets.append(self.group.queue(rank, scattered / pieces))
                yield all_of(buckets)
            self.end_micro(rank)
        yield self.optimize(rank, 1 / self.job.size)
        yield self.group.queue(rank, self.part * plan.model.parameters * plan.element_bytes)


class FullShard(Replicas):
    """FSDP and ZeRO-3: weights gathered before use, forward and backward, one unit ahead; gradients scattered."""

    def step(self, rank: int) -> Program:
        """One optimizer step of one rank."""
        plan = self.plan
        units = self.pieces(self.backward_s)
        gathered = self.part * plan.model.parameters * plan.element_bytes / units
        scattered = self.part * plan.gradient_bytes / units
        messages = max(1, plan.model.layers // units)
        for _ in range(plan.accumulation):
            yield from self.begin_micro(rank)
            scatters = []
            for seconds, backward in ((self.forward_s, False), (self.backward_s, True)):
                ready = self.group.queue(rank, gathered, messages)
                for unit in range(units):
                    here = ready
                    if unit + 1 < units and plan.overlap:
                        ready = self.group.queue(rank, gathered, messages)
                    yield here
                    yield self.job.kernel(rank, self.kernels, seconds / units)
                    if unit + 1 < units and not plan.overlap:
                        ready = self.group.queue(rank, gathered, messages)
                    if backward:
                        scatters.append(self.group.queue(rank, scattered, messages))
            yield all_of(scatters)
            self.end_micro(rank)
        yield self.optimize(rank, 1 / self.job.size)


class TensorParallel(Replicas):
    """Megatron tensor parallelism: every layer is cut, four all-reduces a layer and micro-batch, none overlapped."""

    def __init__(self, job: Job, plan: Training) -> None:
        super().__init__(job, plan, compute_shares=job.size)

    def step(self, rank: int) -> Program:
        """One optimizer step of one rank."""
        plan = self.plan
        for _ in range(plan.accumulation):
            yield from self.begin_micro(rank)
            for seconds in (self.forward_s, self.backward_s):
                yield from layers_in_turn(self, rank, seconds, 2 * plan.model.layers)
            self.end_micro(rank)
        yield self.optimize(rank, 1 / self.job.size)

    def end_micro(self, rank: int) -> None:
        """One replica is spread over all cards."""
        if rank == 0:
            self.job.log.micro_steps_s.append(self.job.engine.now)
            self.job.log.samples += self.plan.micro_batch


def layers_in_turn(replicas: TensorParallel, rank: int, seconds: float, messages: int) -> Program:
    """Run one pass whose layers alternate with collectives, blended where no sensor could tell them apart."""
    plan, group = replicas.plan, replicas.group
    activations = plan.micro_batch * plan.sequence * plan.model.hidden * plan.element_bytes
    sent = messages * activations * 2 * replicas.part
    blended, whole_s = group.interleaved([(replicas.kernels, seconds)], sent, messages)
    layers = plan.model.layers
    if whole_s / layers > _SLOWEST_BLEND_S:
        for _ in range(layers):
            yield replicas.job.kernel(rank, replicas.kernels, seconds / layers)
            yield group.queue(rank, sent / layers, max(1, messages // layers))
        return
    stretches = max(1, round(whole_s / _STRETCH_S))
    for _ in range(stretches):
        yield replicas.job.kernel(rank, blended, whole_s / stretches)
        yield group.barrier(rank)


class HostOptimizer(Replicas):
    """ZeRO-Offload: gradients go down to host memory, the CPU updates the weights, they come up again."""

    def step(self, rank: int) -> Program:
        """One optimizer step of one rank."""
        plan, job = self.plan, self.job
        for micro in range(plan.accumulation):
            yield from self.begin_micro(rank)
            yield job.kernel(rank, self.kernels, self.forward_s)
            yield job.kernel(rank, self.kernels, self.backward_s)
            if job.size > 1 and micro == plan.accumulation - 1:
                yield self.group.queue(rank, self.part * plan.gradient_bytes)
            self.end_micro(rank)
        yield job.copy(rank, False, plan.gradient_bytes / job.size, Label.OFFLOAD)
        updated = plan.model.parameters / job.size
        sockets_share = job.size / max(1, job.host.sockets)
        seconds = updated * sockets_share / _HOST_ADAM_PARAMETERS_PER_SECOND
        yield from job.idle(rank, Label.OFFLOAD, seconds, cpu_share=job.host.cpus / job.size * 0.8)
        yield job.copy(rank, True, plan.model.weight_bytes(plan.element_bytes) / job.size, Label.OFFLOAD)
        if job.size > 1:
            yield self.group.queue(rank, self.part * plan.model.weight_bytes(plan.element_bytes))


class ThroughTheCpu(Replicas):
    """DDP over gloo: gradients copied down, added up over loopback sockets by the CPUs, copied up again."""

    def step(self, rank: int) -> Program:
        """One optimizer step of one rank."""
        plan, job = self.plan, self.job
        for micro in range(plan.accumulation):
            yield from self.begin_micro(rank)
            yield job.kernel(rank, self.kernels, self.forward_s)
            yield job.kernel(rank, self.kernels, self.backward_s)
            if micro == plan.accumulation - 1 or not plan.no_sync:
                yield from self._reduce(rank)
            self.end_micro(rank)
        yield self.optimize(rank)

    def _reduce(self, rank: int) -> Program:
        plan, job = self.plan, self.job
        yield job.copy(rank, False, plan.gradient_bytes, Label.HOST_PATH, pinned=False)
        sent = 2 * self.part * plan.gradient_bytes
        seconds = sent / job.host.socket_loopback_bytes_per_second
        job.loopback.add(job.engine.now, job.engine.now + seconds, sent)
        yield from job.idle(rank, Label.HOST_PATH, seconds * job.spread(), cpu_share=0.9)
        yield job.copy(rank, True, plan.gradient_bytes, Label.HOST_PATH, pinned=False)
