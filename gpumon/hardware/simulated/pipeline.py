"""Training jobs whose cards do different things: pipeline stages, a model spread card by card, DataParallel."""

from __future__ import annotations

from gpumon.hardware.simulated.engine import Program, Signal, all_of
from gpumon.hardware.simulated.job import Group, Job
from gpumon.hardware.simulated.timeline import Label
from gpumon.hardware.simulated.training import Replicas, Training


class Pipeline(Replicas):
    """1F1B: each card holds a part of the layers; `accumulation` micro-batches flow through in every step."""

    def __init__(self, job: Job, plan: Training) -> None:
        super().__init__(job, plan, compute_shares=job.size)
        self.group = Group(job, range(job.size), plan.transport, wait_label=Label.BUBBLE)
        self._arrived: dict[tuple[int, bool, int, int], Signal] = {}
        self._boundary_bytes = plan.micro_batch * plan.sequence * plan.model.hidden * plan.element_bytes
        self._steps = [0] * job.size

    def step(self, rank: int) -> Program:
        """One optimizer step of one stage."""
        number = self._steps[rank]
        self._steps[rank] += 1
        if rank == 0:
            yield from self.feed.next_batch(rank)
        sends = []
        for backward, micro in _one_forward_one_backward(rank, self.job.size, self.plan.accumulation):
            source = rank + 1 if backward else rank - 1
            if 0 <= source < self.job.size:
                yield from self._receive(rank, self._arrival(number, backward, micro, rank))
            yield self.job.kernel(rank, self.kernels, self.backward_s if backward else self.forward_s)
            target = rank - 1 if backward else rank + 1
            if 0 <= target < self.job.size:
                sent = self.job.send(rank, target, self._boundary_bytes)
                sent.when_fired(self._arrival(number, backward, micro, target).fire)
                sends.append(sent)
            elif backward:
                self.end_micro(rank)
        yield all_of(sends)
        self._forget(number, rank)
        yield self.optimize(rank, 1 / self.job.size)
        yield from self._meet(rank)

    def end_micro(self, rank: int) -> None:
        """A micro-batch has gone through all stages when the first one has done its backward pass."""
        self.job.log.micro_steps_s.append(self.job.engine.now)
        self.job.log.samples += self.plan.micro_batch

    def _receive(self, rank: int, arrival: Signal) -> Program:
        if arrival.fired:
            return
        self.job.cards[rank].spin(Label.BUBBLE, +1)
        yield arrival
        self.job.cards[rank].spin(Label.BUBBLE, -1)

    def _meet(self, rank: int) -> Program:
        """Agree on the gradient norm: a tiny collective at the end of the step."""
        yield self.group.barrier(rank)

    def _arrival(self, number: int, backward: bool, micro: int, rank: int) -> Signal:
        return self._arrived.setdefault((number, backward, micro, rank), Signal())

    def _forget(self, number: int, rank: int) -> None:
        for key in [key for key in self._arrived if key[0] == number and key[3] == rank]:
            del self._arrived[key]


def _one_forward_one_backward(stage: int, stages: int, micros: int) -> list[tuple[bool, int]]:
    """Return the order in which a stage does its passes: (backward?, micro-batch)."""
    warm_up = min(stages - 1 - stage, micros)
    order = [(False, micro) for micro in range(warm_up)]
    for micro in range(micros - warm_up):
        order += [(False, warm_up + micro), (True, micro)]
    return order + [(True, micro) for micro in range(micros - warm_up, micros)]


class DeviceMap(Replicas):
    """One process, layers spread over the cards, one micro-batch at a time: one card works, the others stand still."""

    def __init__(self, job: Job, plan: Training) -> None:
        super().__init__(job, plan, compute_shares=job.size)
        self._boundary_bytes = plan.micro_batch * plan.sequence * plan.model.hidden * plan.element_bytes

    def step(self, rank: int) -> Program:
        """The one process drives every card."""
        job = self.job
        for card in job.cards:
            card.change(host_label=Label.BUBBLE)
        for _ in range(self.plan.accumulation):
            yield from self.feed.next_batch(rank)
            job.cards[rank].change(host_label=Label.BUBBLE)
            last = job.size - 1
            for at in range(job.size):
                yield job.kernel(at, self.kernels, self.forward_s)
                if at < last:
                    yield job.send(at, at + 1, self._boundary_bytes)
            for at in range(last, -1, -1):
                yield job.kernel(at, self.kernels, self.backward_s)
                if at > 0:
                    yield job.send(at, at - 1, self._boundary_bytes)
            job.log.micro_steps_s.append(job.engine.now)
            job.log.samples += self.plan.micro_batch
        yield all_of([self.optimize(at, 1 / job.size) for at in range(job.size)])


class SingleProcessReplicas(Replicas):
    """torch.nn.DataParallel: card 0 hands out weights and inputs, collects gradients, and updates alone."""

    def step(self, rank: int) -> Program:
        """The one process drives every card."""
        job, plan = self.job, self.plan
        others = range(1, job.size)
        for card in job.cards[1:]:
            card.change(host_label=Label.PEER_WAIT)
        for _ in range(plan.accumulation):
            yield from self.feed.next_batch(rank)
            weights = plan.model.weight_bytes(plan.element_bytes)
            yield all_of([job.send(0, other, weights) for other in others])
            yield all_of([job.kernel(at, self.kernels, self.forward_s) for at in range(job.size)])
            # Outputs are gathered on card 0, which computes the loss of the whole batch.
            yield job.kernel(0, self.kernels, 0.08 * self.forward_s * job.size)
            yield all_of([job.kernel(at, self.kernels, self.backward_s) for at in range(job.size)])
            yield all_of([job.send(other, 0, plan.gradient_bytes) for other in others])
            job.log.micro_steps_s.append(job.engine.now)
            job.log.samples += plan.micro_batch * job.size
        yield self.optimize(0)
