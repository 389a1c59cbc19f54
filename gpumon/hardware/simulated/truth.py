"""What really happened to each job: time by state, steps, who held it back, and the verdict that follows.

The verdict follows from the event log by CONTRACT's order of judgement and nothing else: idle, hung, throttled, else
the largest of compute with overlap, communication with peer wait, memory, host wait; where peer wait decides, the
class is that of the card waited for. `margin` says how far the winner leads: near 0 it is a matter of taste.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gpumon.hardware.simulated.fabric import ring
from gpumon.hardware.simulated.job import Job
from gpumon.hardware.simulated.scenario import JobPlan, Standing
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.timeline import Floats, Label
from gpumon.hardware.simulated.timeline_file import CHANNELS
from gpumon.hardware.simulated.training import Training
from gpumon.hardware.simulated.world import World
from gpumon.model.verdict import JobClass

_STATE_LABELS: dict[str, tuple[Label, ...]] = {
    "compute": (Label.COMPUTE,),
    "communication": (Label.OWN_LINK, Label.SHARED_LINK, Label.LATENCY, Label.HOST_PATH),
    "overlap": (Label.OVERLAP,),
    "memory": (Label.MEMORY,),
    "host_wait": (Label.INPUT, Label.CHECKPOINT, Label.OFFLOAD, Label.LAUNCH, Label.HOST_OTHER),
    "peer_wait": (Label.PEER_WAIT, Label.BUBBLE),
    "idle": (Label.IDLE,),
}
_COMMUNICATION_DETAILS = {
    Label.OWN_LINK: "bandwidth",
    Label.SHARED_LINK: "uplink",
    Label.LATENCY: "latency",
    Label.HOST_PATH: "host_path",
    Label.BUBBLE: "pipeline_bubble",
}
_HOST_DETAILS = {
    Label.INPUT: "input",
    Label.CHECKPOINT: "checkpoint",
    Label.OFFLOAD: "offload",
    Label.LAUNCH: "launch",
}
_THROTTLE_DETAILS = {Label.POWER_LIMITED: "power", Label.THERMAL: "thermal", Label.BRAKE: "brake"}
_HUNG_AFTER_S = 300.0
# A card is named as the one the others wait for when it costs this share of the job's time and most of all waiting.
_STRAGGLER_COST = 0.08
_STRAGGLER_SHARE = 0.6
_LABEL_0 = len(CHANNELS)
_Name = TypeVar("_Name", JobClass, str)


@dataclass(frozen=True, slots=True)
class Culprit:
    """The card the others wait for."""

    card: int  # index on the node
    cause: str  # host, link, thermal, power, brake, clock, neighbour
    cost_ratio: float  # share of the job's time lost to it


@dataclass(frozen=True, slots=True)
class JobTruth:
    """One job between two times."""

    name: str
    cards: tuple[int, ...]
    strategy: str
    from_s: float
    to_s: float
    split: Mapping[str, float]  # the seven states; sums to 1
    job_class: JobClass
    detail: str
    margin: float  # by how much the winning share leads
    detail_margin: float
    optimizer_step_s: float  # mean, pauses left out; NaN where fewer than two ended, and for what has no steps
    micro_step_s: float
    samples_per_second: float  # sequences, images or tokens, over the whole run so far
    culprit: Culprit | None
    costs: Mapping[int, float]  # share of the job's time lost to each card, by index; straggler or not
    rx_bytes: Mapping[int, float]  # on the wire, by card index
    tx_bytes: Mapping[int, float]
    nvlink_bytes: Mapping[int, float]
    labels: Mapping[str, float] = field(default_factory=dict)  # the split in full
    turned_s: float = float("inf")  # when the job went on with other work, seconds of the run


def truth(scenario_world: World, seconds: float) -> tuple[JobTruth, ...]:
    """Return the truth of a whole run; the world must keep its whole timeline."""
    scenario_world.advance(seconds)
    return job_truths(scenario_world, 0.0, seconds)


def job_truths(world: World, from_s: float, to_s: float) -> tuple[JobTruth, ...]:
    """Return the truth of every job that was alive between two times the world has simulated."""
    found = []
    for plan, job in zip(world.scenario.jobs, world.jobs, strict=True):
        begin, end = max(from_s, plan.start_s, 0.0), min(to_s, job.end_s)
        if end > begin:
            found.append(_truth(world, plan, job, begin, end))
    return tuple(found)


def _truth(world: World, plan: JobPlan, job: Job, begin: float, end: float) -> JobTruth:
    span = end - begin
    per_card = [
        (world.timelines[index].integrals_at(end) - world.timelines[index].integrals_at(begin)) / span
        for index in plan.cards
    ]
    mean = np.mean(per_card, axis=0)[_LABEL_0:]
    split = {state: float(sum(mean[label] for label in labels)) for state, labels in _STATE_LABELS.items()}
    waits = _Waits(world, plan, job, begin, end)
    blame = waits.blame() / (len(plan.cards) * span)
    culprit, costs = _culprit(world, plan, mean, waits, span)
    verdict = _judge(split, mean, blame, end - job.log.hung_since_s, span)
    return JobTruth(
        name=plan.name,
        cards=plan.cards,
        strategy=_strategy(plan),
        from_s=begin,
        to_s=end,
        split=split,
        job_class=verdict[0],
        detail=verdict[1],
        margin=verdict[2],
        detail_margin=verdict[3],
        optimizer_step_s=_step(job.log.optimizer_steps_s, job.log.pauses_s, begin, end),
        micro_step_s=_step(job.log.micro_steps_s, job.log.pauses_s, begin, end),
        samples_per_second=job.log.samples / (end - max(plan.start_s, 0.0)),
        culprit=culprit,
        costs=costs,
        rx_bytes={index: float(rates[0]) * span for index, rates in zip(plan.cards, per_card, strict=True)},
        tx_bytes={index: float(rates[1]) * span for index, rates in zip(plan.cards, per_card, strict=True)},
        nvlink_bytes={index: float(sum(rates[2:4])) * span for index, rates in zip(plan.cards, per_card, strict=True)},
        labels={label.name.lower(): float(mean[label]) for label in Label},
        turned_s=job.log.turned_s,
    )


def _strategy(plan: JobPlan) -> str:
    workload = plan.workload
    if isinstance(workload, Training):
        return workload.strategy
    if isinstance(workload, Serving):
        return "offload" if workload.host_share > 0 else workload.split
    return "idle" if isinstance(workload, Standing) else "single"


def _step(ends_s: Iterable[float], pauses: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    """Return the mean length of a step without a save or evaluation in it.

    Taking the pause itself off is not enough: one card may take longer over it than rank 0, whose log this is. That is
    done only where every step has one.
    """
    inside = np.array([time for time in ends_s if begin <= time <= end])
    if inside.size < 2:
        return float("nan")
    pauses = [(first, last) for first, last in pauses if inside[0] <= first < inside[-1]]
    whole = np.ones(inside.size - 1, dtype=bool)
    whole[[int(inside.searchsorted(first, side="right")) - 1 for first, _ in pauses]] = False
    if whole.any():
        return float(np.diff(inside)[whole].mean())
    return float(inside[-1] - inside[0] - sum(last - first for first, last in pauses)) / (inside.size - 1)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Times, shape (n,) each."""

    from_s: Floats
    to_s: Floats


