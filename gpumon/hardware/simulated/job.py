"""A running job: its ranks, what they do together, and what their processes cost the host.

Ranks are programs on the engine. They meet in collectives (`Group`): a card that arrives early spins until the last
one is there, then all move the bytes. Who waited for whom is kept, for the truth.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.engine import Engine, Program, Signal
from gpumon.hardware.simulated.fabric import NVLINK_RX, RX, TX, Fabric, HostSpec, Route, host_copy, ring, send
from gpumon.hardware.simulated.physics import CardState, Work
from gpumon.hardware.simulated.timeline import Label

# Waits shorter than this are the ordinary spread of kernel times and are not remembered one by one.
_REMEMBERED_WAIT_S = 0.5e-3
# A run of a day makes millions; these are several minutes of the busiest job.
_REMEMBERED_STEPS = 10_000
_REMEMBERED_WAITS = 40_000
_BUCKET_BYTES = 25e6  # a collective per bucket (PyTorch DDP's default)


class Meter:
    """An amount that grows at known rates over known stretches: CPU seconds, bytes on disk. Asked in order of time."""

    def __init__(self) -> None:
        self._settled = 0.0
        self._stretches: deque[tuple[float, float, float]] = deque()

    def add(self, from_s: float, to_s: float, amount: float) -> None:
        """Let `amount` come in evenly between two times."""
        self._stretches.append((from_s, max(to_s, from_s + 1e-9), amount))

    def value_at(self, time_s: float) -> float:
        """Return the amount so far. Never ask for a time before one that was asked for."""
        while self._stretches and self._stretches[0][1] <= time_s:
            self._settled += self._stretches.popleft()[2]
        running = 0.0
        for from_s, to_s, amount in self._stretches:
            running += amount * min(max(time_s - from_s, 0.0) / (to_s - from_s), 1.0)
        return self._settled + running


@dataclass(frozen=True, slots=True)
class Wait:
    """A rank waited for another one in a collective."""

    rank: int
    from_s: float
    to_s: float
    culprit: int  # rank that came last


class Log:
    """What happened, for the truth. Bounded unless it is to keep a whole run."""

    def __init__(self, keeps_all: bool) -> None:
        steps, waits = (None, None) if keeps_all else (_REMEMBERED_STEPS, _REMEMBERED_WAITS)
        self.optimizer_steps_s: deque[float] = deque(maxlen=steps)  # end of each
        self.micro_steps_s: deque[float] = deque(maxlen=steps)
        self.pauses_s: deque[tuple[float, float]] = deque(maxlen=steps)  # saves and evaluations of rank 0
        self.waits: deque[Wait] = deque(maxlen=waits)
        self.samples = 0.0  # sequences, images or tokens finished
        self.hung_since_s = float("inf")
        self.turned_s = float("inf")  # when the first rank went on with other work


@dataclass(slots=True)
class Job:
    """What ranks share. Rank r runs on cards[r]."""

    engine: Engine
    fabric: Fabric
    host: HostSpec
    cards: Sequence[CardState]
    rng: random.Random
    jitter: float  # spread of kernel times from step to step, standard deviation over mean
    start_s: float
    end_s: float
    log: Log
    rank_cpu: list[Meter] = field(default_factory=list)  # beyond the core that every rank keeps busy
    loader_cpu: Meter = field(default_factory=Meter)
    loopback: Meter = field(default_factory=Meter)
    disk_read: Meter = field(default_factory=Meter)
    disk_write: Meter = field(default_factory=Meter)
    hangs_at_s: float = float("inf")
    turns_at_s: float = float("inf")  # to other work
    groups: list[Group] = field(default_factory=list)
    _started_steps: int = 0
    _stop_step: int = -1
    _hang_step: int = -1
    _turn_step: int = -1

    def __post_init__(self) -> None:
        self.rank_cpu = [Meter() for _ in self.cards]

    @property
    def size(self) -> int:
        """How many ranks the job has."""
        return len(self.cards)

    def waits(self) -> list[Wait]:
        """Return every remembered wait, those still going on included."""
        return [*self.log.waits, *(wait for group in self.groups for wait in group.going_on())]

    def goes_on(self, step: int) -> bool:
        """Return True when every rank is to do this step. All ranks get the same answer, or collectives would hang."""
        if self._stop_step < 0:
            self._started_steps = max(self._started_steps, step)
            if self.engine.now >= self.end_s:
                self._stop_step = self._started_steps + 1
        return self._stop_step < 0 or step < self._stop_step

    def hangs(self, step: int) -> bool:
        """Return True when no rank comes back from this step; all ranks get the same answer."""
        if self._hang_step < 0 and self.engine.now >= self.hangs_at_s:
            self._hang_step = self._started_steps + 1
        return 0 <= self._hang_step <= step

    def turns(self, step: int) -> bool:
        """Return True when every rank goes on with other work from this step; all ranks get the same answer."""
        if self._turn_step < 0 and self.engine.now >= self.turns_at_s:
            self._turn_step = self._started_steps + 1
        return 0 <= self._turn_step <= step

    def hang(self, rank: int) -> Program:
        """Sit in a collective that no byte ever leaves."""
        self.log.hung_since_s = min(self.log.hung_since_s, self.engine.now)
        self.cards[rank].spin(Label.PEER_WAIT, +1)
        yield Signal()

    def spread(self) -> float:
        """Return a factor near 1 for one kernel of one rank."""
        return max(0.5, self.rng.gauss(1.0, self.jitter))

    def route(self, transport: str = "") -> Route:
        """Return the route of a ring over all ranks."""
        return ring(self.fabric.slots, [card.index for card in self.cards], self.host, transport)

    def kernel(self, rank: int, kernels: Work, seconds: float) -> Signal:
        """Run work on one rank, with its spread."""
        return self.cards[rank].run(kernels, seconds * self.spread())

    def idle(self, rank: int, label: Label, seconds: float, cpu_share: float = 0.0) -> Program:
        """Leave a rank's card without work for a time.

        Args:
            cpu_share: how many more cores than usual its process keeps busy; -1: it sleeps instead of spinning.
        """
        now = self.engine.now
        if cpu_share:
            self.rank_cpu[rank].add(now, now + seconds, cpu_share * seconds)
        self.cards[rank].change(host_label=label)
        yield seconds
        self.cards[rank].change(host_label=Label.HOST_OTHER)

    def copy(self, rank: int, to_card: bool, size_bytes: float, label: Label, pinned: bool = True) -> Signal:
        """Copy between host memory and a rank's card by the copy engine."""
        direction = RX if to_card else TX
        route = host_copy(self.fabric.slots, self.cards[rank].index, direction, pinned)
        return self.fabric.start(route, size_bytes, label, collective=False).done

    def send(self, sender: int, receiver: int, size_bytes: float) -> Signal:
        """Send from rank to rank."""
        route = send(self.fabric.slots, self.cards[sender].index, self.cards[receiver].index, self.host)
        return self.fabric.start(route, size_bytes, Label.OWN_LINK, collective=True).done


