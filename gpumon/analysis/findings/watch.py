"""When a job or the node is looked at for findings, and what is put before the detectors.

A look costs about as much as a judgement and findings change slowly: each job is looked at every ten seconds, in
turn, and what needs a verdict is asked only once that has stood for a while.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from gpumon.analysis import beat, shape, windows
from gpumon.analysis.case import Case
from gpumon.analysis.evidence import CardEvidence
from gpumon.analysis.findings import JOB_DETECTORS, NODE_DETECTORS, holding
from gpumon.analysis.findings.detector import Detector, Found
from gpumon.analysis.findings.past import FindingsPast, JobFindings, SwapLevels
from gpumon.analysis.findings.subject import CardFacts, NodeSubject, Saves, Subject, Swap
from gpumon.analysis.memory import CardMemory, JobMemory
from gpumon.analysis.strategy import LOOKS_KEPT, Seen, Told, by_shape, recognise
from gpumon.model.causes import CAUSES_BY_KEY
from gpumon.model.job import Job
from gpumon.model.process import HostSample, Process
from gpumon.model.samples import Floats, Tick
from gpumon.model.settings import Settings
from gpumon.model.verdict import Finding, JobClass, Verdict
from gpumon.model.view import UplinkView

LOOK_S = 10.0
TURNS = 10  # ticks over which the jobs' looks are spread
OVERDUE_S = 15.0  # a job whose turn fell into a hole, or whose ticks are further apart than its turns
SETTLED_S = 15.0  # how long a verdict has stood before anything rests on it
SHORTEST_S = 12.0  # of a window, for a look
# For a look at the shape alone: the window of a job whose phases last so long that each is a change never gets longer.
SHORTEST_SHAPE_S = 5.0
SAVES_KEPT = 60  # looks: ten minutes
SAVES_BYTES_PER_SECOND = 50e6  # to disk: a checkpoint, not a log
WATCHED_FROM_START_S = 60.0
Key: TypeAlias = tuple[int, int]  # (pid, start_ticks)
_SETTLED_CLASSES = frozenset(JobClass) - {JobClass.UNKNOWN, JobClass.IDLE}


@dataclass(frozen=True, slots=True)
class Now:
    """What one tick brings, as the looks need it."""

    tick: Tick
    jobs: tuple[Job, ...]
    cards: Mapping[str, CardMemory]  # by uuid, after this tick
    memories: Mapping[str, JobMemory]  # by gpu_job, after this tick
    uplinks: tuple[UplinkView, ...]
    settings: Settings


def step(
    past: FindingsPast, now: Now, on_error: Callable[[str], None] | None = None
) -> tuple[FindingsPast, dict[str, Verdict], tuple[Finding, ...]]:
    """Return the memory after one tick, the verdicts with strategy and findings, and what the operator is told.

    Args:
        on_error: as for `analyse`; the findings that stood are kept.
    """
    now_s, seq = now.tick.mono_s, now.tick.seq
    swap = _swap(past.swap, now.tick.host, now_s)
    jobs: dict[str, JobFindings] = {}
    for number, job in enumerate(now.jobs):
        before = past.jobs.get(job.gpu_job, JobFindings())
        waited_s = now_s - before.looked_s
        due = waited_s >= OVERDUE_S or (waited_s >= LOOK_S / 2 and (seq + number) % TURNS == 0)
        try:
            jobs[job.gpu_job] = _look(before, job, now, swap.rates) if due else before
        except Exception:
            if on_error is None:
                raise
            on_error(job.gpu_job)
            jobs[job.gpu_job] = replace(before, looked_s=now_s)
    node, node_looked_s = past.node, past.node_looked_s
    if now_s - node_looked_s >= OVERDUE_S or (seq % TURNS == TURNS - 1 and now_s - node_looked_s >= LOOK_S / 2):
        node, node_looked_s = _look_at_node(past.node, jobs, now), now_s
    verdicts = {name: _spoken(now.memories[name].verdict, known) for name, known in jobs.items()}
    return FindingsPast(jobs, node, node_looked_s, swap), verdicts, node.findings


def _spoken(verdict: Verdict, known: JobFindings) -> Verdict:
    """Return the verdict with strategy, findings, and what its cause advises."""
    key = f"{verdict.job_class.value}.{verdict.detail}" if verdict.detail else verdict.job_class.value
    cause = CAUSES_BY_KEY.get(key) if verdict.job_class is not JobClass.UNKNOWN else None
    return replace(
        verdict,
        strategy=known.strategy.strategy,
        findings=known.held.findings,
        advice=cause.advice if cause is not None else "",
        advice_zh=cause.chinese[3] if cause is not None else "",
    )


def _swap(past: SwapLevels, host: HostSample, now_s: float) -> SwapLevels:
    span_s = now_s - past.read_s
    if not math.isnan(span_s) and span_s < LOOK_S:
        return past
    swapped_in, swapped_out = host.swap_in_bytes, host.swap_out_bytes
    rates = Swap()
    if span_s > 0.0:
        rates = Swap(
            max(0.0, swapped_in - past.in_bytes) / span_s if swapped_in >= past.in_bytes else math.nan,
            max(0.0, swapped_out - past.out_bytes) / span_s if swapped_out >= past.out_bytes else math.nan,
        )
    return SwapLevels(now_s, swapped_in, swapped_out, rates)


def _look(before: JobFindings, job: Job, now: Now, swap: Swap) -> JobFindings:
    """Look at one job: recognise its strategy, and ask every detector whose signals were there."""
    memory, now_s = now.memories[job.gpu_job], now.tick.mono_s
    case = memory.case
    if case is None or case.evidence.seconds < SHORTEST_SHAPE_S:
        return replace(before, strategy=recognise(job, before.told), looked_s=now_s)
    by_key = _processes(job, now)
    cards = _cards(job, memory, now, by_key)
    on = frozenset(facts.seen.uuid for facts in cards)
    told = _told(before.told if before.told_on == on else (), job, now, cards)
    if case.evidence.seconds < SHORTEST_S:
        return replace(before, told=told, told_on=on, strategy=recognise(job, told), looked_s=now_s)
    saves = _saves(before.saves, case)
    subject = _subject(job, case, now, cards, by_key, strategy=recognise(job, told), saves=saves, swap=swap)
    verdict = subject.verdict
    settled = verdict.job_class in _SETTLED_CLASSES and now_s - verdict.since_s >= SETTLED_S
    idle = verdict.job_class is JobClass.IDLE

    def there(detector: Detector[Subject]) -> bool:
        return detector.there(subject)

    def askable(detector: Detector[Subject]) -> bool:
        return settled or (detector.any_class and not idle)

    def ask(detector: Detector[Subject], edge: float) -> Found | None:
        return detector.ask(subject, edge)

    held = holding.settle(before.held, JOB_DETECTORS, ask, there=there, askable=askable, now_s=now_s)
    return JobFindings(held, told, on, subject.strategy, saves, subject, now_s)


def _saves(before: Saves, case: Case) -> Saves:
    """Return the looks with this one: does one process hold all cards while it writes?"""
    alone = case.waiting.by_host and len(case.waiting.culprits) == 1
    saving = alone and case.host("write_bytes_per_second") >= SAVES_BYTES_PER_SECOND
    gpu = next((card.gpu for card in case.cards if card.uuid in case.waiting.culprits), before.gpu)
    return Saves((*before.looks, saving)[-SAVES_KEPT:], gpu if saving else before.gpu)


def _look_at_node(before: holding.Held, jobs: Mapping[str, JobFindings], now: Now) -> holding.Held:
    subjects = tuple(known.subject for known in jobs.values() if known.subject is not None)
    tenants: dict[str, set[str]] = {}
    for job in now.jobs:
        for card in job.cards:
            if card.used:
                tenants.setdefault(card.uuid, set()).add(job.tenant)
    by_address = {view.address: view for view in now.uplinks}
    node = NodeSubject(
        jobs=subjects,
        topology=now.tick.topology,
        virtualization=now.tick.node.virtualization,
        uplinks=tuple(
            (uplink, _fuller(by_address[uplink.address]))
            for uplink in now.tick.topology.uplinks
            if uplink.address in by_address
        ),
        tenants={uuid: frozenset(names) for uuid, names in tenants.items()},
    )

    def with_signals(detector: Detector[NodeSubject]) -> NodeSubject:
        return replace(node, jobs=tuple(job for job in subjects if all(signal.there(job) for signal in detector.needs)))

    def there(detector: Detector[NodeSubject]) -> bool:
        return bool(with_signals(detector).jobs)

    def ask(detector: Detector[NodeSubject], edge: float) -> Found | None:
        return detector.ask(with_signals(detector), edge)

    return holding.settle(before, NODE_DETECTORS, ask, there=there, askable=lambda _: True, now_s=now.tick.mono_s)


def _fuller(view: UplinkView) -> float:
    known = [ratio for ratio in (view.rx_saturation_ratio, view.tx_saturation_ratio) if not math.isnan(ratio)]
    return max(known, default=math.nan)


def _processes(job: Job, now: Now) -> dict[Key, Process]:
    """Return the job's processes as procfs shows them, by (pid, start_ticks)."""
    wanted = {*job.processes, *job.relatives}
    return {
        key: process
        for process in now.tick.processes.processes
        if (key := (process.pid, process.start_ticks)) in wanted
    }


