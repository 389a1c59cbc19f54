"""One step: a tick and the state before it give the state after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from gpumon import analysis, scaling
from gpumon.jobs import attribute
from gpumon.model.card import LinkSource
from gpumon.model.job import Job
from gpumon.model.past import NOTHING, Past
from gpumon.model.samples import CardTick, Tick
from gpumon.model.settings import Settings
from gpumon.model.verdict import Interval, Verdict
from gpumon.model.view import CardView, JobView, LinkView, NodeView
from gpumon.pipeline import cards, ledger
from gpumon.pipeline.cards import CardCounters
from gpumon.pipeline.intervals import extend
from gpumon.pipeline.ledger import Ledger
from gpumon.pipeline.state import State

# A longer silence (a suspended machine, a hole in a recording) is charged to nobody.
LONGEST_SPAN_S = 60.0


def _count_cards(state: State, tick: Tick, span_s: float) -> dict[str, CardCounters]:
    counters = dict(state.cards)
    for card_tick in tick.card_ticks:
        before = counters.get(card_tick.uuid, CardCounters())
        counters[card_tick.uuid] = cards.count(
            before,
            card_tick,
            tick.events,
            wall_s=tick.wall_s,
            span_s=span_s,
            link_errors=tick.host.aer_errors.get(card_tick.uuid, {}),
        )
    return counters


def _card_views(tick: Tick, counters: Mapping[str, CardCounters], found: analysis.Analysis) -> tuple[CardView, ...]:
    return tuple(
        cards.view(
            card,
            card_tick,
            counters[card_tick.uuid],
            found.pcie.get(card_tick.uuid, LinkView()),
            found.nvlink.get(card_tick.uuid),
        )
        for card, card_tick in zip(tick.cards, tick.card_ticks, strict=True)
    )


def _charge(
    state: State,
    jobs: tuple[Job, ...],
    found: analysis.Analysis,
    counters: Mapping[str, CardCounters],
    *,
    seen: frozenset[str],
    now_s: float,
    span_s: float,
) -> dict[str, Ledger]:
    """Return the accounts of running jobs and of those that ended less than five minutes ago.

    Args:
        seen: names of the jobs that the attribution saw in this tick.
    """
    running = {
        job.gpu_job: ledger.charge(
            _opened(state, job, seen, now_s), found.verdicts.get(job.gpu_job, Verdict()), counters, span_s
        )
        for job in jobs
    }
    ended = {
        name: account if not math.isnan(account.ended_s) else replace(account, ended_s=now_s)
        for name, account in state.ledgers.items()
        if name not in running and not now_s - account.ended_s >= ledger.ENDED_STAYS_S
    }
    return {**running, **ended}


def _opened(state: State, job: Job, seen: frozenset[str], now_s: float) -> Ledger:
    """Return the job's account as it stands at the beginning of this tick; a job that comes back goes on counting."""
    before = state.ledgers.get(job.gpu_job, Ledger(job))
    worked_s = now_s if job.gpu_job in seen else before.worked_s
    return replace(before, job=job, ended_s=math.nan, worked_s=worked_s)


def _extend_intervals(
    state: State,
    found: analysis.Analysis,
    ledgers: Mapping[str, Ledger],
    *,
    first_s: float,
    now_s: float,
    span_s: float,
) -> dict[str, tuple[Interval, ...]]:
    """Return the jobs' histories; their times are seconds from the first tick.

    A history tells steps and saves apart, where the verdict is what the job is over both.
    """
    intervals = {name: known for name, known in state.intervals.items() if name in ledgers}
    for name, verdict in found.verdicts.items():
        said = verdict.phase or verdict
        relative = replace(said, since_s=said.since_s - first_s)
        intervals[name] = extend(intervals.get(name, ()), relative, now_s - span_s, now_s)
    return intervals


