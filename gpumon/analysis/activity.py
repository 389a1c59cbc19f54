"""How much of a card's time is real work, from power between learned levels, or from GPM where it exists.

`utilization` says only that a kernel was resident, and a kernel that waits inside a collective is resident. Power
tells waiting from working, but not by its absolute value: decode draws 0.2 to 0.45 of the limit and works, small
matmuls 0.65, a card waiting in a collective on a RTX 5090 0.2 to 0.35. So the two levels of each card are learned, and
until then they are intervals. Everything downstream carries the interval, not a point.

Power readings are linear in time spent at each level however the sensor averages, which is why shares are computed
from means and levels and not by counting samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gpumon.analysis.humps import Humps
from gpumon.model.samples import Floats

# Shares of the power limit, as published and recorded figures have them.
# A context without kernels: 117 of 700 W on H100, 58 of 250 W on TITAN X; cards with GDDR6X keep their memory awake
# and draw up to a third.
CONTEXT_SHARE = (0.05, 0.32)
# Waiting in a collective, as a share of the span from context to limit: 8x H100 150 W over a context level of 117 W
# (0.06); transfers through host memory draw more, up to about a third on consumer cards.
WAIT_SHARE = (0.03, 0.32)
# Computing, share of the same span: small matmuls 390 of 600 W, training 550 of 700 W, matmul loops at the limit.
COMPUTE_SHARE = (0.5, 1.0)
# SM activity: NCCL keeps 10 to 20 % of the SMs; real work keeps at least half.
GPM_WAIT = (0.03, 0.2)
GPM_COMPUTE = (0.55, 0.98)
# Two levels of power blur into each other at their ramps; a single level with noise gives 0.64 (see `humps`).
APART = 0.68
# A hump of power counts as a level of its own only when it is this share of the limit away from the other.
HUMP_DISTANCE = 0.12
CLEAR_HUMPS = 0.92  # separation of humps that the sensor follows; ramps all the way give 0.75
BLUR = 20.0
LOW_SHARE = 0.45  # of the limit: a level below it, with a kernel resident all the time, is waiting
HIDDEN = 0.85  # of where a level that no reading shows may lie: readings that look back for less put it nearer
FLAT = 0.05  # of the distance between the levels: samples that lie closer together show the level itself
RARE = 0.08  # of the samples: a level seen less often is a moment (a switch of phase, a spike), not a level
LEARNED_SPREAD = 0.05  # learned levels move with temperature and kernel mix


@dataclass(frozen=True, slots=True)
class Levels:
    """What one card was seen to draw, watts. Kept by UUID and power limit; NaN until seen."""

    limit: float = math.nan
    context: float = math.nan  # a process, but no kernel
    waiting: float = math.nan  # a kernel that waits in a collective
    computing: float = math.nan  # a kernel that works
    highest: float = math.nan  # most that was held for a quarter of a window, whatever ran


@dataclass(frozen=True, slots=True)
class LevelRange:
    """Intervals of a card's levels for one judgement; same unit as the signal (watts, or a ratio for GPM)."""

    context: tuple[float, float]
    waiting: tuple[float, float]
    computing: tuple[float, float]
    learned: bool  # waiting and computing were both seen on this card


def for_limit(levels: Levels, limit: float) -> Levels:
    """Return the levels to use under a power limit: a changed limit makes what was learned void."""
    if math.isnan(limit) or levels.limit == limit:
        return levels
    if not math.isnan(levels.limit) and abs(levels.limit - limit) < 0.02 * limit:
        return levels
    return Levels(limit=limit, context=levels.context, highest=levels.highest)


def learn_context(levels: Levels, watts: float) -> Levels:
    """Return the levels after a second in which the card had a process and no kernel ran."""
    if math.isnan(watts):
        return levels
    known = levels.context
    return replace(levels, context=watts if math.isnan(known) else known + 0.1 * (watts - known))


def learn_working(levels: Levels, waiting: float, computing: float) -> Levels:
    """Return the levels after a judgement in which both were seen apart. NaN leaves a level as it is."""

    def moved(known: float, seen: float) -> float:
        if math.isnan(seen):
            return known
        return seen if math.isnan(known) else known + 0.2 * (seen - known)

    return replace(levels, waiting=moved(levels.waiting, waiting), computing=moved(levels.computing, computing))


def learn_highest(levels: Levels, watts: float) -> Levels:
    """Return the levels after a window whose upper quarter began at so many watts."""
    if math.isnan(watts) or levels.highest >= watts:
        return levels
    return replace(levels, highest=watts)


def _around(level: float, spread: float) -> tuple[float, float]:
    return level * (1.0 - spread), level * (1.0 + spread)


def _level(end: float, inner: float, distance: float, separation: float) -> tuple[float, float]:
    """Return where a level lies, from the outermost samples of its hump and an inner quantile.

    Where the two agree the phases outlast the sensor's own averaging and the samples show the level. Elsewhere every
    sample is blurred by its neighbours, and the level lies beyond the outermost one: by up to what lies between where
    the humps are apart, and by a few times that where samples fill all of the space between them.
    """
    blurred = max(0.0, CLEAR_HUMPS - separation)
    if abs(end - inner) <= FLAT * distance and blurred == 0.0:
        return _around((end + inner) / 2, LEARNED_SPREAD)
    beyond = end + (end - inner) * (1.0 + BLUR * blurred)
    return min(beyond, end), max(beyond, end)


