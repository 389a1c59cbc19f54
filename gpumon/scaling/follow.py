"""The jobs of a node followed through time: runs begin, grow and end; each is judged in its turn."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpumon.analysis.evidence import CardEvidence
from gpumon.analysis.time_split import Split
from gpumon.model.job import Job
from gpumon.model.past import NOTHING, Past, Run, SetRate
from gpumon.model.process import ProcessTable
from gpumon.model.samples import Tick
from gpumon.model.verdict import JobClass, Outcome, Scaling, Verdict
from gpumon.scaling import bandwidth, cards, reports, runs
from gpumon.scaling.judge import Node, judge
from gpumon.scaling.outcome import came_true
from gpumon.scaling.reports import Counter
from gpumon.scaling.runs import Watched
from gpumon.scaling.work import Work, of_strategy

ROUND = 10  # ticks between two looks at a job
SETTLED_S = 20.0  # a set of working cards is a run's only when it has stood for so long
WORKS = 0.02  # utilization of a card that does anything: a layer of eight in turn has 0.12, a context alone 0
MOST_ENDED = 64  # runs kept after their end, for comparison where no history is kept
# Programs that take a fixed share of the card's memory at start: what they hold says nothing about what they need.
POOLS = frozenset({"vllm", "sglang", "tgi", "tensorrt-llm"})

Key = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Follow:
    """One job's present."""

    key: Key | None = None  # its run
    pending: tuple[str, ...] = ()  # a set of cards that may become the run's
    pending_s: float = math.nan  # since when
    looked_s: float = math.nan
    scaling: Scaling | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """What is carried from tick to tick."""

    jobs: Mapping[str, Follow] = field(default_factory=dict)  # by gpu_job
    watched: Mapping[Key, Watched] = field(default_factory=dict)  # runs under way and ended ones, oldest first
    rates: Mapping[tuple[tuple[str, ...], str], SetRate] = field(default_factory=dict)
    counters: Mapping[str, Counter] = field(default_factory=dict)  # by gpu_job

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs seen by this process, for the history."""
        return tuple(watched.run for watched in self.watched.values())

    def outcome(self, gpu_job: str) -> Outcome | None:
        """Return what was changed since the run before of a job's workload brought; None where nothing is known."""
        return self.jobs[gpu_job].outcome if gpu_job in self.jobs else None


