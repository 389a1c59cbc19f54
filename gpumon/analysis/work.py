"""How much of a card's time is work, and how much of that is bound by the card's own memory.

Two witnesses tell of work: power between the levels of waiting and computing, and SM activity where GPM exists. One
tells of memory: the share of time in which the memory is read or written. Kernels bound by memory draw less than those
that compute, so neither witness can be read alone. With w_c and w_m the shares of time of both,

    x = w_c + f * w_m            what power (or SM activity) shows; f: a memory-bound kernel draws less
    a = b * w_c + B * w_m        memory activity: b while computing, B when memory is the limit

and both follow. Everything is worked out at each point of `points`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gpumon.analysis.activity import CLEAR_HUMPS, work_share
from gpumon.analysis.evidence import CardEvidence
from gpumon.analysis.overlap import FAST
from gpumon.analysis.points import (
    BOUND_LEVEL,
    COMPUTE_LEVEL,
    CONTEXT_LEVEL,
    MEMORY_LEVEL,
    MEMORY_RATE,
    OTHER_LEVEL,
    POINTS,
    SM_COMPUTE_LEVEL,
    SM_WAIT_LEVEL,
    WAIT_LEVEL,
    U,
    draw,
    draw_factor,
)
from gpumon.model.samples import Floats

# Memory-controller activity: kernels bound by memory (decode 0.80 to 0.87, copies 0.9), training 0.3 to 0.6, prompts
# 0.08 to 0.10 (published dmon samples). Phases of both kinds alternate faster than the sensor looks, so a reading
# between is a mix: a server of tokens and prompts, a training of passes and optimizer.
MEMORY_BOUND = (0.80, 0.90)
MEMORY_TRAINING = (0.40, 0.62)
MEMORY_PROMPTS = (0.05, 0.35)
MEMORY_LEAST = 0.3  # the least that was seen of a training, whatever its model
# DRAM activity (GPM) rarely passes 0.85 even in copies; training 0.15 to 0.45.
DRAM_BOUND = (0.70, 0.88)
DRAM_TRAINING = (0.36, 0.52)
DRAM_PROMPTS = (0.05, 0.30)
DRAM_LEAST = 0.15
BOTH_LEVELS = 0.62  # the upper one of two levels that are seen apart is bound by memory from here
# What memory-bound kernels draw over waiting, as a share of what computing draws over waiting: a copy kernel 404 of
# 600 W, decode 137 to 300 of 700 W. They keep most SMs busy with waiting for memory.
MEMORY_POWER = (0.40, 0.75)
MEMORY_SMS = (0.60, 1.0)
# A collective reads and writes card memory two to three times for each byte it sends (local data, received data, the
# sum), at what the memory carries: GDDR 0.6 to 1.8 TB/s, HBM beside NVLink 1.5 to 4.8 TB/s (data sheets).
TOUCHES = 2.5
PCIE_MEMORY_RATE = (0.6e12, 2.0e12)
NVLINK_MEMORY_RATE = (1.5e12, 4.8e12)
NVLINK_MOST = 0.3  # memory activity by NVLink that nothing tells of: all of an H100's links, two thirds of the time
SAME_POWER = 0.03  # of the limit
SOMETIMES = 0.15  # of the time at the upper level: then that is what work draws
BUSY_PART = (0.1, 0.85)  # share of time the link is busy: at the ends the comparison has no second side
# The same at every point, so worked out once.
_MEMORY_BOUND, _DRAM_BOUND = draw(MEMORY_BOUND, BOUND_LEVEL), draw(DRAM_BOUND, BOUND_LEVEL)
_MEMORY_TRAINING, _DRAM_TRAINING = draw(MEMORY_TRAINING, OTHER_LEVEL), draw(DRAM_TRAINING, OTHER_LEVEL)
_MEMORY_PROMPTS, _DRAM_PROMPTS = draw(MEMORY_PROMPTS, OTHER_LEVEL), draw(DRAM_PROMPTS, OTHER_LEVEL)
_PCIE_TOUCHED = TOUCHES / draw_factor(PCIE_MEMORY_RATE, MEMORY_RATE)
_NVLINK_TOUCHED = TOUCHES / draw_factor(NVLINK_MEMORY_RATE, MEMORY_RATE)
_NVLINK_UNSEEN = NVLINK_MOST * U[MEMORY_RATE]
_MEMORY_POWER, _MEMORY_SMS = draw(MEMORY_POWER, MEMORY_LEVEL), draw(MEMORY_SMS, MEMORY_LEVEL)
# Of the span from context to limit: matrix products that are cut up among cards are the smaller for it, and loops of
# large ones draw the limit (small products 390 of 600 W, training 550 of 700 W: 0.6 to 0.75 of it).
CUT_MATMULS = 0.9
MOST_GAP = 0.1  # of the time without a kernel: more of it lowers the power of the time in which the link is quiet
LEAST_WAIT = 0.03  # of the span from context to limit: what waiting draws at least
ACTIVITY_DOUBT = 0.04  # of the time: how far memory activity may miss what the work shown would cause
LEAST_DOUBT = 0.03  # of a witness's share of work


@dataclass(frozen=True, slots=True)
class Work:
    """Shares of time at every point, shape (POINTS,)."""

    total: Floats  # in kernels that work
    memory: Floats  # of it, in kernels bound by memory
    misfit: Floats  # how badly the witnesses agree there, in units of the logarithm of the odds
    signals: frozenset[str]


def of_card(
    card: CardEvidence, gap: float, *, serving: Floats, split_in_layers: bool, staged: bool, waits: Floats
) -> Work:
    """Return how much of the card's time is work.

    Args:
        gap: share of time without a kernel.
        serving: 1 at points where it is prompts and tokens instead of passes and optimizer.
        split_in_layers: the layers are cut over the cards, and each waits for its peers.
        staged: the model is or may be cut into stages, which wait for each other in silence.
        waits: 0 at points where no peer can hold the card up: whatever is resident works there.
    """
    resident = 1.0 - gap
    blended = split_in_layers or bool(serving.all())
    told_by_link = not split_in_layers and not staged
    seen, drawn, signals = _seen(card, gap, blended=blended, told_by_link=told_by_link)
    activity = _own_activity(card)
    if activity is not None and waits.any() and _too_much(card, activity, seen, serving):
        seen, drawn, signals = _seen(_drawing_more_at_work(card), gap, blended=blended, told_by_link=False)
    if activity is None:
        total = np.where(waits > 0.0, np.minimum(seen, resident), resident)
        return Work(total, np.zeros(POINTS), np.zeros(POINTS), signals)
    levels = _activity_levels(card, serving=serving)
    # A card that cannot wait works all the time it is resident, at whatever power.
    shown = np.where(waits > 0.0, seen, resident)
    # The interval of the computing level is wide enough for decode, which is what most of a server's work is.
    drawn = np.where((waits > 0.0) & (serving < 1.0), drawn, 1.0)
    memory = np.minimum(_memory(card, activity, shown, drawn, levels), resident)
    computing = np.maximum(0.0, shown - drawn * memory)
    total = np.minimum(computing + memory, resident)
    # So much work would have read and written the memory for longer.
    missing = np.maximum(0.0, levels[1] * np.minimum(shown, resident) - activity)
    return Work(total, memory, missing / ACTIVITY_DOUBT, signals | {"memory"})


def _too_much(card: CardEvidence, activity: Floats, seen: Floats, serving: Floats) -> bool:
    """Return True where power shows more work than memory activity allows, however little of it such work causes."""
    trained = MEMORY_LEAST if math.isnan(card.dram_active) else DRAM_LEAST
    least = np.where(serving > 0.0, MEMORY_PROMPTS[0], trained)
    return card.levels is not None and bool((least * seen > activity).all())


def _drawing_more_at_work(card: CardEvidence) -> CardEvidence:
    """Return the card with a level of work that may lie anywhere up to its limit.

    What looked like that level is then a mean: where steps are shorter than the sensor looks (100 ms on cards of 2020)
    each of its samples holds work, exchange and waiting together, and the highest of them lie as close together as
    those of a true level do.
    """
    assert card.levels is not None
    least, most = card.levels.computing
    return replace(card, levels=replace(card.levels, computing=(least, float(np.fmax(most, card.power_limit)))))


def memory_of(card: CardEvidence, work: Floats, *, serving: Floats) -> Floats:
    """Return how much of work whose share of time is known is bound by memory; 0 where memory activity is not told."""
    activity = _own_activity(card)
    if activity is None:
        return np.zeros(POINTS)
    levels = _activity_levels(card, serving=serving)
    return np.minimum(_memory(card, activity, work, np.ones(POINTS), levels), work)


def _memory(
    card: CardEvidence, activity: Floats, shown: Floats, drawn: Floats, levels: tuple[Floats, Floats]
) -> Floats:
    bound, other = levels
    humps = card.memory_humps
    if humps.two and humps.high >= BOTH_LEVELS and humps.low <= float(other.max()):
        # Phases longer than the sensor's refresh show both levels; the upper one may itself be a mix with other work.
        return humps.share_high * np.minimum(1.0, (humps.high - other) / (bound - other))
    # Memory is read and written by real work: where power shows less, memory-bound kernels are what draws so little.
    mixed = np.maximum(0.0, (activity - other * shown) / (bound - other * drawn))
    least: Floats = np.where(drawn * mixed > shown, activity / bound, mixed)
    return least


def _activity_levels(card: CardEvidence, *, serving: Floats) -> tuple[Floats, Floats]:
    """Return memory activity of kernels that are bound by memory, and of those that are not."""
    if math.isnan(card.dram_active):
        return _MEMORY_BOUND, np.where(serving > 0.0, _MEMORY_PROMPTS, _MEMORY_TRAINING)
    return _DRAM_BOUND, np.where(serving > 0.0, _DRAM_PROMPTS, _DRAM_TRAINING)


def _own_activity(card: CardEvidence) -> Floats | None:
    """Return memory activity without what transfers cause, at each point; None where it is not told."""
    activity = card.memory_controller if math.isnan(card.dram_active) else card.dram_active
    if math.isnan(activity):
        return None
    own: Floats = np.full(POINTS, activity)
    for link, touched in ((card.pcie, _PCIE_TOUCHED), (card.nvlink, _NVLINK_TOUCHED)):
        if link is not None and link.rate > 0.0:
            own -= link.rate * touched
    if card.nvlink_unseen:
        own -= _NVLINK_UNSEEN
    np.maximum(0.0, own, out=own)
    return own


def _seen(
    card: CardEvidence, gap: float, *, blended: bool, told_by_link: bool
) -> tuple[Floats, Floats, frozenset[str]]:
    """Return the work the witnesses show, what memory-bound work counts in it, and which witnesses they are."""
    power = _by_power(card, gap, blended=blended, told_by_link=told_by_link)
    sms = _by_sms(card, gap)
    if power is None and sms is None:
        return (1.0 - gap) * U[WAIT_LEVEL], np.ones(POINTS), frozenset()
    if sms is None or (power is not None and card.levels is not None and _shown(card)):
        assert power is not None
        return power, _MEMORY_POWER, frozenset({"power"})
    if power is None:
        return sms, _MEMORY_SMS, frozenset({"gpm"})
    # Independent witnesses of the same share: each counts the more the less it leaves open.
    sure = [1.0 / (LEAST_DOUBT**2 + float(witness.var())) for witness in (power, sms)]
    of_power = sure[0] / (sure[0] + sure[1])
    both = of_power * power + (1.0 - of_power) * sms
    drawn = of_power * _MEMORY_POWER + (1.0 - of_power) * _MEMORY_SMS
    return both, drawn, frozenset({"power", "gpm"})


def _shown(card: CardEvidence) -> bool:
    """Return True where power shows both levels and not only blurs of them."""
    clear = card.power.separation >= CLEAR_HUMPS
    return card.levels is not None and card.levels.learned and card.power_kind in FAST and clear


def _by_sms(card: CardEvidence, gap: float) -> Floats | None:
    if card.gpm is None or math.isnan(card.sm_active):
        return None
    waiting, computing = draw(card.gpm.waiting, SM_WAIT_LEVEL), draw(card.gpm.computing, SM_COMPUTE_LEVEL)
    return work_share(np.full(POINTS, card.sm_active), gap, np.zeros(POINTS), waiting, computing)


def _by_power(card: CardEvidence, gap: float, *, blended: bool, told_by_link: bool) -> Floats | None:
    if card.levels is None or math.isnan(card.power_mean):
        return None
    context = draw(card.levels.context, CONTEXT_LEVEL)
    waiting, computing = draw(card.levels.waiting, WAIT_LEVEL), draw(card.levels.computing, COMPUTE_LEVEL)
    if blended:
        # Layers and their messages alternate faster than the sensor: its lowest and highest are still means of both.
        seen, limit = card.levels.computing[0], float(np.fmax(card.levels.computing[1], card.power_limit))
        most = np.maximum(context + CUT_MATMULS * (limit - context), 1.05 * seen)
        computing = seen + (most - seen) * U[COMPUTE_LEVEL]
        least = np.minimum(context + LEAST_WAIT * (most - context), card.levels.waiting[1])
        waiting = least + (card.levels.waiting[1] - least) * U[WAIT_LEVEL]
    if told_by_link and gap <= MOST_GAP and _same_work(card):
        own = (card.power_mean - gap * context) / max(1.0 - gap, 1e-6)
        waiting, computing = np.minimum(waiting, 0.7 * own), own * (0.98 + 0.1 * U[COMPUTE_LEVEL])
    return work_share(np.full(POINTS, card.power_mean), gap, context, waiting, computing)


def _same_work(card: CardEvidence) -> bool:
    """Return True where power does not fall while the link is busy although the link comes and goes.

    A card that waited while the link is busy would work while it is quiet; one that draws the same in both does the
    same in both, and what it does is work, however little power it takes. Not so with tensor parallelism, where the
    quiet time is made of small messages, nor in a pipeline, whose stages wait in silence, nor where the quiet time is
    for a part time without a kernel, nor where a third level shows that both are waiting.
    """
    test, levels, humps = card.overlap, card.levels, card.power
    if not test.valid or levels is None:
        return False
    if not BUSY_PART[0] <= sum(card.pcie.busy) / 2 <= BUSY_PART[1]:
        return False
    limit = card.power_limit if not math.isnan(card.power_limit) else card.power_mean / 0.5
    works_elsewhere = levels.learned and SOMETIMES <= humps.share_high <= 1.0 - SOMETIMES
    falls = test.watts_quiet - test.watts_busy > SAME_POWER * limit + 2.0 * test.standard_error
    return not falls and not works_elsewhere
