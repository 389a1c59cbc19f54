"""The account of one job: its cards, what it has added up, and when it ended.

A card that is lost stays with its job until the job ends, although its processes are gone. When the job ends its
gauges are gone with the next tick and its counters stay five minutes more, so that a slow scraper sees the last values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpumon.analysis.rates import added
from gpumon.jobs.attribution import CONTEXT_BYTES
from gpumon.model.fault import Fault
from gpumon.model.job import Job, JobCard, JobKind
from gpumon.model.samples import CardTick
from gpumon.model.verdict import TIME_STATES, JobClass, Verdict
from gpumon.model.view import JobView
from gpumon.pipeline.cards import CardCounters

ENDED_STAYS_S = 300.0
# A job known by its busy cards only ends when they have not worked for so long; a checkpoint takes 15 to 60 s.
NAMELESS_STAYS_S = 120.0
ENERGY = "energy_joules"
_WITHOUT_DRIVER = (Fault.RELEASED, Fault.DRIVER_NOT_LOADED, Fault.VERSION_MISMATCH)


@dataclass(frozen=True, slots=True)
class Ledger:
    """One job's account."""

    job: Job
    ended_s: float = math.nan
    worked_s: float = math.nan  # when it was last seen by the attribution
    energy_joules: float = math.nan
    energy_levels: Mapping[str, float] = field(default_factory=dict)  # uuid -> card total at the last tick
    class_seconds: Mapping[str, float] = field(default_factory=lambda: {kind.value: 0.0 for kind in JobClass})
    time_seconds: Mapping[str, float] = field(default_factory=dict)


def with_held_cards(
    job: Job, before: Job | None, ticks: Mapping[str, CardTick], logged: frozenset[str] = frozenset()
) -> Job:
    """Return the job with the cards it holds although nothing of it is seen on them.

    A card that no longer answers stays with its job. A job whose processes nobody can name (another tool's log, a
    container without host pids) is known by its busy cards only: one that stops for a while still belongs to it, or
    the card everybody waits for would be the one that is missing.

    Args:
        logged: cards of another tool's log, of which the attribution itself says how long they belong to the job.
    """
    if before is None:
        return job
    present = {card.uuid for card in job.cards}
    nameless = job.kind is JobKind.UNATTRIBUTED
    held = tuple(
        card if nameless else replace(card, used=False, memory_bytes=math.nan, sm_ratio=math.nan)
        for card in before.cards
        if card.uuid not in present | logged and (nameless or card.uuid not in ticks or not ticks[card.uuid].up)
    )
    return replace(job, cards=job.cards + held) if held else job


def with_nameless(
    jobs: tuple[Job, ...], ledgers: Mapping[str, Ledger], ticks: Mapping[str, CardTick], now_s: float
) -> tuple[Job, ...]:
    """Return the jobs with the one nobody can name, for a while after its last card stopped working.

    Not where the memory of its cards says that nobody is left there: such a job ended, and does not stand idle.
    """
    if any(job.kind is JobKind.UNATTRIBUTED for job in jobs):
        return jobs
    return jobs + tuple(
        account.job
        for account in ledgers.values()
        if account.job.kind is JobKind.UNATTRIBUTED
        and math.isnan(account.ended_s)
        and now_s - account.worked_s < NAMELESS_STAYS_S
        and not all(_is_empty(ticks.get(card.uuid)) for card in account.job.cards)
    )


def _is_empty(card_tick: CardTick | None) -> bool:
    """Return True where a card answers and too little of its memory is in use for any process."""
    return card_tick is not None and card_tick.up and card_tick.reading("memory_used_bytes") < CONTEXT_BYTES


def _lost(job: Job, ticks: Mapping[str, CardTick]) -> int:
    """Return how many of the job's cards do not answer while others could: a driver that is away took none."""
    uuids = {card.uuid for card in job.cards}
    return sum(1 for uuid in uuids if uuid not in ticks or not (ticks[uuid].up or ticks[uuid].fault in _WITHOUT_DRIVER))


def charge(account: Ledger, verdict: Verdict, counters: Mapping[str, CardCounters], span_s: float) -> Ledger:
    """Return the job's account after one tick of `span_s` seconds under a verdict."""
    job = account.job
    energy, levels = account.energy_joules, {}
    for card in job.cards:
        total = counters[card.uuid].totals.get(ENERGY) if card.uuid in counters else None
        if card.shared or total is None or math.isnan(total.value):
            continue
        levels[card.uuid] = total.value
        energy = added(energy, total.value - account.energy_levels.get(card.uuid, total.value))
    kind = verdict.job_class.value
    class_seconds = {**account.class_seconds, kind: account.class_seconds[kind] + span_s}
    time_seconds = account.time_seconds
    if verdict.time_split is not None:
        card_seconds = span_s * max(1, len(job.cards))
        time_seconds = {
            state: time_seconds.get(state, 0.0) + card_seconds * getattr(verdict.time_split, state)
            for state in TIME_STATES
        }
    return replace(
        account,
        energy_joules=energy,
        energy_levels=levels,
        class_seconds=class_seconds,
        time_seconds=time_seconds,
    )


def _sum_unshared(cards: tuple[JobCard, ...], ticks: Mapping[str, CardTick], key: str) -> float:
    """Return the sum over the job's cards; missing when one is shared (not split honestly) or does not tell."""
    total = 0.0
    for card in cards:
        if card.shared or card.mig_uuid:
            return math.nan
        if card.uuid in ticks and ticks[card.uuid].up:
            total += ticks[card.uuid].reading(key)
    return total if cards else math.nan


def running_view(
    account: Ledger, verdict: Verdict, ticks: Mapping[str, CardTick], link_saturation: Mapping[str, float]
) -> JobView:
    """Return a running job as outputs show it."""
    job = account.job
    up = [ticks[card.uuid] for card in job.cards if card.uuid in ticks and ticks[card.uuid].up]
    utilization = [u for u in (tick.reading("utilization_ratio") for tick in up) if not math.isnan(u)]
    memory = [card.memory_bytes for card in job.cards if not math.isnan(card.memory_bytes)]
    return JobView(
        job=job,
        verdict=verdict,
        gpus_lost=_lost(job, ticks),
        utilization_ratio=sum(utilization) / len(utilization) if utilization else math.nan,
        power_watts=_sum_unshared(job.cards, ticks, "power_watts"),
        memory_bytes=sum(memory) if memory else math.nan,
        energy_joules_total=account.energy_joules,
        link_saturation=link_saturation,
        class_seconds_total=account.class_seconds,
        time_seconds_total=account.time_seconds,
    )


def ended_view(account: Ledger) -> JobView:
    """Return an ended job as outputs show it: identity and counters only."""
    return JobView(
        job=account.job,
        verdict=Verdict(),
        ended_s=account.ended_s,
        energy_joules_total=account.energy_joules,
        class_seconds_total=account.class_seconds,
        time_seconds_total=account.time_seconds,
    )