def _subject(
    job: Job,
    case: Case,
    now: Now,
    cards: tuple[CardFacts, ...],
    by_key: Mapping[Key, Process],
    *,
    strategy: Seen,
    saves: Saves,
    swap: Swap,
) -> Subject:
    """Return the job as the detectors see it."""
    tick, table = now.tick, now.tick.processes
    mine = {facts.seen.uuid for facts in cards}
    up = {card_tick.uuid for card_tick in tick.card_ticks if card_tick.up}
    quotas = [table.cgroups[path].cpu_quota_cpus for path in job.cgroups if path in table.cgroups]
    watched_s = tick.mono_s - job.first_seen_s
    lived_s = tick.wall_s - job.start_wall_s
    return Subject(
        job=job,
        verdict=now.memories[job.gpu_job].verdict,
        strategy=strategy,
        cards=cards,
        given=tuple(card.uuid for card in job.cards if not card.used and card.uuid in up and card.uuid not in mine),
        split=case.split,
        step_s=case.step_s,
        seconds=case.evidence.seconds,
        waiting=case.waiting,
        host=case.evidence.host,
        processes=tuple(by_key[key] for key in job.processes if key in by_key),
        relatives=tuple(by_key[key] for key in job.relatives if key in by_key),
        topology=tick.topology,
        swap=swap,
        quota_cpus=min((quota for quota in quotas if not math.isnan(quota)), default=math.nan),
        neighbours=tuple(
            other
            for other in now.jobs
            if other.gpu_job != job.gpu_job and any(card.uuid in mine and card.used for card in other.cards)
        ),
        tenants_known=bool(now.settings.tenants.tenants),
        saves=saves,
        stuck_s=tick.mono_s - job.stuck_since_s,
        age_s=watched_s if math.isnan(lived_s) else max(watched_s, lived_s),
        seen_from_start=lived_s - watched_s <= WATCHED_FROM_START_S,
    )


