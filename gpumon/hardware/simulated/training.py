"""Training jobs whose ranks all do the same: data parallel in its forms, sharded, tensor parallel, through the host.

Each strategy is a program that a rank runs once for every optimizer step. Bytes follow from the algorithms: a ring
all-reduce sends 2(N-1)/N of its size from every card, a reduce-scatter or an all-gather half of that.
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
    then: Training | None = None  # what the same processes go on with, at the first step after `then_at_s`
    then_at_s: float = float("inf")
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
    """What every strategy needs: how long passes take on a card, its batches, and the group that exchanges."""

    def __init__(self, job: Job, plan: Training, model_cuts: int = 1) -> None:
        self.job = job
        self.plan = plan
        self.group = Group(job, range(job.size), plan.transport)
        self.feed = InputFeed(job, plan.loader)
        card = job.cards[0].card
        tokens = plan.micro_batch * plan.sequence
        whole = plan.micro_seconds or work.training_seconds(card, plan.model, tokens, plan.utilization)
        self.forward_s = whole / 3 / model_cuts
        self.backward_s = whole * 2 / 3 / model_cuts
        self.kernels = plan.kernels
        self.streaming = work.streaming(card)
        trained = plan.trained_parameters or plan.model.parameters
        self.optimizer_s = work.optimizer_seconds(card, trained)
        self.part = (job.size - 1) / job.size
        # A model that is cut over the cards sees each sequence once, whatever their number.
        self.sequences = plan.micro_batch * (job.size if model_cuts == 1 else 1)

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
            self.job.log.samples += self.sequences

    def pieces(self, seconds: float) -> int:
        """Return into how many parts a pass is cut."""
        return max(1, min(_MOST_PIECES, self.plan.model.layers, int(seconds / _FINEST_PHASE_S)))

    def forward(self, rank: int) -> Signal:
        """Run a forward pass."""
        return self.job.kernel(rank, self.kernels, self.forward_s)

    def backward(self, rank: int) -> Signal:
        """Run a backward pass."""
        return self.job.kernel(rank, self.kernels, self.backward_s)

    def optimize(self, rank: int, share: float = 1.0) -> Signal:
        """Run the optimizer on `share` of the parameters."""
        return self.job.kernel(rank, self.streaming, self.optimizer_s * share)

    def backward_in_buckets(self, rank: int, sent_bytes: float) -> Program:
        """Run a backward pass and exchange what it leaves behind, from the back of the model to its front."""
        if not self.plan.overlap:
            yield self.backward(rank)
            yield self.group.queue(rank, sent_bytes)
            return
        pieces = self.pieces(self.backward_s)
        buckets = []
        for _ in range(pieces):
            yield self.job.kernel(rank, self.kernels, self.backward_s / pieces)
            buckets.append(self.group.queue(rank, sent_bytes / pieces))
        yield all_of(buckets)


def data_parallel(replicas: Replicas, rank: int) -> Program:
    """DDP: gradients all-reduced in buckets."""
    plan, job = replicas.plan, replicas.job
    for micro in range(plan.accumulation):
        yield from replicas.begin_micro(rank)
        yield replicas.forward(rank)
        if job.size > 1 and (micro == plan.accumulation - 1 or not plan.no_sync):
            yield from replicas.backward_in_buckets(rank, 2 * replicas.part * plan.gradient_bytes)
        else:
            yield replicas.backward(rank)
        replicas.end_micro(rank)
    yield replicas.optimize(rank)


def sharded_optimizer(replicas: Replicas, rank: int) -> Program:
    """ZeRO-1 and ZeRO-2: gradients reduce-scattered, each rank updates its share, weights gathered again."""
    plan, job = replicas.plan, replicas.job
    for micro in range(plan.accumulation):
        yield from replicas.begin_micro(rank)
        yield replicas.forward(rank)
        if micro == plan.accumulation - 1 or plan.strategy == "zero2":
            yield from replicas.backward_in_buckets(rank, replicas.part * plan.gradient_bytes)
        else:
            yield replicas.backward(rank)
        replicas.end_micro(rank)
    yield replicas.optimize(rank, 1 / job.size)
    yield replicas.group.queue(rank, replicas.part * plan.model.weight_bytes(plan.element_bytes))


def full_shard(replicas: Replicas, rank: int) -> Program:
    """FSDP and ZeRO-3: weights gathered before use, forward and backward, one unit ahead; gradients scattered."""
    plan, job, group = replicas.plan, replicas.job, replicas.group
    units = replicas.pieces(replicas.backward_s)
    gathered = replicas.part * plan.model.weight_bytes(plan.element_bytes) / units
    scattered = replicas.part * plan.gradient_bytes / units
    messages = max(1, plan.model.layers // units)
    for _ in range(plan.accumulation):
        yield from replicas.begin_micro(rank)
        scatters = []
        for seconds, backward in ((replicas.forward_s, False), (replicas.backward_s, True)):
            ready = group.queue(rank, gathered, messages)
            for unit in range(units):
                here = ready
                if unit + 1 < units and plan.overlap:
                    ready = group.queue(rank, gathered, messages)
                yield here
                yield job.kernel(rank, replicas.kernels, seconds / units)
                if unit + 1 < units and not plan.overlap:
                    ready = group.queue(rank, gathered, messages)
                if backward:
                    scatters.append(group.queue(rank, scattered, messages))
        yield all_of(scatters)
        replicas.end_micro(rank)
    yield replicas.optimize(rank, 1 / job.size)


def tensor_parallel(replicas: Replicas, rank: int) -> Program:
    """Megatron tensor parallelism: every layer is cut, four all-reduces a layer and micro-batch, none overlapped."""
    plan = replicas.plan
    for _ in range(plan.accumulation):
        yield from replicas.begin_micro(rank)
        for seconds in (replicas.forward_s, replicas.backward_s):
            yield from _layers_in_turn(replicas, rank, seconds, 2 * plan.model.layers)
        replicas.end_micro(rank)
    yield replicas.optimize(rank, 1 / replicas.job.size)


def host_optimizer(replicas: Replicas, rank: int) -> Program:
    """ZeRO-Offload: gradients go down to host memory, the CPU updates the weights, they come up again."""
    plan, job = replicas.plan, replicas.job
    weights = plan.model.weight_bytes(plan.element_bytes)
    for micro in range(plan.accumulation):
        yield from replicas.begin_micro(rank)
        yield replicas.forward(rank)
        yield replicas.backward(rank)
        if job.size > 1 and micro == plan.accumulation - 1:
            yield replicas.group.queue(rank, replicas.part * plan.gradient_bytes)
        replicas.end_micro(rank)
    yield job.copy(rank, False, plan.gradient_bytes / job.size, Label.OFFLOAD)
    ranks_per_socket = job.size / max(1, job.host.sockets)
    seconds = plan.model.parameters / job.size * ranks_per_socket / _HOST_ADAM_PARAMETERS_PER_SECOND
    yield from job.idle(rank, Label.OFFLOAD, seconds, cpu_share=job.host.cpus / job.size * 0.8)
    yield job.copy(rank, True, weights / job.size, Label.OFFLOAD)
    if job.size > 1:
        yield replicas.group.queue(rank, replicas.part * weights)


def through_the_cpu(replicas: Replicas, rank: int) -> Program:
    """DDP over gloo: gradients copied down, added up over loopback sockets by the CPUs, copied up again."""
    plan, job = replicas.plan, replicas.job
    for micro in range(plan.accumulation):
        yield from replicas.begin_micro(rank)
        yield replicas.forward(rank)
        yield replicas.backward(rank)
        if micro == plan.accumulation - 1 or not plan.no_sync:
            yield job.copy(rank, False, plan.gradient_bytes, Label.HOST_PATH, pinned=False)
            sent = 2 * replicas.part * plan.gradient_bytes
            seconds = sent / job.host.socket_loopback_bytes_per_second
            job.loopback.add(job.engine.now, job.engine.now + seconds, sent)
            yield from job.idle(rank, Label.HOST_PATH, seconds * job.spread(), cpu_share=0.9)
            yield job.copy(rank, True, plan.gradient_bytes, Label.HOST_PATH, pinned=False)
        replicas.end_micro(rank)
    yield replicas.optimize(rank)


def _layers_in_turn(replicas: Replicas, rank: int, seconds: float, messages: int) -> Program:
    """Run one pass whose layers alternate with collectives, blended where no sensor could tell them apart."""
    if replicas.job.size == 1:
        yield replicas.job.kernel(rank, replicas.kernels, seconds)
        return
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