class _Waits:
    """The waits between two times. Only the time a card really stood still counts: not what hid behind a kernel."""

    def __init__(self, world: World, plan: JobPlan, job: Job, begin: float, end: float) -> None:
        self._world = world
        self._plan = plan
        waits = job.waits()
        inside = [wait for wait in waits if wait.to_s > begin and wait.from_s < end]
        self._rank = np.array([wait.rank for wait in inside], dtype=np.int64)
        self._culprit = np.array([wait.culprit for wait in inside], dtype=np.int64)
        self._from_s = np.array([max(wait.from_s, begin) for wait in inside])
        self._to_s = np.array([min(wait.to_s, end) for wait in inside])
        # When the step began in which a rank waited; where there are no steps, when it began to wait.
        steps = np.array([begin, *(time for time in job.log.optimizer_steps_s if time > begin)])
        begun_s = steps[np.maximum(steps.searchsorted(self._to_s) - 1, 0)]
        self._begun_s = np.minimum(begun_s, self._from_s) if steps.size > 1 else self._from_s
        self._stood_s = np.zeros(len(inside))
        for rank, card in enumerate(plan.cards):
            own = self._rank == rank
            self._stood_s[own] = self._spent(card, Label.PEER_WAIT, own)

    def stood_for(self, rank: int) -> float:
        """Return the seconds all others stood still for a rank, added up."""
        return float(self._stood_s[self._culprit == rank].sum())

    def blame(self, rank: int = -1) -> Floats:
        """Return, by label, the seconds of standing still because the card waited for (or one rank's) was or is so.

        Who comes late lost the time earlier: a batch that was not there delays the pass behind it. So the host's part
        of a wait is what the late card stood for its host, beyond the waiting one, since the step began. The rest goes
        to what the late card did during the wait.
        """
        seconds = np.zeros(len(Label))
        for culprit, card in enumerate(self._plan.cards):
            mine = self._culprit == culprit
            if rank in (-1, culprit) and mine.any():
                held = {label: self._held(card, label, mine) for label in _STATE_LABELS["host_wait"]}
                stood_s = self._stood_s[mine]
                whole = np.maximum(sum(held.values()), stood_s)
                for label, lost_s in held.items():
                    seconds[label] += float((stood_s * lost_s / np.maximum(whole, 1e-9)).sum())
                left_s = stood_s * (1.0 - np.minimum(sum(held.values()) / np.maximum(whole, 1e-9), 1.0))
                share = left_s / np.maximum(self._to_s[mine] - self._from_s[mine], 1e-9)
                for label in Label:
                    seconds[label] += float((self._spent(card, label, mine) * share).sum())
        return seconds

    def _held(self, card: int, label: Label, which: npt.NDArray[np.bool_]) -> Floats:
        """Return for how long a card was in a state since the step began, beyond each of those that wait for it."""
        since = _Stretch(self._begun_s[which], self._to_s[which])
        lost_s = self._between(card, label, since)
        for rank, other in enumerate(self._plan.cards):
            own = self._rank[which] == rank
            lost_s[own] -= self._between(other, label, _Stretch(since.from_s[own], since.to_s[own]))
        return np.maximum(lost_s, 0.0)

    def _spent(self, card: int, label: Label, which: npt.NDArray[np.bool_]) -> Floats:
        return self._between(card, label, _Stretch(self._from_s[which], self._to_s[which]))

    def _between(self, card: int, label: Label, stretch: _Stretch) -> Floats:
        timeline, column = self._world.timelines[card], _LABEL_0 + label
        return timeline.integral(column, stretch.to_s) - timeline.integral(column, stretch.from_s)


