"""Training jobs whose cards do different things: pipeline stages, a model spread card by card, DataParallel."""

from __future__ import annotations

from gpumon.hardware.simulated.engine import Program, Signal, all_of
from gpumon.hardware.simulated.job import Group
from gpumon.hardware.simulated.timeline import Label
from gpumon.hardware.simulated.training import Replicas


class Pipeline:
    """1F1B: each card holds a part of the layers; `accumulation` micro-batches flow through in every step."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._job = replicas.job
        # At its end a step agrees on the norm of the gradients; who is early there waits for the flow to drain.
        self._agreement = Group(self._job, range(self._job.size), replicas.plan.transport, wait_label=Label.BUBBLE)
        self._arrived: dict[tuple[int, bool, int, int], Signal] = {}
        self._steps = [0] * self._job.size

    def step(self, rank: int) -> Program:
        """One optimizer step of one stage."""
        job, replicas = self._job, self._replicas
        number = self._steps[rank]
        self._steps[rank] += 1
        if rank == 0:
            yield from replicas.feed.next_batch(rank)
        sends = []
        for backward, micro in _one_forward_one_backward(rank, job.size, replicas.plan.accumulation):
            source = rank + 1 if backward else rank - 1
            if 0 <= source < job.size:
                yield from self._receive(rank, self._arrival(number, backward, micro, rank))
            yield replicas.backward(rank) if backward else replicas.forward(rank)
            target = rank - 1 if backward else rank + 1
            if 0 <= target < job.size:
                sent = job.send(rank, target, _boundary_bytes(replicas))
                sent.when_fired(self._arrival(number, backward, micro, target).fire)
                sends.append(sent)
            elif backward:
                # A micro-batch is through when the first stage has done its backward pass.
                replicas.end_micro(rank)
        yield all_of(sends)
        self._forget(number, rank)
        yield replicas.optimize(rank, 1 / job.size)
        yield self._agreement.barrier(rank)

    def _receive(self, rank: int, arrival: Signal) -> Program:
        if arrival.fired:
            return
        self._job.cards[rank].spin(Label.BUBBLE, +1)
        yield arrival
        self._job.cards[rank].spin(Label.BUBBLE, -1)

    def _arrival(self, number: int, backward: bool, micro: int, rank: int) -> Signal:
        return self._arrived.setdefault((number, backward, micro, rank), Signal())

    def _forget(self, number: int, rank: int) -> None:
        for key in [key for key in self._arrived if key[0] == number and key[3] == rank]:
            del self._arrived[key]


def device_map(replicas: Replicas, rank: int) -> Program:
    """One process, layers spread over the cards, one micro-batch at a time: one works, the others stand still."""
    job, last = replicas.job, replicas.job.size - 1
    boundary = _boundary_bytes(replicas)
    for card in job.cards:
        card.change(host_label=Label.BUBBLE)
    for _ in range(replicas.plan.accumulation):
        yield from replicas.feed.next_batch(rank)
        job.cards[rank].change(host_label=Label.BUBBLE)
        for at in range(job.size):
            yield replicas.forward(at)
            if at < last:
                yield job.send(at, at + 1, boundary)
        for at in range(last, -1, -1):
            yield replicas.backward(at)
            if at > 0:
                yield job.send(at, at - 1, boundary)
        replicas.end_micro(rank)
    yield all_of([replicas.optimize(at, 1 / job.size) for at in range(job.size)])


def one_process_replicas(replicas: Replicas, rank: int) -> Program:
    """torch.nn.DataParallel: card 0 hands out weights and inputs, collects gradients, and updates alone."""
    job, plan = replicas.job, replicas.plan
    others = range(1, job.size)
    for card in job.cards[1:]:
        card.change(host_label=Label.PEER_WAIT)
    for _ in range(plan.accumulation):
        yield from replicas.feed.next_batch(rank)
        weights = plan.model.weight_bytes(plan.element_bytes)
        yield all_of([job.send(0, other, weights) for other in others])
        yield all_of([replicas.forward(at) for at in range(job.size)])
        # Outputs are gathered on card 0, which computes the loss of the whole batch.
        yield job.kernel(0, replicas.kernels, 0.08 * replicas.forward_s * job.size)
        yield all_of([replicas.backward(at) for at in range(job.size)])
        yield all_of([job.send(other, 0, plan.gradient_bytes) for other in others])
        replicas.end_micro(rank)
    yield replicas.optimize(0)


def _boundary_bytes(replicas: Replicas) -> float:
    """Bytes of one micro-batch's activations between two stages."""
    plan = replicas.plan
    return plan.micro_batch * plan.sequence * plan.model.hidden * plan.element_bytes


def _one_forward_one_backward(stage: int, stages: int, micros: int) -> list[tuple[bool, int]]:
    """Return the order in which a stage does its passes: (backward?, micro-batch)."""
    warm_up = min(stages - 1 - stage, micros)
    order = [(False, micro) for micro in range(warm_up)]
    for micro in range(micros - warm_up):
        order += [(False, warm_up + micro), (True, micro)]
    return order + [(True, micro) for micro in range(micros - warm_up, micros)]
