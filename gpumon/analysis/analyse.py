"""One tick of analysis: windows, links, then the judgement of each job."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gpumon.analysis import activity, cards, judging, uplinks
from gpumon.analysis.capacity import Capacity
from gpumon.analysis.evidence import JobEvidence
from gpumon.analysis.findings import watch
from gpumon.analysis.memory import Analysis, AnalysisMemory, CardMemory, JobMemory
from gpumon.model.job import Job
from gpumon.model.samples import Tick
from gpumon.model.settings import Settings
from gpumon.model.view import LinkView

LINK_TURNS = 3  # ticks between two renewals of one link's gauges
MOST_GAP = 0.05  # of a window that teaches levels: more time without a kernel is a third level between
FORGET_CARD_S = 3600.0  # a card that is gone for an hour (handed to a VM, replaced) leaves the memory


def initial_memory() -> AnalysisMemory:
    """Return the memory of a gpumon that has seen nothing."""
    return AnalysisMemory()


def _learn_working(held: dict[str, CardMemory], seen: JobEvidence) -> None:
    """Put what a window showed of its cards' levels into their memory."""
    for card in seen.cards:
        memory = held[card.uuid]
        learned = activity.learn_highest(memory.levels, card.power.high_quarter)
        levels = card.levels
        apart = levels is not None and levels.learned and card.power.two and not card.gap > MOST_GAP
        if card.up and not card.shared and levels is not None and apart:
            learned = activity.learn_working(learned, sum(levels.waiting) / 2, sum(levels.computing) / 2)
        held[card.uuid] = replace(memory, levels=learned)


def _worst(view: LinkView | None) -> float:
    if view is None:
        return math.nan
    ratios = [r for r in (view.rx.saturation_ratio, view.tx.saturation_ratio) if not math.isnan(r)]
    return max(ratios, default=math.nan)


def _job_saturation(job: Job, analysis: Analysis) -> dict[str, float]:
    """Return the saturation of the job's fullest link of each kind; kinds that are not known are left out."""
    mine = {card.uuid for card in job.cards}
    found = {
        "pcie": [_worst(analysis.pcie.get(uuid)) for uuid in mine],
        "nvlink": [_worst(analysis.nvlink.get(uuid)) for uuid in mine],
        "uplink": [
            ratio
            for uplink in analysis.uplinks
            if mine & set(uplink.uuids)
            for ratio in (uplink.rx_saturation_ratio, uplink.tx_saturation_ratio)
        ],
    }
    known = {kind: [r for r in ratios if not math.isnan(r)] for kind, ratios in found.items()}
    return {kind: max(ratios) for kind, ratios in known.items() if ratios}


def _judge(
    memory: AnalysisMemory,
    tick: Tick,
    jobs: tuple[Job, ...],
    held: dict[str, CardMemory],
    on_error: Callable[[str], None] | None,
) -> dict[str, JobMemory]:
    """Return the jobs' memories after this tick; each is judged in its turn, so that the cost is spread."""
    past: dict[str, JobMemory] = {}
    around = judging.Around(
        tick,
        cards={card.identity.uuid: card for card in tick.cards},
        card_ticks={card_tick.uuid: card_tick for card_tick in tick.card_ticks},
        held=held,
        length=judging.round_length(sum(len(job.cards) for job in jobs)),
    )
    for number, job in enumerate(jobs):
        before = memory.jobs.get(job.gpu_job, JobMemory())
        try:
            past[job.gpu_job], seen = judging.step(before, job, around, number=number)
            if seen is not None:
                _learn_working(held, seen)
        except Exception:
            if on_error is None:
                raise
            on_error(job.gpu_job)
            past[job.gpu_job] = JobMemory()
    return past


def analyse(
    memory: AnalysisMemory,
    tick: Tick,
    jobs: tuple[Job, ...],
    settings: Settings,
    on_error: Callable[[str], None] | None = None,
) -> tuple[AnalysisMemory, Analysis]:
    """Return the memory after one tick and what the tick means.

    Args:
        on_error: called inside the handler of an error of one card or job, with its name; that one then begins anew
            and the others are judged as ever. None raises the error.
    """
    now_s = tick.mono_s
    paths = {path.uuid: path for path in tick.topology.paths}
    held: dict[str, CardMemory] = {}
    for number, (card, card_tick) in enumerate(zip(tick.cards, tick.card_ticks, strict=True)):
        uuid = card.identity.uuid
        before = memory.cards.get(uuid, CardMemory())
        turn = (tick.seq + number) % LINK_TURNS == 0
        try:
            held[uuid] = cards.extend(before, card, card_tick, paths.get(uuid), now_s=now_s, turn=turn)
        except Exception:
            if on_error is None:
                raise
            on_error(uuid)
            held[uuid] = CardMemory(last_seen_s=now_s)
    pcie = {uuid: card_memory.pcie.view for uuid, card_memory in held.items()}
    nvlink = {card.identity.uuid: held[card.identity.uuid].nvlink.view for card in tick.cards if card.nvlink.links > 0}
    kept = {
        uuid: gone
        for uuid, gone in memory.cards.items()
        if uuid not in held and now_s - gone.last_seen_s < FORGET_CARD_S
    }
    shared: dict[str, Capacity] = {
        uplink.address: uplinks.observe(
            uplink, any(uuid in held and held[uuid].busy for uuid in uplink.uuids), memory.uplinks.get(uplink.address)
        )
        for uplink in tick.topology.uplinks
    }
    analysis = Analysis(
        pcie=pcie,
        nvlink=nvlink,
        uplinks=tuple(uplinks.view(uplink, shared[uplink.address], pcie) for uplink in tick.topology.uplinks),
    )
    past = _judge(memory, tick, jobs, held, on_error)
    now = watch.Now(tick, jobs, held, past, analysis.uplinks, settings)
    found, verdicts, told = watch.step(memory.findings, now, on_error)
    analysis = replace(analysis, verdicts=verdicts, findings=told)
    analysis = replace(analysis, link_saturation={job.gpu_job: _job_saturation(job, analysis) for job in jobs})
    return AnalysisMemory({**kept, **held}, past, shared, tick.topology, found), analysis