def power_ranges(
    levels: Levels,
    limit: float,
    humps: Humps,
    bottom: float,
    *,
    gap: float,
    falls: bool,
    held: bool,
    beyond: tuple[float, float] = (1.0, 1.0),
) -> LevelRange:
    """Return the intervals of the card's power levels for this window, watts.

    Args:
        limit: enforced power limit; NaN falls back on the highest power of the window.
        humps: two_levels of the window's power.
        bottom: its lowest power with a kernel.
        gap: share of the window without a kernel.
        falls: power was seen to fall while the link is busy.
        held: heat or a limit holds the card: what it draws at work now is less than what was learned.
        beyond: how far the lower and the upper level may lie from the other hump, as multiples of the humps' distance.
    """
    low, high = humps.low_quarter, humps.high_quarter
    # Without a limit the card's own highest stands for about four fifths of it.
    top = limit if not math.isnan(limit) else float(np.fmax(high, levels.highest)) / 0.8
    if math.isnan(levels.context):
        context = (CONTEXT_SHARE[0] * top, max(CONTEXT_SHARE[0] * top, min(CONTEXT_SHARE[1] * top, low)))
    else:
        context = _around(levels.context, LEARNED_SPREAD)
    waiting = tuple(c + share * max(top - c, 1.0) for c, share in zip(context, WAIT_SHARE, strict=True))
    computing = tuple(max(c + share * max(top - c, 1.0), high) for c, share in zip(context, COMPUTE_SHARE, strict=True))
    apart = humps.separation >= APART and high - low >= HUMP_DISTANCE * top
    apart = apart and RARE <= humps.share_high <= 1.0 - RARE
    # A low level that the time without kernels explains is the context's, not that of waiting.
    # Between LOW_SHARE and the prior's end only a fall of power while the link is busy says that it is waiting.
    # Where a slow reading hides a level it lies beyond the hump; what was learned while it was shown is better.
    lowest, highest = high - beyond[0] * (high - low), low + beyond[1] * (high - low)
    believable = lowest <= LOW_SHARE * top or (falls and low <= waiting[1])
    seen_waiting = apart and believable and gap <= 0.5 * (1.0 - humps.share_high)
    if seen_waiting and (beyond[0] == 1.0 or math.isnan(levels.waiting)):
        level = _level(min(bottom, low), low, high - low, humps.separation)
        waiting = (max(min(level[0], lowest), min(waiting[0], low)), level[1])
    elif not math.isnan(levels.waiting):
        waiting = _around(levels.waiting, 2 * LEARNED_SPREAD)
    seen_computing = apart and high >= computing[0]
    if seen_computing and not held and (beyond[1] == 1.0 or math.isnan(levels.computing)):
        level = _level(max(humps.top, high), high, high - low, humps.separation)
        most = min(max(level[1], highest), 1.05 * max(top, high))
        if not believable and humps.separation < CLEAR_HUMPS:
            # The lower hump is no waiting, so what blurs it into the upper one lies below both of them.
            most = max(most, top)
        if humps.separation < CLEAR_HUMPS and levels.computing > most:
            # A blur shows means of work and of the waiting around it. What work drew on this card before, it may draw
            # again; where the samples showed the level itself it would be other work that draws less.
            most = levels.computing
        least = max(level[0], HIDDEN * highest) if beyond[1] > 1.0 else level[0]
        computing = (min(least, most), max(least, most))
    elif held:
        computing = _around(high, LEARNED_SPREAD)
    elif not math.isnan(levels.computing):
        computing = (max(0.85 * levels.computing, high), max(1.05 * levels.computing, high * 1.02))
    shown_waiting = (seen_waiting and beyond[0] == 1.0) or not math.isnan(levels.waiting)
    shown_computing = (seen_computing and beyond[1] == 1.0) or not math.isnan(levels.computing)
    learned = shown_waiting and shown_computing
    return LevelRange(context, (waiting[0], waiting[1]), (computing[0], computing[1]), learned)


def gpm_ranges(high: float) -> LevelRange:
    """Return the intervals for SM activity; `high` is the highest second of the window."""
    return LevelRange(
        (0.0, 0.0), GPM_WAIT, (max(GPM_COMPUTE[0], min(high, 0.9)), max(GPM_COMPUTE[1], high)), learned=True
    )


def work_share(mean: Floats, gap: float, context: Floats, waiting: Floats, computing: Floats) -> Floats:
    """Return the share of all time that is real work, from the mean of a signal and its levels.

    mean = gap * context + wait * waiting + work * computing with wait + work = 1 - gap.
    All arrays share one shape; gap is the share of time without a kernel.
    """
    resident = 1.0 - gap
    work: Floats = (mean - gap * context - resident * waiting) / np.maximum(computing - waiting, 1e-9)
    return np.clip(work, 0.0, resident)
