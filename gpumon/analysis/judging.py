"""One job through one tick: marks, window, evidence, judgement, the verdict that stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from gpumon.analysis import changes, evidence, host, hysteresis, stillness, throttling, time_split, waiting
from gpumon.analysis.case import Case
from gpumon.analysis.evidence import CardEvidence, JobEvidence
from gpumon.analysis.hysteresis import Standing
from gpumon.analysis.memory import CardMemory, JobMemory
from gpumon.analysis.time_split import Split
from gpumon.analysis.verdict import judge
from gpumon.model.card import Card
from gpumon.model.job import Job
from gpumon.model.samples import Floats, Tick
from gpumon.model.verdict import JobClass, TimeSplit, Verdict

LONGEST_S = 40.0  # of the window; long enough for many steps, short enough to follow a job
JUDGE_EVERY = 2  # ticks; jobs take turns, so the cost is spread
HOST_NAMES = (
    "gpu_process_cpus",
    "busiest_process_cpus",
    "relatives_cpus",
    "read_bytes_per_second",
    "write_bytes_per_second",
    "throttled_ratio",
    "io_wait_ratio",
    "io_pressure_ratio",
    "loopback_bytes_per_second",
)
# What the window's length alone leaves open: a share seen over n independent seconds.
SPLIT_FLOOR = 0.03


def _mark(job: Job, tick: Tick, cards: Mapping[str, CardMemory]) -> Floats:
    """Return the job's mark of this second: utilization, its least, power over limit, traffic over ceiling."""
    utilization, power, link = [], [], []
    by_uuid = {card_tick.uuid: card_tick for card_tick in tick.card_ticks}
    for member in job.cards:
        card_tick = by_uuid.get(member.uuid)
        if card_tick is None or not card_tick.up:
            continue
        ring = card_tick.utilization.value
        utilization.append(float(ring.mean()) if ring.size else card_tick.reading("utilization_ratio"))
        watts = float(card_tick.power.value.mean()) if card_tick.power.value.size else card_tick.reading("power_watts")
        limit = card_tick.reading("power_limit_watts")
        power.append(watts / limit if limit > 0.0 else watts / 500.0)
        memory = cards[member.uuid]
        link.append(memory.last_mean / memory.capacity.ceiling)
    return changes.figures_of(utilization, power, link)


def gather(
    job: Job, known: Mapping[str, Card], cards: Mapping[str, CardMemory], past: JobMemory, span: tuple[float, float]
) -> JobEvidence:
    """Return what was seen of the job between two times."""
    found: list[CardEvidence] = []
    for member in {card.uuid: card for card in job.cards}.values():
        if member.uuid not in known or member.uuid not in cards:
            continue
        memory = cards[member.uuid]
        seen = evidence.card_evidence(
            known[member.uuid],
            memory.windows,
            memory.capacity,
            memory.levels,
            up=memory.up,
            throttled=throttling.shares(memory.throttle, span[0]),
            window=span,
        )
        found.append(replace(seen, shared=member.shared))
    return JobEvidence(
        from_s=span[0],
        to_s=span[1],
        cards=tuple(found),
        host={name: host.mean(past.host, name, span[0]) for name in HOST_NAMES},
        processes_known=job.kind.value != "unattributed",
        processes=len(job.processes),
    )


def step(
    past: JobMemory, job: Job, tick: Tick, cards: Mapping[str, CardMemory], *, turn: bool
) -> tuple[JobMemory, JobEvidence | None]:
    """Return the job's memory after one tick, and the evidence where it was the job's turn to be judged."""
    now_s = tick.mono_s
    marks, changed = changes.extend(past.marks, now_s, _mark(job, tick, cards))
    memory = replace(past, marks=marks, host=host.extend(past.host, job, tick.processes))
    if not turn and not changed:
        return memory, None
    known = {card.identity.uuid: card for card in tick.cards}
    span = (max(marks.from_s, now_s - LONGEST_S), now_s)
    seen = gather(job, known, cards, memory, span)
    still = stillness.extend(past.still, seen, now_s)
    who = waiting.find(seen.cards)
    result = time_split.split(seen, who)
    case = Case(job, seen, result, who, still.seconds(now_s))
    standing = hysteresis.settle(past.standing, judge(case), marks.from_s, now_s)
    verdict = _verdict(standing, case, result)
    return replace(memory, still=still, standing=standing, verdict=verdict), seen


def _verdict(standing: Standing, case: Case, result: Split | None) -> Verdict:
    return Verdict(
        job_class=standing.job_class,
        detail=standing.detail,
        confidence=standing.confidence,
        since_s=standing.since_s,
        time_split=_time_split(standing, result, case),
        evidence=standing.evidence,
        against=standing.against,
        window_s=case.evidence.seconds,
    )


def _time_split(standing: Standing, result: Split | None, case: Case) -> TimeSplit | None:
    if standing.job_class is JobClass.IDLE:
        return TimeSplit(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, SPLIT_FLOOR)
    if result is None or case.evidence.seconds < 10.0:
        return None
    return time_split.stated(result, SPLIT_FLOOR + 0.2 / math.sqrt(case.evidence.seconds))