def _culprit(
    world: World, plan: JobPlan, mean: Floats, waits: _Waits, span: float
) -> tuple[Culprit | None, dict[int, float]]:
    size = len(plan.cards)
    costs = [waits.stood_for(rank) / (max(size - 1, 1) * span) for rank in range(size)]
    by_card = dict(zip(plan.cards, costs, strict=True))
    rank = int(np.argmax(costs))
    if costs[rank] >= _STRAGGLER_COST and costs[rank] >= _STRAGGLER_SHARE * sum(costs):
        return Culprit(plan.cards[rank], _cause(world, plan, rank, waits), costs[rank]), by_card
    return _narrow_link(world, plan, mean), by_card


def _cause(world: World, plan: JobPlan, rank: int, waits: _Waits) -> str:
    did = waits.blame(rank)
    stood = waits.stood_for(rank)
    if sum(did[label] for label in _STATE_LABELS["host_wait"]) > 0.5 * stood:
        return "host"
    for label, name in _THROTTLE_DETAILS.items():
        if did[label] > 0.3 * stood:
            return name
    card = plan.cards[rank]
    shared = sum(card in other.cards and not isinstance(other.workload, Standing) for other in world.scenario.jobs)
    return "neighbour" if shared > 1 else "clock"


def _narrow_link(world: World, plan: JobPlan, mean: Floats) -> Culprit | None:
    """A card whose link is narrower than all others' holds the whole ring to its own speed: nobody waits, all crawl."""
    slots, host = world.scenario.node.slots, world.scenario.node.host
    narrowest = min(plan.cards, key=lambda index: slots[index].wire_bytes_per_second)
    others = [index for index in plan.cards if index != narrowest]
    if len(others) < 2:
        return None
    with_it = world.fabric.solo_rate(ring(slots, plan.cards, host))
    without = world.fabric.solo_rate(ring(slots, others, host))
    cost = float(mean[Label.OWN_LINK]) * (1 - with_it / without)
    return Culprit(narrowest, "link", cost) if cost >= _STRAGGLER_COST else None