Scalings = Mapping[str, Scaling | None]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the analysis says of the jobs, by gpu_job."""

    verdicts: Mapping[str, Verdict]
    looks: Mapping[str, Mapping[str, CardEvidence]]  # then by uuid
    splits: Mapping[str, Split | None]
    energies: Mapping[str, float]  # joules, cumulative


def initial_memory() -> Memory:
    """Return the memory of a gpumon that has seen no job."""
    return Memory()


def follow(
    memory: Memory, tick: Tick, jobs: tuple[Job, ...], seen: Seen, past: Past = NOTHING
) -> tuple[Memory, Scalings]:
    """Return the memory after one tick, and how well each job's cards are used.

    Args:
        past: what the history knows; runs of this process are compared with each other in any case.
    """
    watched = {key: one for key, one in memory.watched.items() if one.run.beginning not in past.forgotten}
    rates = dict(memory.rates)
    said, counters = reports.rates(tick.reports, jobs, tick.processes, memory.counters)
    present: dict[str, Follow] = {}
    for number, job in enumerate(jobs):
        before = memory.jobs.get(job.gpu_job, Follow())
        verdict = None if _is_pending(job, tick.processes) else seen.verdicts.get(job.gpu_job)
        looks = seen.looks.get(job.gpu_job, {})
        if verdict is None or (tick.seq + number) % ROUND:
            present[job.gpu_job] = before
            continue
        workload = _workload(job, tick.processes)
        now = Follow()
        if _alone(job):
            known_sets = {one.uuids for one in past.runs.get(workload, ()) if one.gpu_job == job.gpu_job}
            now = _settle(before, _working(job, looks), tick.mono_s, job.gpu_job, known_sets)
        if now.key is not None and not now.pending:
            known = watched.pop(now.key, None)
            span_s = 0.0 if known is None else _span_s(before, tick)
            begun = known or Watched(_begin(job, workload, now.key[1], tick, verdict))
            grown = _grow(begun, job, tick, seen, span_s=span_s)
            watched[now.key] = grown
            _learn(rates, grown.run, looks.values(), verdict, tick.wall_s)
            everything = _together(past, grown.run, watched, rates)
            run = _as_known(grown.run, past)
            now = replace(
                now,
                scaling=judge(run, everything, _node(job, run, tick, verdict)),
                outcome=came_true(run, everything.runs.get(run.workload, ())),
            )
        present[job.gpu_job] = replace(now, looked_s=tick.mono_s)
    for rate in said:
        key = present[rate.gpu_job].key
        if key is not None and key in watched:
            watched[key] = runs.report(watched[key], rate.rate, rate.unit)
    watched = _ended(watched, {job.gpu_job for job in jobs})
    after = Memory(present, watched, rates, counters)
    return after, {name: one.scaling for name, one in present.items()}


def _alone(job: Job) -> bool:
    """Return True where nobody else works on the job's cards: what another job does there is not this one's."""
    return not any(card.shared or card.mig_uuid for card in job.cards)


def _working(job: Job, looks: Mapping[str, CardEvidence]) -> tuple[str, ...]:
    """Return the cards the job uses that do anything, sorted; () where one was not looked at yet."""
    held = {card.uuid for card in job.cards if card.used}
    return tuple(sorted(uuid for uuid in held if not looks[uuid].utilization < WORKS)) if held <= looks.keys() else ()


def _settle(
    before: Follow, working: tuple[str, ...], now_s: float, gpu_job: str, known: Collection[tuple[str, ...]]
) -> Follow:
    """Return the job's present with its run's set of cards; a set the job is not known by must stand for a while.

    A job whose cards all rest (no requests, a pause) keeps its run.
    """
    if not working:
        return before
    if before.key is not None and before.key[1] == working:
        return replace(before, pending=(), pending_s=math.nan)
    if before.key is None and working in known:
        return Follow(key=(gpu_job, working))
    if before.pending != working:
        return replace(before, pending=working, pending_s=now_s)
    if now_s - before.pending_s >= SETTLED_S:
        return Follow(key=(gpu_job, working))
    return before


def _grow(watched: Watched, job: Job, tick: Tick, seen: Seen, *, span_s: float) -> Watched:
    """Return a job's run after one more look at it."""
    verdict = seen.verdicts[job.gpu_job]
    return runs.extend(
        replace(watched, run=replace(watched.run, ended=False, strategy=_strategy(job, verdict))),
        verdict,
        seen.splits.get(job.gpu_job),
        span_s=span_s,
        wall_s=tick.wall_s,
        energy_joules=seen.energies.get(job.gpu_job, math.nan),
    )


def _span_s(before: Follow, tick: Tick) -> float:
    """Return the time since the last look; none for the first, and no more than three rounds after a gap."""
    span_s = tick.mono_s - before.looked_s
    return 0.0 if math.isnan(span_s) else min(span_s, 3.0 * ROUND)


def _as_known(run: Run, past: Past) -> Run:
    """Return a run as the history knows it where it was watched for longer: what has just started has seen little."""
    before = next((one for one in past.runs.get(run.workload, ()) if one.key == run.key), run)
    return before if before.watched_s > run.watched_s else run


def _begin(job: Job, workload: str, uuids: tuple[str, ...], tick: Tick, verdict: Verdict) -> Run:
    indices = {card.identity.uuid: card.identity.index for card in tick.cards}
    names = {card.identity.name for card in tick.cards if card.identity.uuid in uuids}
    return Run(
        gpu_job=job.gpu_job,
        workload=workload,
        tenant=job.tenant,
        uuids=uuids,
        gpus=tuple(sorted(indices[uuid] for uuid in uuids if uuid in indices)),
        card=names.pop() if len(names) == 1 else "",
        topology=cards.signature(uuids, tick.topology),
        strategy=_strategy(job, verdict),
        begin_wall_s=tick.wall_s,
        end_wall_s=tick.wall_s,
        micro_batch=job.layout.micro_batch,
        accumulation=job.layout.accumulation,
    )


