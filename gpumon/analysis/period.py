"""The period of a job's repeating work, from the common signal of its cards.

Each signal (power, link traffic, utilization) is summed over the cards, because synchronous jobs reinforce each other
and noise does not, and put on a grid of real timestamps, 25 Hz at most. The slow part is removed first: the strongest
raw peak of a training run is its checkpoint cycle. A period explains a spectrum when the peaks stand on its multiples;
among those that explain it, the shortest wins. Only the winning peak is refined by Lomb-Scargle on the real times: at
10 Hz a period of 0.467 s never falls on the grid, and a correlation over lags would say 1.4 s.

A number is given only where two signals agree, or where one gives it again and again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpumon.model.samples import Floats

GRID_S = 0.04  # 25 Hz
SLOW_S = 20.0  # running mean that is removed: checkpoint cycles and slower
FEWEST_CYCLES = 6  # in the window
SLOWEST = 3  # cycles in the window: below, the filter makes its own peaks
FEWEST_POINTS = 60
PEAKS = 6  # tallest, that are tried as the base or one of its first multiples
DIVISORS = (1, 2, 3, 4)
OF_TALLEST = 0.15  # of the tallest peak's power: weaker ones are beats of the sensor's own refresh
TOOTH = 2  # bins either side of a multiple: the width of a Hann window's peak
EXPLAINED = 0.45  # of the power that stands out from the floor
NEARLY = 0.85  # of what the best base explains: then the shorter period is the step and the rest is its envelope
FLOOR = 6.0  # times the level of its surroundings stands out
STRETCH = 24  # bins of one stretch of the surroundings
AGREE = 0.03
KEPT = 5  # estimates of each signal, 12 s apart
AGAIN = 3  # of them must agree where only one signal tells
REFINE = 9  # frequencies tried around the winner; a parabola between them


@dataclass(frozen=True, slots=True)
class Signal:
    """One kind of samples of all cards: times and values, shape (n,), and how often the source renews them."""

    cards: tuple[tuple[Floats, Floats], ...]
    refresh_s: float


@dataclass(frozen=True, slots=True)
class _Grid:
    t_s: Floats  # mean real time of the samples in each point
    value: Floats
    pace_s: float


def _grid(cards: tuple[tuple[Floats, Floats], ...]) -> _Grid | None:
    """Return the sum over cards on one grid of mean timestamps, without its slow part; None where it is too little."""
    cards = tuple((t, v) for t, v in cards if t.size >= FEWEST_POINTS)
    if not cards:
        return None
    begin = max(float(t[0]) for t, _ in cards)
    end = min(float(t[-1]) for t, _ in cards)
    spacing = max(float(np.median(np.diff(t))) for t, _ in cards)
    pace_s = max(GRID_S, spacing)
    points = int((end - begin) / pace_s)
    if points < FEWEST_POINTS:
        return None
    total = np.zeros(points)
    stamps, counted = np.zeros(points), np.zeros(points)
    for t, v in cards:
        place = ((t - begin) / pace_s).astype(np.intp)
        inside = (place >= 0) & (place < points)
        place, values, times = place[inside], v[inside], t[inside]
        count = np.bincount(place, minlength=points)
        sums = np.bincount(place, weights=values, minlength=points)
        filled = count > 0
        if filled.sum() < 0.5 * points:
            return None
        mean = np.interp(np.arange(points), np.flatnonzero(filled), sums[filled] / count[filled])
        scale = float(mean.std())
        if scale > 0.0:
            total += (mean - mean.mean()) / scale
        stamps += np.bincount(place, weights=times, minlength=points)
        counted += count
    middle = begin + (np.arange(points) + 0.5) * pace_s
    times = np.where(counted > 0, stamps / np.maximum(counted, 1), middle)
    return _Grid(times, _without_slow_part(total, pace_s), pace_s)


def _without_slow_part(values: Floats, pace_s: float) -> Floats:
    width = min(values.size // 2, max(3, int(SLOW_S / pace_s)))
    sums = np.cumsum(np.concatenate(([0.0], values)))
    index = np.arange(values.size)
    low = np.maximum(0, index - width // 2)
    high = np.minimum(values.size, index + width // 2 + 1)
    slow: Floats = (sums[high] - sums[low]) / (high - low)
    return values - slow


def _winner(grid: _Grid, shortest_s: float) -> float:
    """Return the base frequency whose multiples explain the spectrum, hertz; NaN where none does."""
    spectrum = np.abs(np.fft.rfft(grid.value * np.hanning(grid.value.size))) ** 2
    step_hz = 1.0 / (grid.value.size * grid.pace_s)
    if spectrum.size < STRETCH:
        return math.nan
    spectrum /= _surroundings(spectrum)
    spectrum[:SLOWEST] = 0.0
    floor = max(FLOOR, OF_TALLEST * float(spectrum.max()))
    above = np.where(spectrum > floor, spectrum, 0.0)
    if not above.any():
        return math.nan
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
    possible = base >= FEWEST_CYCLES and base * step_hz * shortest_s <= 1.0
    return step_hz * base if possible else math.nan


def _surroundings(spectrum: Floats) -> Floats:
    """Return the level a peak stands in: medians of stretches of the spectrum, joined by straight lines.

    The harmonics of a slow cycle lie two or three bins apart and lift the level they stand in; those of a step do not.
    """
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


def _refined(grid: _Grid, hertz: float) -> float:
    """Return the frequency that fits the real times best near the winner. Source: Lomb-Scargle, two harmonics.

    Sines and dot products of one frequency at a time: as one matrix product this took 45 ms on a busy machine, most of
    it threads of the linear algebra library waiting for each other.
    """
    shifted = (grid.t_s - grid.t_s[0]) * (2.0 * math.pi)
    tried = hertz + 0.6 / (grid.t_s[-1] - grid.t_s[0]) * np.linspace(-1.0, 1.0, REFINE)
    second = 2.0 * hertz < 0.5 / grid.pace_s
    power = []
    for frequency in tried:
        sine, cosine = np.sin(frequency * shifted), np.cos(frequency * shifted)
        fits = float(grid.value.dot(sine)) ** 2 + float(grid.value.dot(cosine)) ** 2
        if second:
            twice_sine, twice_cosine = 2.0 * sine * cosine, 2.0 * cosine * cosine - 1.0
            fits += float(grid.value.dot(twice_sine)) ** 2 + float(grid.value.dot(twice_cosine)) ** 2
        power.append(fits)
    best = min(REFINE - 2, max(1, int(np.argmax(power))))
    left, middle, right = power[best - 1 : best + 2]
    bend = left - 2.0 * middle + right
    off = 0.0 if bend >= 0.0 else min(1.0, max(-1.0, 0.5 * (left - right) / bend))
    return float(tried[best] + off * (tried[1] - tried[0]))


def of_signal(signal: Signal) -> float:
    """Return the period of one signal, seconds; NaN where none is clear."""
    grid = _grid(signal.cards)
    if grid is None:
        return math.nan
    shortest_s = max(3.0 * grid.pace_s, 2.0 * signal.refresh_s)
    hertz = _winner(grid, shortest_s)
    return math.nan if math.isnan(hertz) else 1.0 / _refined(grid, hertz)


@dataclass(frozen=True, slots=True)
class PeriodPast:
    """The newest estimates of each signal, oldest first, and what they say together."""

    began_s: float = math.nan  # the regime they belong to
    estimates: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # seconds; NaN where none was clear
    step_s: float = math.nan


def extend(past: PeriodPast, name: str, estimate: float, began_s: float) -> PeriodPast:
    """Return the past with one more estimate of a signal; a new regime forgets the old ones.

    Args:
        name: power (a fast reading), mean_power (one that averages over a second), link or utilization.
    """
    known = past.estimates if past.began_s == began_s else {}
    estimates = {**known, name: (*known.get(name, ()), estimate)[-KEPT:]}
    return PeriodPast(began_s, estimates, _agreed(estimates))


def _agreed(estimates: Mapping[str, tuple[float, ...]]) -> float:
    """Return the period that two signals give at once, or one gives again and again; NaN where neither does.

    Utilization is renewed seven times a second at best, and a step shorter than that beats with it: it speaks alone
    only where power is no faster.
    """
    newest = [found[-1] for found in estimates.values() if found and not math.isnan(found[-1])]
    for number, period in enumerate(newest):
        for other in newest[number + 1 :]:
            if abs(period - other) <= AGREE * period:
                return (period + other) / 2
    alone = ("power", "link") if "power" in estimates else ("link", "utilization")
    for name in alone:
        found = estimates.get(name, ())
        if found and not math.isnan(found[-1]):
            alike = [period for period in found if abs(period - found[-1]) <= AGREE * found[-1]]
            if len(alike) >= AGAIN:
                return sum(alike) / len(alike)
    return math.nan