def step(
    state: State,
    tick: Tick,
    settings: Settings,
    past: Past = NOTHING,
    on_error: Callable[[str], None] | None = None,
) -> State:
    """Return the state after one tick. Pure: no clock, no randomness, the state before is not changed.

    Args:
        past: what the history knew before this tick; runs of this state are compared with each other in any case.
        on_error: told of a card or job that cannot be judged, inside the handler of the error; None raises it.
    """
    now_s = tick.mono_s
    first_s = now_s if math.isnan(state.first_s) else state.first_s
    span_s = min(now_s - state.view.mono_s, LONGEST_SPAN_S) if state.view is not None else 0.0
    ticks: dict[str, CardTick] = {card_tick.uuid: card_tick for card_tick in tick.card_ticks}

    logged = frozenset(card.identity.uuid for card in tick.cards if card.capabilities.pcie_source is LinkSource.LOG)
    jobs_memory, attributed = attribute(state.jobs, tick, settings)
    seen = frozenset(job.gpu_job for job in attributed)
    jobs = tuple(
        ledger.with_held_cards(job, _job_before(state, job.gpu_job), ticks, logged)
        for job in ledger.with_nameless(attributed, state.ledgers, ticks, now_s)
    )
    memory, found = analysis.analyse(state.analysis, tick, jobs, settings, on_error)
    counters = _count_cards(state, tick, span_s)
    ledgers = _charge(state, jobs, found, counters, seen=seen, now_s=now_s, span_s=span_s)
    followed, found = _judge_scaling(state, tick, jobs, memory, found, ledgers=ledgers, past=past)
    job_views: tuple[JobView, ...] = tuple(
        ledger.ended_view(account)
        if not math.isnan(account.ended_s)
        else ledger.running_view(
            account, found.verdicts.get(name, Verdict()), ticks, found.link_saturation.get(name, {})
        )
        for name, account in ledgers.items()
    )
    most_cards = max(state.most_cards, len(tick.cards))
    # Before the driver has answered no card is missed: the driver is.
    before_start = past.most_cards if tick.nvml_up or most_cards else 0
    view = NodeView(
        seq=tick.seq,
        mono_s=now_s,
        wall_s=tick.wall_s,
        nvml_up=tick.nvml_up,
        nvml_fault=tick.nvml_fault.value if tick.nvml_fault is not None else "",
        node=tick.node,
        topology=tick.topology,
        cards=_card_views(tick, counters, found),
        uplinks=found.uplinks,
        jobs=job_views,
        findings=found.findings,
        gpus_expected=settings.sampling.expected_gpus or max(most_cards, before_start),
        sampler=tick.sampler,
    )
    return State(
        view=view,
        analysis=memory,
        jobs=jobs_memory,
        scaling=followed,
        cards=counters,
        ledgers=ledgers,
        intervals=_extend_intervals(state, found, ledgers, first_s=first_s, now_s=now_s - first_s, span_s=span_s),
        most_cards=most_cards,
        first_s=first_s,
    )


def _judge_scaling(
    state: State,
    tick: Tick,
    jobs: tuple[Job, ...],
    memory: analysis.AnalysisMemory,
    found: analysis.Analysis,
    *,
    ledgers: Mapping[str, Ledger],
    past: Past,
) -> tuple[scaling.Memory, analysis.Analysis]:
    """Return the runs followed through one more tick, and the verdicts with what they say of the card count."""
    seen = scaling.Seen(
        verdicts=found.verdicts,
        looks={name: job.looks for name, job in memory.jobs.items()},
        splits={name: job.case.split for name, job in memory.jobs.items() if job.case is not None},
        energies={name: account.energy_joules for name, account in ledgers.items()},
    )
    followed, scalings = scaling.follow(state.scaling, tick, jobs, seen, past)
    verdicts = {
        name: replace(verdict, scaling=scalings.get(name), outcome=followed.outcome(name))
        for name, verdict in found.verdicts.items()
    }
    return followed, replace(found, verdicts=verdicts)


def _job_before(state: State, gpu_job: str) -> Job | None:
    account = state.ledgers.get(gpu_job)
    return account.job if account is not None and math.isnan(account.ended_s) else None
