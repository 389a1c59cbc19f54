"""Does the work stop while the link is busy? The decisive test where there is no GPM.

Each slot of the link is paired with the power of the same instant, and the busiest third of slots is compared with
the quietest. Work falls while the link is busy: the communication is exposed. Work stays: it is overlapped.

The test is valid only where the slots have two humps, bursts are longer than the slots, and the power reading is
faster than the bursts. On scripted cards an exposed data-parallel job was 276 W lower while its link was busy, an
overlapped one 43 W higher; with power averaged over a second the difference is nearly gone, and phases of 14 to 26 ms
give the wrong sign. Where it is not valid nothing is said.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpumon.analysis.humps import Humps, quantile, two_levels
from gpumon.analysis.windows import RX, SLOT_POWER, T0, T1, TX
from gpumon.model.card import PowerKind
from gpumon.model.samples import Floats

NEARLY_AS_GOOD = 0.9
USUAL_LAG_S = 0.08  # a sample's age in the ring and the filter before it
LAGS_S = np.linspace(-0.06, 0.6, 12)  # the sensor's delay after the link; rings are stamped late, filters lag
FEWEST_SLOTS = 24
SLOTS_HUMPED = 0.78  # a little less than for levels: slots at the edges of a burst lie between
QUIET_SHARE = 0.4  # the quiet level must be below this share of the busy one
SENSOR_S = 0.1  # what the fastest power readings smooth over (100 ms refresh of the energy counter, ring filters)
MOST_MOMENTS = 96  # of each third
FAST = frozenset({PowerKind.RING, PowerKind.INSTANT})


@dataclass(frozen=True, slots=True)
class Overlap:
    """The outcome. Watts are means over the slots of each third."""

    valid: bool = False
    watts_busy: float = math.nan
    watts_quiet: float = math.nan
    standard_error: float = math.nan  # of their difference
    lag_s: float = math.nan
    slots: int = 0


def joint_rate(slots: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (middle time, length, rate) of each slot; the larger direction, each over its own 95th percentile.

    The rate is a share of the busy level, so that windows that see one direction at a time can be put together.
    """
    lengths = slots[T1] - slots[T0]
    shares = []
    for row in (RX, TX):
        rates = slots[row] / lengths
        seen = rates[~np.isnan(rates)]
        top = quantile(np.sort(seen), 0.95) if seen.size else 0.0
        shares.append(rates / top if top > 0.0 else np.where(np.isnan(rates), np.nan, 0.0))
    rate = np.fmax(shares[0], shares[1])
    keep = ~np.isnan(rate)
    return ((slots[T0] + slots[T1]) / 2)[keep], lengths[keep], rate[keep]


def phases_outlast_sensor(middle_s: Floats, lengths_s: Floats, rate: Floats, humps: Humps) -> bool:
    """Return True where bursts and the pauses between them last two slots and a tenth of a second on average.

    With full coverage their runs are counted. With scattered windows a short phase shows as windows at levels in
    between: a window of length w has an edge in its middle half with probability w over the length of a cycle.
    """
    busy = rate > humps.cut
    rarer = min(float(busy.mean()), 1.0 - float(busy.mean()))
    slot_s = float(lengths_s.mean())
    span_s = float(middle_s[-1] - middle_s[0]) + slot_s
    if float(lengths_s.sum()) > 0.8 * span_s:
        cycles = max(1, int((np.diff(busy.astype(np.int8)) == 1).sum()))
        shortest_s = rarer * span_s / cycles
    else:
        quarter = 0.25 * (humps.high - humps.low)
        between = float(((rate > humps.low + quarter) & (rate < humps.high - quarter)).mean())
        shortest_s = rarer * slot_s / max(between, 1.0 / rate.size)
    return shortest_s >= max(2.0 * slot_s, SENSOR_S)


def compare(slots: Floats, power: Floats, kind: PowerKind) -> Overlap:
    """Return whether power falls while the link is busy.

    Args:
        slots: a slot window's samples, shape (5, n).
        power: ring samples, shape (2, n): time, watts. Used where the slots carry no power of their own.
        kind: what a ring sample averages over; a one-second mean is slower than any burst and proves nothing.
    """
    if slots.shape[1] < FEWEST_SLOTS:
        return Overlap(slots=slots.shape[1])
    middle_s, lengths_s, rate = joint_rate(slots)
    if rate.size < FEWEST_SLOTS:
        return Overlap(slots=int(rate.size))
    humps = two_levels(rate)
    if humps.separation < SLOTS_HUMPED or humps.low > QUIET_SHARE * humps.high:
        return Overlap(slots=int(rate.size))
    if not phases_outlast_sensor(middle_s, lengths_s, rate, humps):
        return Overlap(slots=int(rate.size))
    seen = ~(np.isnan(slots[RX]) & np.isnan(slots[TX]))
    own = slots[SLOT_POWER][seen]
    with_own = float((~np.isnan(own)).mean()) > 0.8
    if not with_own and (power.shape[1] < FEWEST_SLOTS or kind not in FAST):
        return Overlap(slots=int(rate.size))
    stamps, watts = (slots[T1][seen], own) if with_own else (power[0], power[1])
    if with_own:
        present = ~np.isnan(watts)
        stamps, watts = stamps[present], watts[present]
    lag_s = _lag(middle_s, rate, stamps, watts)
    order = np.argsort(rate, kind="stable")
    third = rate.size // 3
    # A few hundred moments tell as much as a few thousand and cost less.
    step = max(1, third // MOST_MOMENTS)
    at_busy = np.interp(middle_s[order[-third::step]] + lag_s, stamps, watts)
    at_quiet = np.interp(middle_s[order[:third:step]] + lag_s, stamps, watts)
    error = math.sqrt(float(at_busy.var() + at_quiet.var()) / at_busy.size)
    return Overlap(True, float(at_busy.mean()), float(at_quiet.mean()), error, lag_s, int(rate.size))


def _lag(middle_s: Floats, rate: Floats, stamps: Floats, watts: Floats) -> float:
    """Return the delay at which power follows the link's rate best, either way; the usual one where several do.

    In a periodic job half a step of delay turns the sign round. With unequal phases the right delay fits better than
    that; with equal ones both fit, and the delay nearest to what sensors have is taken.
    """
    some = slice(None, None, max(1, rate.size // (2 * MOST_MOMENTS)))
    centred = rate[some] - float(rate[some].mean())
    paired = np.interp(middle_s[some] + LAGS_S[:, np.newaxis], stamps, watts)  # shape (lags, moments)
    fit = np.abs((paired - paired.mean(axis=1)[:, np.newaxis]) @ centred)
    good = fit >= NEARLY_AS_GOOD * float(fit.max())
    return float(LAGS_S[np.where(good, np.abs(LAGS_S - USUAL_LAG_S), np.inf).argmin()])