def _judge(
    split: Mapping[str, float], mean: Floats, blame: Floats, hung_s: float, span: float
) -> tuple[JobClass, str, float, float]:
    """Return class, detail, and by how much each leads."""
    if split["idle"] >= 0.5:
        return JobClass.IDLE, "", 2 * split["idle"] - 1, 1.0
    if hung_s > 0.5 * span:
        settled = hung_s >= _HUNG_AFTER_S
        return (JobClass.HUNG if settled else JobClass.UNKNOWN), "", 1.0 if settled else 0.0, 1.0
    throttled = float(sum(mean[label] for label in _THROTTLE_DETAILS))
    if throttled >= 0.5:
        detail, lead = _largest({name: float(mean[label]) for label, name in _THROTTLE_DETAILS.items()})
        return JobClass.THROTTLED, detail, 2 * throttled - 1, lead
    groups = {
        JobClass.COMPUTE: split["compute"] + split["overlap"],
        JobClass.COMMUNICATION: split["communication"] + split["peer_wait"],
        JobClass.MEMORY: split["memory"],
        JobClass.HOST: split["host_wait"],
    }
    winner, margin = _largest(groups)
    # Waiting for a peer that its host holds is the host's: whichever of the two is larger, the class is the same.
    waits = _judge_waiting(split, mean, blame, 1.0)
    if waits[0] is JobClass.HOST and winner in (JobClass.HOST, JobClass.COMMUNICATION):
        others = {name: share for name, share in groups.items() if name not in (JobClass.HOST, JobClass.COMMUNICATION)}
        ahead = groups[winner] - max(others.values())
        by_host = waits[2] if winner is JobClass.HOST else 1.0
        margin = min(ahead, max(margin, by_host))
    margin = min(margin, 1 - 2 * throttled, 1 - 2 * split["idle"])
    if winner is JobClass.COMMUNICATION:
        return _judge_waiting(split, mean, blame, margin)
    if winner is JobClass.HOST:
        detail, lead = _largest({name: float(mean[label]) for label, name in _HOST_DETAILS.items()})
        return JobClass.HOST, detail, margin, lead
    return winner, "", margin, 1.0


def _judge_waiting(
    split: Mapping[str, float], mean: Floats, blame: Floats, margin: float
) -> tuple[JobClass, str, float, float]:
    host = float(sum(blame[label] for label in _STATE_LABELS["host_wait"]))
    throttled = float(sum(blame[label] for label in _THROTTLE_DETAILS))
    waited_for = {
        JobClass.HOST: host,
        JobClass.THROTTLED: throttled,
        JobClass.COMMUNICATION: max(split["peer_wait"] - host - throttled, 0.0),
    }
    blamed, lead = _largest(waited_for)
    if blamed is not JobClass.COMMUNICATION and split["peer_wait"] > split["communication"]:
        names = _HOST_DETAILS if blamed is JobClass.HOST else _THROTTLE_DETAILS
        detail, detail_lead = _largest({name: float(blame[label]) for label, name in names.items()})
        return blamed, detail, min(margin, split["peer_wait"] - split["communication"], lead), detail_lead
    if blamed is not JobClass.COMMUNICATION:
        margin = min(margin, split["communication"] - split["peer_wait"])
    shares = {name: float(mean[label]) for label, name in _COMMUNICATION_DETAILS.items()}
    shares["straggler"] = float(mean[Label.PEER_WAIT])
    detail, detail_lead = _largest(shares)
    return JobClass.COMMUNICATION, detail, margin, detail_lead


def _largest(shares: Mapping[_Name, float]) -> tuple[_Name, float]:
    ordered = sorted(shares, key=lambda name: shares[name], reverse=True)
    second = shares[ordered[1]] if len(ordered) > 1 else 0.0
    return ordered[0], shares[ordered[0]] - second
