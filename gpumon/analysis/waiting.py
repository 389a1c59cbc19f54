"""Who waits for whom among the cards of one job.

In a synchronous job the busiest-looking cards are the ones that wait: while rank 0 of 8x H100 wrote a checkpoint it
showed 0 to 5 % utilization, the other seven 100 % at 150 of 700 W. So the odd one out is looked for, never the lowest
utilization: a card with gaps among cards that wait is held by its host; a card that works longer than the others is
slower itself. Differences under 8 % of the time are normal between cards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpumon.analysis import gaps
from gpumon.analysis.activity import GPM_COMPUTE, GPM_WAIT
from gpumon.analysis.evidence import CardEvidence
from gpumon.analysis.overlap import FAST
from gpumon.analysis.throttling import HOLDING
from gpumon.model.job import Job

HOST_GAP = 0.25  # more gap than the median of the others
OTHERS_WAITING = 0.25  # of their time, at least: else nobody waits for it
# Delays of 15 % of the step must be named, under 8 % must not: the edge lies between.
SLOWER = 0.115
# Two cards wait for each other by turns, and the difference of their gaps is the least that the later one costs.
LATER_OF_TWO = 0.08
WAITED = 0.4  # of what a late card costs: the others wait with quiet links for this share of it at least
LATE_WINDOW_S = 20.0  # of evidence: batches that are late by chance take turns within it
# What its ranks were asked to do is the same for all of them, step by step.
SAME_WORK = frozenset({"ddp", "fsdp", "zero1", "zero2", "zero3", "tp"})
HIDDEN = 0.15  # of the time, at least: transfers behind work
ALIKE = 0.08  # of the time: two cards that work so nearly as long work as long
# A card held by heat or the brake for this share of the window draws less at work. Boost alone makes clocks differ by
# less than this share of the others'.
HELD = 0.3
LOST_CLOCK = 0.95
NARROW = 0.6  # of the other cards' ceiling
NARROW_FULL = 0.7  # saturation of the narrow link while it is busy
COLLECTIVE_SHARE = 0.45  # of a link's ceiling that collectives through host memory reach (28 of 63, 13 of 31.5 GB/s)
ROTATING_GAP = 0.08  # of one card at least
LOADERS_CPUS = 0.5
LOADER_READS = 20e6  # bytes per second
MOST_OF_A_TURN = 0.85  # of the job's busy time on one card: else that card works alone
IN_TURN = (0.6, 1.35)  # sum of the cards' busy shares


@dataclass(frozen=True, slots=True)
class Waiting:
    """The outcome: which cards the others wait for, and why."""

    culprits: frozenset[str] = frozenset()
    by_host: bool = False  # their host holds them
    by_link: bool = False  # their link sets the pace; else they are slower themselves
    cost_ratio: float = 0.0  # share of the job's time, of each of them
    in_rotation: bool = False  # every card is late now and then because its host is
    in_turn: bool = False  # the cards work one after the other: what one waits for is another
    work: dict[str, float] = field(default_factory=dict)  # uuid -> share of time that looks like work


def _middle(interval: tuple[float, float]) -> float:
    return (interval[0] + interval[1]) / 2


def looks_like_work(cards: list[CardEvidence]) -> dict[str, float]:
    """Return each card's share of real work, at the middle of its levels; NaN without a witness.

    Only for comparing cards with each other: an error common to all cancels. A card that never waits shows no level of
    waiting; it borrows that of the others, as a share of the power limit.
    """
    borrowed = _borrowed_waiting(cards)
    active = [card.sm_active for card in cards if card.gpm is not None and not math.isnan(card.sm_active)]
    # GPM means come once a second and never show the pure level of work: the busiest card is nine tenths of it.
    level = min(max(active, default=math.nan) / 0.9, GPM_COMPUTE[1])
    # Where power shows both levels fast enough it is surer: GPM's highest second need not be one of pure work.
    shown = [card for card in cards if card.levels is not None and card.levels.learned and card.power_kind in FAST]
    by_gpm = len(active) == len(cards) and len(shown) < len(cards) - 1
    return {card.uuid: _work_of(card, borrowed, level if by_gpm else math.nan) for card in cards}


def _with_lost_clock(cards: list[CardEvidence], work: dict[str, float]) -> dict[str, float]:
    """Return the shares of work, where a card held by heat or the brake works as long as its clock makes it; NaN
    where all are held.

    Its levels of power were learned at its full clock. What is left at half of it looks like waiting, though the others
    wait for this card: the same kernels take as much longer as the clock is lower.
    """
    held = [card for card in cards if max(card.throttled.get(reason, 0.0) for reason in HOLDING) >= HELD]
    others = [card for card in cards if card not in held]
    usual = [work[card.uuid] for card in others if not math.isnan(work[card.uuid])]
    if not others:
        # Nobody shows what is usual, and who was held sooner has forgotten its full clock sooner.
        return dict.fromkeys(work, math.nan)
    if not usual:
        return work
    longer = dict(work)
    for card in held:
        clock = _clock_of(card, others)
        if clock < LOST_CLOCK:
            gap = 0.0 if math.isnan(card.gap) else card.gap
            shown = 0.0 if math.isnan(work[card.uuid]) else work[card.uuid]
            longer[card.uuid] = max(shown, min(1.0 - gap, _median(usual) / clock))
    return longer


def _in_the_same_time(cards: list[CardEvidence], work: dict[str, float], job: Job) -> dict[str, float]:
    """Return the shares of work, none of them longer than what the latest rank has left for the same work.

    Power tells work from waiting only where it shows both levels; where one rank stands without a kernel for half of
    each step, the others cannot have worked for more than the other half, whatever they draw.
    """
    gaps_known = [card.gap for card in cards if not math.isnan(card.gap)]
    if not _same_work(cards, job) or len(gaps_known) < len(cards):
        return work
    left = 1.0 - max(gaps_known)
    return {uuid: min(share, left) for uuid, share in work.items()}


def _same_work(cards: list[CardEvidence], job: Job) -> bool:
    """Return True where each card has a rank of its own and all were given equal parts."""
    return job.layout.asked in SAME_WORK and not _staged(job) and len(job.processes) >= len(cards)


def _borrowed_waiting(cards: list[CardEvidence]) -> float:
    """Return the waiting level of those that show one, as a share of their limits; NaN where fewer than half do."""
    shown = [
        _middle(card.levels.waiting) / card.power_limit
        for card in cards
        if card.levels is not None and card.levels.learned and card.power_limit > 0.0
    ]
    return _median(shown) if shown and 2 * len(shown) >= len(cards) else math.nan


def _work_of(card: CardEvidence, borrowed: float, gpm_level: float) -> float:
    gap = 0.0 if math.isnan(card.gap) else card.gap
    if card.gpm is not None and not math.isnan(card.sm_active) and not math.isnan(gpm_level):
        return _share(card.sm_active, gap, 0.0, _middle(GPM_WAIT), max(gpm_level, 2 * GPM_WAIT[1]))
    if card.levels is None or math.isnan(card.power_mean):
        return math.nan
    waiting, computing = _middle(card.levels.waiting), _middle(card.levels.computing)
    if not card.levels.learned and not math.isnan(borrowed):
        waiting, computing = borrowed * card.power_limit, card.power.high_quarter
        if computing < 1.5 * waiting:
            return math.nan
    return _share(card.power_mean, gap, _middle(card.levels.context), waiting, computing)


def _share(mean: float, gap: float, context: float, waiting: float, computing: float) -> float:
    work = (mean - gap * context - (1.0 - gap) * waiting) / max(computing - waiting, 1e-9)
    return min(1.0 - gap, max(0.0, work))


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
    work = looks_like_work(up)
    if len(up) < 2:
        return Waiting(work=work)
    work = _in_the_same_time(up, _with_lost_clock(up, work), job)
    held = _held_by_host(up, work)
    if held is not None:
        return held
    if _in_turn(up, job) and not gaps.host_works(host, len(job.processes)):
        return Waiting(in_turn=True, work=work)
    slow = None if _staged(job) else _late(up, work, host, job) or _slower(up, work) or _narrower(up, work)
    if slow is not None:
        return slow
    if _in_rotation(up, work, host):
        return Waiting(by_host=True, in_rotation=True, work=work)
    return Waiting(work=work)


def _in_rotation(cards: list[CardEvidence], work: Mapping[str, float], host: Mapping[str, float]) -> bool:
    """Return True where now this card, now that one is late because its batch is: gaps here and there, loaders busy,
    and the others wait with quiet links meanwhile."""
    known = [card.gap for card in cards if not math.isnan(card.gap)]
    loaders = host.get("relatives_cpus", math.nan) >= LOADERS_CPUS
    reads = host.get("read_bytes_per_second", math.nan) >= LOADER_READS
    if len(known) < len(cards) or max(known) < ROTATING_GAP or not (loaders or reads):
        return False
    waits = [
        1.0 - card.gap - work[card.uuid] - card.pcie.usual_busy
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
    if len(busy) != len(cards) or not IN_TURN[0] <= sum(busy) <= IN_TURN[1] or max(busy) > MOST_OF_A_TURN * sum(busy):
        return False
    return _staged(job) or len(job.processes) == 1


def _staged(job: Job) -> bool:
    """Return True where the cards were given unequal parts on purpose: stages differ without anyone being slow."""
    return job.layout.asked in {"pp", "device_map", "tp+pp"} or job.layout.pipeline_parallel > 1


def _slower(cards: list[CardEvidence], work: Mapping[str, float]) -> Waiting | None:
    """Return the card that works longer than the others while they wait for it."""
    shown = sum(card.gpm is not None or (card.levels is not None and card.levels.learned) for card in cards)
    if shown < len(cards) - 1 or any(math.isnan(work[card.uuid]) for card in cards):
        return None
    ordered = sorted(cards, key=lambda card: work[card.uuid])
    worst, others = ordered[-1], ordered[:-1]
    usual = _median([work[card.uuid] for card in others])
    active = [card.sm_active for card in others]
    if all(card.gpm is not None for card in cards) and worst.sm_active - _median(active) < SLOWER / 2:
        # Levels of power are each card's own, and one of them may have been learned too high. GPM has one scale.
        return None
    # What the next slowest card would cost anyway is not the worst one's fault.
    cost = work[worst.uuid] - max(usual, work[others[-1].uuid] - SLOWER / 2)
    if _hides_transfers(worst, work[worst.uuid]):
        cost = min(cost, _before_transfers(worst, work[worst.uuid], usual, _clock_of(worst, others)))
    else:
        # Only waiting with a quiet link is waiting for that card: while bytes move, everybody waits for the link.
        cost = min(cost, _median([_quiet_wait(card, work[card.uuid]) for card in others]))
    if cost < SLOWER:
        return None
    return Waiting(frozenset({worst.uuid}), cost_ratio=cost, work=dict(work))


def _hides_transfers(card: CardEvidence, work: float) -> bool:
    """Return True where transfers run behind a card's work for long."""
    return card.pcie.known and not card.pcie.quiet and card.pcie.busy[0] + work - 1.0 >= HIDDEN