@dataclass(slots=True)
class _Meeting:
    """One collective on its way from the first arrival to the last byte."""

    arrivals: dict[int, float] = field(default_factory=dict)
    done: Signal = field(default_factory=Signal)


class Group:
    """Ranks that run the same collectives in the same order over one communicator."""

    def __init__(
        self, job: Job, ranks: Sequence[int], transport: str = "", wait_label: Label = Label.PEER_WAIT
    ) -> None:
        self._job = job
        self._wait_label = wait_label
        self._ranks = tuple(ranks)
        self._transport = transport
        members = [job.cards[rank].index for rank in ranks]
        self.route = ring(job.fabric.slots, members, job.host, transport)
        self._moving_label = Label.SHARED_LINK if job.fabric.shared_alone(self.route) else Label.OWN_LINK
        if transport == "sockets":
            self._moving_label = Label.HOST_PATH
        job.groups.append(self)
        self._joined = dict.fromkeys(self._ranks, 0)  # collectives each rank has entered
        self._open: dict[int, _Meeting] = {}
        self._stream = dict.fromkeys(self._ranks, _fired())  # end of the last one queued on each rank

    def queue(self, rank: int, sent_bytes: float, messages: int = 0) -> Signal:
        """Put a collective behind the earlier ones of this rank's communication stream.

        `sent_bytes` is what each member sends (and receives); `messages` counts the collectives it stands for (0: as
        many as there are buckets in it).
        """
        done = Signal()
        count = messages or max(1, round(sent_bytes / _BUCKET_BYTES))
        before, self._stream[rank] = self._stream[rank], done
        before.when_fired(lambda: self._arrive(rank, sent_bytes, count).when_fired(done.fire))
        return done

    def barrier(self, rank: int) -> Signal:
        """Wait for everyone, no bytes."""
        return self.queue(rank, 0.0, 1)

    def going_on(self) -> list[Wait]:
        """Return who waits at present, each for the first rank that is missing."""
        now = self._job.engine.now
        if self._wait_label is not Label.PEER_WAIT:
            return []
        return [
            Wait(rank, arrived, now, next(other for other in self._ranks if other not in meeting.arrivals))
            for meeting in self._open.values()
            for rank, arrived in meeting.arrivals.items()
            if now - arrived > _REMEMBERED_WAIT_S
        ]

    def interleaved(self, parts: Sequence[tuple[Work, float]], sent_bytes: float, messages: int) -> tuple[Work, float]:
        """Return kernels and collectives that alternate faster than sensors see, as one work and its seconds.

        Args:
            parts: kernels and how long each runs.
            sent_bytes: what each member sends meanwhile, in `messages` collectives.
        """
        job, route = self._job, self.route
        card = job.cards[self._ranks[0]]
        latency_s = messages * route.latency_s
        bytes_s = sent_bytes / job.fabric.solo_rate(route)
        counts = route.cards[card.index]
        rates = [count * sent_bytes / bytes_s for count in counts]
        moving = work.exchange(card.card, rates[RX], rates[TX], rates[NVLINK_RX], self._moving_label)
        waiting = work.exchange(card.card, 0.0, 0.0, 0.0, Label.LATENCY)
        everything = [*parts, (moving, bytes_s), (waiting, latency_s)]
        return work.blend(everything), sum(seconds for _, seconds in everything)

    def _arrive(self, rank: int, sent_bytes: float, messages: int) -> Signal:
        number = self._joined[rank]
        self._joined[rank] += 1
        meeting = self._open.setdefault(number, _Meeting())
        meeting.arrivals[rank] = self._job.engine.now
        if len(meeting.arrivals) < len(self._ranks):
            self._job.cards[rank].spin(self._wait_label, +1)
        else:
            del self._open[number]
            self._all_here(rank, meeting, sent_bytes, messages)
        return meeting.done

    def _all_here(self, last: int, meeting: _Meeting, sent_bytes: float, messages: int) -> None:
        job = self._job
        now = job.engine.now
        latency = messages * self.route.latency_s
        for rank, arrived in meeting.arrivals.items():
            if rank == last:
                continue
            if now - arrived > _REMEMBERED_WAIT_S and self._wait_label is Label.PEER_WAIT:
                job.log.waits.append(Wait(rank, arrived, now, last))
            job.cards[rank].spin(self._wait_label, -1)
        if self._transport == "sockets":
            job.loopback.add(now, now + sent_bytes / self.route.rate_limit, sent_bytes * len(self._ranks))
        transfer_s = sent_bytes / job.fabric.solo_rate(self.route)
        if latency < 0.1 * transfer_s:
            # Too short beside the bytes to be worth a phase of its own.
            self._move(meeting, sent_bytes, replace(self.route, rate_limit=sent_bytes / (transfer_s + latency)))
            return
        for rank in self._ranks:
            job.cards[rank].spin(Label.LATENCY, +1)
        job.engine.at(now + latency, lambda: self._after_latency(meeting, sent_bytes))

    def _after_latency(self, meeting: _Meeting, sent_bytes: float) -> None:
        for rank in self._ranks:
            self._job.cards[rank].spin(Label.LATENCY, -1)
        if sent_bytes > 0:
            self._move(meeting, sent_bytes, self.route)
        else:
            meeting.done.fire()

    def _move(self, meeting: _Meeting, sent_bytes: float, route: Route) -> None:
        transfer = self._job.fabric.start(route, sent_bytes, self._moving_label, collective=True)
        transfer.done.when_fired(meeting.done.fire)


def _fired() -> Signal:
    signal = Signal()
    signal.fire()
    return signal
