"""Who waits for whom among the cards of one job.

In a synchronous job the busiest-looking cards are the ones that wait: while rank 0 of 8x H100 wrote a checkpoint it
showed 0 to 5 % utilization, the other seven 100 % at 150 of 700 W. So the odd one out is looked for, never the lowest
utilization: a card with gaps among cards that wait is held by its host; a card that works longer than the others is
slower itself. Differences under 8 % of the time are normal between cards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.analysis.activity import LevelRange
from gpumon.analysis.evidence import CardEvidence
from gpumon.model.job import Job

HOST_GAP = 0.25  # more gap than the median of the others
OTHERS_WAITING = 0.25  # of their time, at least: else nobody waits for it
# Delays of 15 % of the step must be named, under 8 % must not: the edge lies between.
SLOWER = 0.115
ROTATING_GAP = 0.08  # of one card at least
LOADERS_CPUS = 0.5
LOADER_READS = 20e6  # bytes per second
IN_TURN = (0.6, 1.2)  # sum of the cards' busy shares


@dataclass(frozen=True, slots=True)
class Waiting:
    """The outcome: which cards the others wait for, and why."""

    culprits: frozenset[str] = frozenset()
    by_host: bool = False  # their host holds them; else they are slower themselves
    cost_ratio: float = 0.0  # share of the job's time
    gap_follows: float = 0.0  # share of the others' gaps that is also waiting for the culprit
    in_rotation: bool = False  # every card is late now and then because its host is
    in_turn: bool = False  # the cards work one after the other: what one waits for is another
    work: dict[str, float] = field(default_factory=dict)  # uuid -> share of time that looks like work


def _middle(interval: tuple[float, float]) -> float:
    return (interval[0] + interval[1]) / 2


def looks_like_work(card: CardEvidence) -> float:
    """Return a card's share of real work at the middle of its levels; NaN without a witness.

    Used to compare cards with each other only: an error common to all cards cancels.
    """
    gap = 0.0 if math.isnan(card.gap) else card.gap

    def share(mean: float, levels: LevelRange) -> float:
        low, high = _middle(levels.waiting), _middle(levels.computing)
        work = (mean - gap * _middle(levels.context) - (1.0 - gap) * low) / max(high - low, 1e-9)
        return min(1.0 - gap, max(0.0, work))

    if card.gpm is not None and not math.isnan(card.sm_active):
        return share(card.sm_active, card.gpm)
    if card.levels is not None and not math.isnan(card.power_mean):
        return share(card.power_mean, card.levels)
    return math.nan


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def find(cards: tuple[CardEvidence, ...], job: Job, host: Mapping[str, float]) -> Waiting:
    """Return who waits for whom over the window; nobody where the cards look alike or do not tell.

    Args:
        host: the job's host rates over the window, by name of `host.HostRates`.
    """
    up = [card for card in cards if card.up]
    work = {card.uuid: looks_like_work(card) for card in up}
    if len(up) < 2:
        return Waiting(work=work)
    held = _held_by_host(up, work)
    if held is not None:
        return held
    if _in_turn(up, job):
        return Waiting(in_turn=True, work=work)
    if _in_rotation(up, work, host):
        return Waiting(by_host=True, in_rotation=True, work=work)
    return Waiting(work=work)


def _in_rotation(cards: list[CardEvidence], work: Mapping[str, float], host: Mapping[str, float]) -> bool:
    """Return True where now this card, now that one is late because its batch is: gaps here and there, loaders busy,
    and the others wait with quiet links meanwhile."""
    gaps = [card.gap for card in cards if not math.isnan(card.gap)]
    loaders = host.get("relatives_cpus", math.nan) >= LOADERS_CPUS
    reads = host.get("read_bytes_per_second", math.nan) >= LOADER_READS
    if len(gaps) < len(cards) or max(gaps) < ROTATING_GAP or not (loaders or reads):
        return False
    waits = [
        1.0 - card.gap - work[card.uuid] - sum(card.pcie.busy) / 2
        for card in cards
        if not math.isnan(work[card.uuid]) and card.pcie.known
    ]
    return bool(waits) and _median(waits) >= OTHERS_WAITING / 2


def _in_turn(cards: list[CardEvidence], job: Job) -> bool:
    """Return True where cards work one after the other: together they are busy about as long as one card could be.

    Two cards of an input-bound job that are each busy half of the time look the same; so the job must also be cut
    into stages by what it was started with, or be one process that drives all its cards.
    """
    busy = [1.0 - card.gap for card in cards if not math.isnan(card.gap)]
    if len(busy) != len(cards) or not IN_TURN[0] <= sum(busy) <= IN_TURN[1]:
        return False
    staged = job.layout.asked in {"pp", "device_map"} or job.layout.pipeline_parallel > 1
    return staged or len(job.processes) == 1


def _held_by_host(cards: list[CardEvidence], work: dict[str, float]) -> Waiting | None:
    gaps = {card.uuid: card.gap for card in cards if not math.isnan(card.gap)}
    if len(gaps) < 2:
        return None
    worst = max(gaps, key=lambda uuid: gaps[uuid])
    others = [uuid for uuid in gaps if uuid != worst]
    usual = _median([gaps[uuid] for uuid in others])
    if gaps[worst] - usual < HOST_GAP:
        return None
    waits = [1.0 - gaps[uuid] - work[uuid] for uuid in others if not math.isnan(work[uuid])]
    if not waits or _median(waits) < OTHERS_WAITING:
        return None
    culprits = frozenset(uuid for uuid in gaps if gaps[uuid] - usual >= 0.75 * (gaps[worst] - usual))
    if 2 * len(culprits) > len(gaps):
        return None
    cost = min(gaps[worst] - usual, _median(waits))
    return Waiting(culprits, by_host=True, cost_ratio=cost, gap_follows=1.0, work=work)