def _before_transfers(card: CardEvidence, work: float, usual: float, clock: float) -> float:
    """Return how much shorter a step would be if a card whose transfers run behind its work worked as long as usual.

    Where the link sets the pace the card delays only the first transfer, by what its work until then takes longer: of
    the time without a transfer as large a share as of all its work. Where the card sets the pace it is more. The others
    wait with busy links in both: a ring moves as its latest card hands on.

    Args:
        clock: the card's over that of the others. Where it is lower, work takes as much longer and no more.
    """
    gap = 0.0 if math.isnan(card.gap) else card.gap
    longer = min(work, usual / clock) if clock < LOST_CLOCK else work
    return (1.0 - gap - card.pcie.busy[1]) * (1.0 - min(1.0, usual / max(longer, 1e-9)))


def _clock_of(card: CardEvidence, others: list[CardEvidence]) -> float:
    """Return the clock of a card over that of the others; 1 where it is not known."""
    known = [other.sm_clock_ratio for other in others if not math.isnan(other.sm_clock_ratio)]
    ratio = card.sm_clock_ratio / _median(known) if known else math.nan
    return 1.0 if math.isnan(ratio) else ratio


def _late(cards: list[CardEvidence], work: Mapping[str, float], host: Mapping[str, float], job: Job) -> Waiting | None:
    """Return the one card whose host makes it late by a small part of each step, while the others wait for it."""
    if not seen_for_long(cards) or len(job.processes) < len(cards) or any(math.isnan(card.gap) for card in cards):
        return None
    ordered = sorted(cards, key=lambda card: card.gap)
    worst, others = ordered[-1], ordered[:-1]
    least, most = _costs_of_lateness({card.uuid: card.gap for card in cards})[worst.uuid]
    if least < (LATER_OF_TWO if len(cards) == 2 else SLOWER):
        return None
    shown = [card for card in others if card.levels is not None and card.levels.learned]
    if _same_work(cards, job):
        # The same work, and longer without a kernel: the rest of the others' time is waiting.
        waited_for = True
    elif shown:
        # Who works as long as the others and is longer without a kernel waits less for transfers and peers, by just as
        # much: where transfers run behind the work the others wait for it with busy links.
        alike = abs(work[worst.uuid] - _median([work[card.uuid] for card in others])) <= ALIKE
        waits = _median([_quiet_wait(card, work[card.uuid]) for card in shown])
        waited_for = alike or waits >= WAITED * most
    else:
        # Where no level of waiting is known, loaders or disks at work must say that batches are late.
        waited_for = gaps.host_works(host, len(job.processes))
    if not waited_for:
        return None
    if len(cards) == 2:
        # It costs what the other waits for it: more than the difference where that one is late at other times.
        most = max(most, _quiet_wait(others[0], work[others[0].uuid]))
    return Waiting(frozenset({worst.uuid}), by_host=True, cost_ratio=(least + most) / 2, work=dict(work))