def _is_pending(job: Job, table: ProcessTable) -> bool:
    """Return True while the runtime is being asked about the job's container: its image is part of what it runs."""
    return bool(job.container) and any(known.startswith(job.container) for known in table.containers_pending)


def _workload(job: Job, table: ProcessTable) -> str:
    """Return the workload's identity with the container's image, where that is known; its version does not count."""
    image = next(
        (one.image for key, one in table.containers.items() if job.container and key.startswith(job.container)), ""
    )
    if not job.workload or not image:
        return job.workload
    folder, slash, name = image.partition("@")[0].rpartition("/")
    text = f"{job.workload}\0{folder}{slash}{name.partition(':')[0]}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _strategy(job: Job, verdict: Verdict) -> str:
    """Return how the work is cut up: as it was asked for where that says how it grows with the cards, else as seen."""
    asked = job.layout.asked
    return asked if of_strategy(asked) is not Work.UNKNOWN else verdict.strategy or asked


def _learn(
    rates: dict[tuple[tuple[str, ...], str], SetRate],
    run: Run,
    looks: Iterable[CardEvidence],
    verdict: Verdict,
    wall_s: float,
) -> None:
    """Keep the best rate the run's cards have sustained."""
    for link, rate in bandwidth.observed(run.uuids, looks, verdict).items():
        known = rates.get((run.uuids, link))
        if known is None or rate > known.bytes_per_second:
            rates[run.uuids, link] = SetRate(run.uuids, run.gpus, link, rate, wall_s)


def _together(
    past: Past, run: Run, watched: Mapping[Key, Watched], rates: Mapping[tuple[tuple[str, ...], str], SetRate]
) -> Past:
    """Return what the history and this process itself know about a run's workload, and about sets of cards."""
    own = {one.run.key: one.run for one in watched.values() if one.run.workload == run.workload}
    before = past.runs.get(run.workload, ())
    known = (*own.values(), *(one for one in before if one.key not in own))
    better = {
        key: rate
        for key, rate in rates.items()
        if key not in past.rates or rate.bytes_per_second > past.rates[key].bytes_per_second
    }
    return Past({run.workload: known}, {**past.rates, **better})


def _ended(watched: dict[Key, Watched], alive: set[str]) -> dict[Key, Watched]:
    """Return the runs with those whose job is gone marked as ended; the oldest ended ones go."""
    marked = {
        key: one if one.run.ended or key[0] in alive else replace(one, run=replace(one.run, ended=True))
        for key, one in watched.items()
    }
    ended = [key for key, one in marked.items() if one.run.ended]
    for key in ended[: max(0, len(ended) - MOST_ENDED)]:
        del marked[key]
    return marked


def _node(job: Job, run: Run, tick: Tick, verdict: Verdict) -> Node:
    by_uuid = {card_tick.uuid: card_tick for card_tick in tick.card_ticks}
    totals = [by_uuid[uuid].reading("memory_total_bytes") for uuid in run.uuids if uuid in by_uuid]
    alike = {
        card.identity.uuid: card.identity.index
        for card in tick.cards
        if card.identity.name == run.card and card.fault is None
    }
    return Node(
        indices=alike,
        topology=tick.topology,
        detail=verdict.detail if verdict.job_class is JobClass.COMMUNICATION else "",
        held_bytes=sum(card.memory_bytes for card in job.cards if card.uuid in run.uuids),
        card_bytes=min(totals, default=math.nan),
        pooled=job.layout.framework in POOLS,
        avoid=frozenset(straggler.uuid for straggler in verdict.stragglers),
    )
