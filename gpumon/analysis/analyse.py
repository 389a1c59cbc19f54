"""One tick of analysis: windows, links, then the judgement of each job."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpumon.analysis import activity, judging, links, throttling, uplinks, windows
from gpumon.analysis import capacity as capacities
from gpumon.analysis.activity import Levels
from gpumon.analysis.capacity import Capacity
from gpumon.analysis.evidence import JobEvidence
from gpumon.analysis.memory import Analysis, AnalysisMemory, CardMemory, JobMemory
from gpumon.analysis.windows import RX, TX
from gpumon.model.card import Card
from gpumon.model.job import Job
from gpumon.model.samples import CardTick, Floats, Tick
from gpumon.model.settings import Settings
from gpumon.model.topology import CardPath
from gpumon.model.view import LinkView

BUSY_UTILIZATION = 0.1
BUSY_BYTES_PER_SECOND = 50e6  # far above the background of an idle card, far below any transfer that matters
FORGET_CARD_S = 3600.0  # a card that is gone for an hour (handed to a VM, replaced) leaves the memory
LINK_KEYS = ("link_generation", "link_generation_max", "link_width_lanes", "link_width_max_lanes")


def initial_memory() -> AnalysisMemory:
    """Return the memory of a gpumon that has seen nothing."""
    return AnalysisMemory()


def _whole(value: float) -> int:
    return 0 if math.isnan(value) else int(value)


def _is_busy(tick: CardTick, mean_rate: float) -> bool:
    return tick.reading("utilization_ratio") >= BUSY_UTILIZATION or mean_rate >= BUSY_BYTES_PER_SECOND


def _extend_card(
    memory: CardMemory, card: Card, tick: CardTick, path: CardPath | None, now_s: float
) -> tuple[CardMemory, bool]:
    """Return the card's memory with one more tick, and whether the card was busy in it."""
    if not tick.up:
        return replace(memory, up=False, last_mean=math.nan), False
    grown = windows.extend(memory.windows, tick, now_s)
    slots = _fresh(memory.windows.pcie, grown.pcie)
    mean = links.tick_mean(slots)
    busy = _is_busy(tick, mean)
    readings = {key: _whole(tick.reading(key)) for key in LINK_KEYS}
    capacity = capacities.observe_card(memory.capacity, path, readings, busy)
    capacity = capacities.withdraw_if_exceeded(capacity, mean)
    rates = np.concatenate((links.slot_rates(slots, RX), links.slot_rates(slots, TX)))
    capacity = capacities.learn(capacity, rates, now_s)
    nvlink_slots = _fresh(memory.windows.nvlink, grown.nvlink)
    usable = card.nvlink.bytes_per_second_per_direction
    return (
        replace(
            memory,
            windows=grown,
            capacity=capacity,
            pcie_totals=links.add_slots(memory.pcie_totals, slots, grown.pcie_source, capacity.attainable),
            nvlink_totals=links.add_slots(memory.nvlink_totals, nvlink_slots, grown.nvlink_source, usable),
            levels=_learn_context(memory.levels, tick),
            throttle=throttling.extend(memory.throttle, tick, now_s),
            last_mean=mean,
            up=True,
            last_seen_s=now_s,
        ),
        busy,
    )


def _learn_context(levels: Levels, tick: CardTick) -> Levels:
    """Return the levels after a tick: a process without a kernel shows the card's context level."""
    levels = activity.for_limit(levels, tick.reading("power_limit_watts"))
    ring = tick.utilization.value
    idle = float(ring.max()) if ring.size else tick.reading("utilization_ratio")
    if not idle <= 0.005 or not tick.processes:
        return levels
    return activity.learn_context(levels, tick.reading("power_watts"))


def _learn_working(cards: dict[str, CardMemory], seen: JobEvidence) -> None:
    """Put what a window showed of its cards' levels into their memory."""
    for card in seen.cards:
        humps, levels = card.power_humps, card.levels
        if not card.up or card.shared or levels is None or not humps.two or not levels.learned or card.gap > 0.05:
            continue
        memory = cards[card.uuid]
        learned = activity.learn_working(memory.levels, sum(levels.waiting) / 2, sum(levels.computing) / 2)
        cards[card.uuid] = replace(memory, levels=learned)


def _fresh(before: windows.Window, after: windows.Window) -> Floats:
    """Return the samples that the newest tick added, shape (rows, n)."""
    added = bool(after.chunks) and (not before.chunks or after.chunks[-1] is not before.chunks[-1])
    return after.chunks[-1] if added else np.empty((after.rows, 0))


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
    memory: AnalysisMemory, tick: Tick, jobs: tuple[Job, ...], cards: dict[str, CardMemory]
) -> dict[str, JobMemory]:
    """Return the jobs' memories after this tick; each is judged in its turn, so that the cost is spread."""
    past: dict[str, JobMemory] = {}
    for number, job in enumerate(jobs):
        turn = (tick.seq + number) % judging.JUDGE_EVERY == 0
        before = memory.jobs.get(job.gpu_job, JobMemory())
        past[job.gpu_job], seen = judging.step(before, job, tick, cards, turn=turn)
        if seen is not None:
            _learn_working(cards, seen)
    return past


def analyse(
    memory: AnalysisMemory, tick: Tick, jobs: tuple[Job, ...], settings: Settings
) -> tuple[AnalysisMemory, Analysis]:
    """Return the memory after one tick and what the tick means."""
    now_s = tick.mono_s
    paths = {path.uuid: path for path in tick.topology.paths}
    cards: dict[str, CardMemory] = {}
    busy: dict[str, bool] = {}
    pcie: dict[str, LinkView] = {}
    nvlink: dict[str, LinkView] = {}
    for card, card_tick in zip(tick.cards, tick.card_ticks, strict=True):
        uuid = card.identity.uuid
        grown, busy[uuid] = _extend_card(memory.cards.get(uuid, CardMemory()), card, card_tick, paths.get(uuid), now_s)
        cards[uuid] = grown
        pcie[uuid] = links.pcie_view(grown.windows, grown.capacity, grown.pcie_totals, now_s)
        if card.nvlink.links > 0:
            usable = card.nvlink.bytes_per_second_per_direction
            nvlink[uuid] = links.nvlink_view(grown.windows, usable, grown.nvlink_totals, now_s)
    kept = {
        uuid: gone
        for uuid, gone in memory.cards.items()
        if uuid not in cards and now_s - gone.last_seen_s < FORGET_CARD_S
    }
    shared: dict[str, Capacity] = {
        uplink.address: uplinks.observe(
            uplink, any(busy.get(uuid, False) for uuid in uplink.uuids), memory.uplinks.get(uplink.address)
        )
        for uplink in tick.topology.uplinks
    }
    analysis = Analysis(
        pcie=pcie,
        nvlink=nvlink,
        uplinks=tuple(uplinks.view(uplink, shared[uplink.address], pcie) for uplink in tick.topology.uplinks),
    )
    past = _judge(memory, tick, jobs, cards)
    analysis = replace(analysis, verdicts={name: job_memory.verdict for name, job_memory in past.items()})
    analysis = replace(analysis, link_saturation={job.gpu_job: _job_saturation(job, analysis) for job in jobs})
    return AnalysisMemory({**kept, **cards}, past, shared, tick.topology), analysis
