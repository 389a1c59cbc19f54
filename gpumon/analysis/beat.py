"""The beat of a job's exchange: its period from slots that lie apart, on all cards at once.

Windows of 20 ms that are called every 50 ms at uneven times see a step of a tenth of a second well, together: no two of
them fall on the same part of it. On a grid that such slots fill, such a step is gone. So each slot is put where its
middle was on a grid of 10 ms, those of all cards into one, and what nobody looked at stays zero. Uneven times spread
what would be images of a period over all frequencies. Slots that touch, as counters give them, do not: a step shorter
than two of them has an image as clear as itself. They are believed where they are either busy or quiet, which those of
so short a step are not.

A period explains a spectrum where its peaks stand on the period's multiples; of those that explain it about as well
the shortest is the step, and the others are several of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpumon.analysis.humps import median, two_levels
from gpumon.analysis.windows import RX, T0, T1, TX
from gpumon.model.samples import Floats

PACE_S = 0.01
SHORTEST_S = 0.05
SHORTEST_SLOTS = 2.0  # of their length
SLOW_S = 20.0  # running mean that is removed: saves and slower
FEWEST_CYCLES = 6  # in the window
SLOWEST = 3  # bins: below, what removes the slow part makes peaks of its own
FEWEST_SLOTS = 60  # of a card
FEWEST_POINTS = 600  # six seconds
TOUCH = 0.8  # of their distance: such slots leave nothing out
QUIET_LEVEL = 0.4  # the lower level of slots over the upper one
PEAKS = 6  # tallest, that are tried as the base or one of its first multiples
DIVISORS = (1, 2, 3, 4)
OF_TALLEST = 0.15  # of the tallest peak's power
FLOOR = 6.0  # times the level of its surroundings stands out
STRETCH = 24  # bins of one stretch of the surroundings
TOOTH = 2  # bins either side of a multiple: the width of a Hann window's peak
EXPLAINED = 0.45  # of the power that stands out
NEARLY = 0.85  # of what the best base explains


def of_slots(cards: Sequence[Floats]) -> float:
    """Return the period of the busier direction's rate, seconds; NaN where none is clear.

    Args:
        cards: slot windows over the same time, shape (5, n) each.
    """
    cards = [slots for slots in cards if slots.shape[1] >= FEWEST_SLOTS]
    if not cards:
        return math.nan
    begin = max(float(slots[T0, 0]) for slots in cards)
    end = min(float(slots[T1, -1]) for slots in cards)
    points = int((end - begin) / PACE_S)
    if points < FEWEST_POINTS:
        return math.nan
    total = np.zeros(points)
    for slots in cards:
        rates, middles = _rates(slots)
        mean = float(rates.mean()) if rates.size else 0.0
        if mean <= 0.0 or (_touch(slots) and not _clear(rates)):
            continue
        place = ((middles - begin) / PACE_S).astype(np.intp)
        inside = (place >= 0) & (place < points)
        total += np.bincount(place[inside], weights=rates[inside] / mean - 1.0, minlength=points)
    length = max(median(slots[T1] - slots[T0]) for slots in cards)
    return _period(_without_slow_part(total), max(SHORTEST_S, SHORTEST_SLOTS * length))


def _rates(slots: Floats) -> tuple[Floats, Floats]:
    rates = np.fmax(slots[RX], slots[TX]) / (slots[T1] - slots[T0])
    seen = ~np.isnan(rates)
    return rates[seen], (slots[T1, seen] + slots[T0, seen]) / 2


def _touch(slots: Floats) -> bool:
    return median(slots[T1] - slots[T0]) >= TOUCH * median(np.diff(slots[T1]))


def _clear(rates: Floats) -> bool:
    humps = two_levels(rates)
    return humps.two and humps.low <= QUIET_LEVEL * humps.high


def _without_slow_part(values: Floats) -> Floats:
    width = min(values.size // 2, int(SLOW_S / PACE_S))
    sums = np.cumsum(np.concatenate(([0.0], values)))
    index = np.arange(values.size)
    low = np.maximum(0, index - width // 2)
    high = np.minimum(values.size, index + width // 2 + 1)
    quick: Floats = values - (sums[high] - sums[low]) / (high - low)
    return quick


def _period(values: Floats, shortest_s: float) -> float:
    """Return the period whose multiples explain the spectrum of values on the grid, seconds; NaN where none does."""
    spectrum = np.abs(np.fft.rfft(values * np.hanning(values.size))) ** 2
    seconds = values.size * PACE_S
    spectrum /= _surroundings(spectrum)
    spectrum[:SLOWEST] = 0.0
    above = np.where(spectrum > max(FLOOR, OF_TALLEST * float(spectrum.max())), spectrum, 0.0)
    inner = above[1:-1]
    tops = np.flatnonzero((inner > 0) & (inner >= above[:-2]) & (inner > above[2:])) + 1
    tops = tops[np.argsort(above[tops])[-PEAKS:]]
    bases = [_peak_place(spectrum, int(top)) / divisor for top in tops for divisor in DIVISORS]
    summed = np.concatenate(([0.0], above.cumsum()))
    tried = [(base, _explained(summed, base)) for base in bases if base >= SLOWEST and _appears(above, base)]
    most = max((share for _, share in tried), default=0.0)
    if most < EXPLAINED:
        return math.nan
    base = max(base for base, share in tried if share >= NEARLY * most)
    # Periods that may not be given compete all the same: half of a long one or twice a short one is not the answer.
    return seconds / base if base >= FEWEST_CYCLES and seconds / base >= shortest_s else math.nan


def _surroundings(spectrum: Floats) -> Floats:
    """Return the level a peak stands in: medians of stretches of the spectrum, joined by straight lines."""
    count = spectrum.size // STRETCH
    parts = np.sort(spectrum[: count * STRETCH].reshape(count, STRETCH), axis=1)
    middles = (np.arange(count) + 0.5) * STRETCH
    level: Floats = np.interp(np.arange(spectrum.size), middles, parts[:, STRETCH // 2])
    return np.maximum(level, 1e-12 * float(spectrum.max()) + 1e-300)


def _appears(above: Floats, base: float) -> bool:
    """Return True where the base itself stands out: half of a period too short to be given must not stand for it."""
    place = round(base)
    return bool((above[max(0, place - 1) : place + 2] > 0.0).any())


def _explained(summed: Floats, base: float) -> float:
    """Return the share of the standing-out power on a base's multiples, less what so many teeth catch by chance.

    Args:
        summed: the standing-out power up to each bin, one longer than the spectrum.
    """
    bins = summed.size - 1
    teeth = np.rint(base * np.arange(1, int((bins - TOOTH - 1) / base) + 1)).astype(np.intp)
    caught = float((summed[teeth + TOOTH + 1] - summed[teeth - TOOTH]).sum()) / float(summed[-1])
    chance = min(1.0, (2 * TOOTH + 1) * teeth.size / bins)
    return float((caught - chance) / max(1.0 - chance, 1e-6))


def _peak_place(spectrum: Floats, top: int) -> float:
    """Return the place of a peak between bins, by a parabola through the logarithms of three."""
    left, middle, right = (math.log(max(float(spectrum[top + d]), 1e-300)) for d in (-1, 0, 1))
    bend = left - 2 * middle + right
    return top if bend >= 0.0 else top + min(0.5, max(-0.5, 0.5 * (left - right) / bend))