def _cards(job: Job, memory: JobMemory, now: Now, by_key: Mapping[Key, Process]) -> tuple[CardFacts, ...]:
    known = {card.identity.uuid: card for card in now.tick.cards}
    ticks = {card_tick.uuid: card_tick for card_tick in now.tick.card_ticks}
    paths = {path.uuid: path for path in now.tick.topology.paths}
    by_pid = {key[0]: by_key[key] for key in job.processes if key in by_key}
    found = []
    for uuid in dict.fromkeys(card.uuid for card in job.cards if card.used):
        seen = memory.looks.get(uuid)
        if seen is None or not seen.up or uuid not in known:
            continue
        card_tick = ticks[uuid]
        own = [by_pid[entry.pid] for entry in card_tick.processes or () if entry.pid in by_pid]
        link = tuple(
            0 if math.isnan(value) else int(value)
            for value in map(
                card_tick.reading,
                ("link_generation", "link_generation_max", "link_width_lanes", "link_width_max_lanes"),
            )
        )
        found.append(
            CardFacts(
                card=known[uuid],
                seen=seen,
                memory_total=card_tick.reading("memory_total_bytes"),
                downtrained=now.cards[uuid].capacity.downtrained,
                link=(link[0], link[1], link[2], link[3]),
                path=paths.get(uuid),
                numa_nodes=own[0].numa_nodes if own else frozenset(),
            )
        )
    return tuple(sorted(found, key=lambda facts: facts.gpu))


def _told(told: tuple[Told, ...], job: Job, now: Now, cards: tuple[CardFacts, ...]) -> tuple[Told, ...]:
    """Return what the shape told at the last looks at the same cards, and at this one."""
    memory = now.memories[job.gpu_job]
    case = memory.case
    if case is None or not cards or memory.verdict.job_class in (JobClass.IDLE, JobClass.HUNG):
        return told
    seen = [facts.seen for facts in cards]
    slots = {one.uuid: _slots(one, now.cards[one.uuid], case.evidence.from_s) for one in seen}
    newest = by_shape(
        job,
        shape.of(
            seen,
            slots,
            totals=[facts.memory_total for facts in cards],
            nvlinked=any(facts.card.nvlink.active > 0 for facts in cards),
        ),
        step_s=beat.of_slots(tuple(slots.values())) if math.isnan(case.step_s) else case.step_s,
        loopback=case.host("loopback_bytes_per_second"),
        process_cpus=case.host("gpu_process_cpus"),
    )
    return (*told, newest)[-LOOKS_KEPT:]


def _slots(seen: CardEvidence, card: CardMemory, from_s: float) -> Floats:
    """Return the slots of the link that carries the card's exchange, shape (5, n)."""
    link = shape.link_in_use(seen)
    in_use = card.windows.nvlink if link is not None and link is seen.nvlink else card.windows.pcie
    return windows.since(in_use, from_s)