def seen_for_long(cards: Iterable[CardEvidence]) -> bool:
    """Return True where each card was seen for so long that lateness by chance has taken turns."""
    return all(card.window[1] - card.window[0] >= LATE_WINDOW_S for card in cards)


def _costs_of_lateness(late: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return the least and the most that each card costs by its gap beyond the usual one, shares of time.

    What two are late by in the same steps is lost once, and either alone would cost as much: each bears half of it. So
    in layers: as far as k cards are late, each of them bears a k-th. Where they are late in different steps each costs
    all that it is late.

    Args:
        late: share of time without a kernel, by uuid.
    """
    ordered = sorted(late, key=lambda uuid: late[uuid])
    usual = _median([late[uuid] for uuid in ordered[:-1]])
    costs = {}
    borne, below = 0.0, 0.0
    for place, uuid in enumerate(ordered):
        beyond = max(0.0, late[uuid] - usual)
        borne += (beyond - below) / (len(ordered) - place)
        costs[uuid], below = (borne, beyond), beyond
    return costs


def _quiet_wait(card: CardEvidence, work: float) -> float:
    """Return the share of time in which a kernel is resident, does not work, and the link is quiet."""
    gap = 0.0 if math.isnan(card.gap) else card.gap
    exposed = card.pcie.usual_busy if card.pcie.known and not card.pcie.quiet else 0.0
    test, levels = card.overlap, card.levels
    if test.valid and levels is not None:
        low, high = _middle(levels.waiting), _middle(levels.computing)
        exposed *= 1.0 - min(1.0, max(0.0, (test.watts_busy - low) / max(high - low, 1e-9)))
    return max(0.0, 1.0 - gap - work - exposed)


def _narrower(cards: list[CardEvidence], work: Mapping[str, float]) -> Waiting | None:
    """Return the card whose narrow link sets the pace of everybody's collectives."""
    ceilings = [card.pcie.ceiling for card in cards]
    if any(math.isnan(ceiling) for ceiling in ceilings) or len(cards) < 2:
        return None
    worst = min(cards, key=lambda card: card.pcie.ceiling)
    others = [card for card in cards if card.uuid != worst.uuid]
    usual = _median([card.pcie.ceiling for card in others])
    exchanging = all(card.pcie.known and not card.pcie.quiet for card in cards)
    full = worst.pcie.saturation >= NARROW_FULL and all(card.pcie.saturation < NARROW_FULL for card in others)
    if worst.pcie.ceiling > NARROW * usual or not exchanging or not full:
        return None
    busy = sum(worst.pcie.busy) / 2
    cost = busy * (1.0 - worst.pcie.plateau / max(worst.pcie.plateau, COLLECTIVE_SHARE * usual))
    if cost < SLOWER:
        return None
    return Waiting(frozenset({worst.uuid}), by_link=True, cost_ratio=cost, work=dict(work))


def _held_by_host(cards: list[CardEvidence], work: dict[str, float]) -> Waiting | None:
    late = {card.uuid: card.gap for card in cards if not math.isnan(card.gap)}
    if len(late) < 2:
        return None
    worst = max(late, key=lambda uuid: late[uuid])
    others = [uuid for uuid in late if uuid != worst]
    usual = _median([late[uuid] for uuid in others])
    if late[worst] - usual < HOST_GAP:
        return None
    waits = [1.0 - late[uuid] - work[uuid] for uuid in others if not math.isnan(work[uuid])]
    if not waits or _median(waits) < OTHERS_WAITING:
        return None
    costs = _costs_of_lateness(late)
    far = [uuid for uuid in late if late[uuid] - usual >= 0.75 * (late[worst] - usual)]
    culprits = frozenset(uuid for uuid in far if costs[uuid][0] >= SLOWER)
    if not culprits or 2 * len(far) > len(late):
        return None
    cost = min(sum(sum(costs[uuid]) / 2 for uuid in culprits) / len(culprits), _median(waits))
    return Waiting(culprits, by_host=True, cost_ratio=cost, work=work)
