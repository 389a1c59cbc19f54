"""What the samples of a job's cards show together: one signal at real times.

Synchronous jobs reinforce each other in the sum and noise does not. Cards are sampled at moments of their own, so the
sum is made on a grid, and each of its points keeps the mean of the real times in it: a period that never falls on the
grid is found all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpumon.analysis.humps import median
from gpumon.model.samples import Floats

GRID_S = 0.02  # no ring is faster
FEWEST_SAMPLES = 30  # of a card
SPACINGS = 10  # taken at once to tell the usual one
FILLED = 0.5  # of the grid's points hold a sample
REPEATS = 0.25  # of the samples that equal the one before: then the sensor is asked more often than it measures


@dataclass(frozen=True, slots=True)
class Common:
    """The sum of the cards' samples, each card's divided by its spread; mean 0, spread 1."""

    t_s: Floats  # shape (n,), mean real time of the samples in each point, from 0
    value: Floats  # shape (n,)
    pace_s: float  # between two points
    refresh_s: float  # between two measurements of the slowest card's source; never below the pace
    even: bool = True  # on a grid

    @property
    def seconds(self) -> float:
        """Return how long the signal lasts."""
        return float(self.t_s[-1] - self.t_s[0])


def common(cards: Sequence[tuple[Floats, Floats]], refresh_s: float = 0.0) -> Common | None:
    """Return the cards' common signal; None where there are too few samples or nothing moves.

    Args:
        cards: times and values of each card, shape (n,), oldest first.
        refresh_s: how often the source measures, where that is known and not how often it is read.
    """
    cards = [(t, v) for t, v in cards if t.size >= FEWEST_SAMPLES]
    if not cards:
        return None
    begin = max(float(t[0]) for t, _ in cards)
    end = min(float(t[-1]) for t, _ in cards)
    pace_s = max(GRID_S, *(_spacing_s(t) for t, _ in cards))
    points = int((end - begin) / pace_s)
    if points < FEWEST_SAMPLES:
        return None
    total, stamps, counted = np.zeros(points), np.zeros(points), np.zeros(points)
    for t, v in cards:
        # A hair later, so that samples that sit on the grid do not fall to either side of it by rounding.
        place = ((t - begin) * (1.0 / pace_s) + 1e-6).astype(np.intp)
        inside = (place >= 0) & (place < points)
        place, times, values = place[inside], t[inside], v[inside]
        count = np.bincount(place, minlength=points)
        mean = np.bincount(place, weights=values, minlength=points) / np.maximum(count, 1)
        filled = count.nonzero()[0]
        if filled.size < FILLED * points:
            return None
        if filled.size < points:
            mean = np.interp(np.arange(points), filled, mean[filled])
        spread = float(mean.std())
        if spread > 0.0:
            total += (mean - mean.mean()) / spread
        stamps += np.bincount(place, weights=times, minlength=points)
        counted += count
    spread = float(total.std())
    if spread <= 0.0:
        return None
    middle = begin + (np.arange(points) + 0.5) * pace_s
    times = np.where(counted > 0, stamps / np.maximum(counted, 1), middle) - begin
    return Common(times, total / spread, pace_s, max(refresh_s, pace_s))


def _spacing_s(t: Floats) -> float:
    """Return the usual time between samples: the median of several spacings at once.

    So neither jitter nor pauses move it. A grid that is off by a hundredth puts two samples into one point now and
    then, and neighbours blur.
    """
    marks = t[::SPACINGS]
    return median(marks[1:] - marks[:-1]) / SPACINGS


def pooled(cards: Sequence[tuple[Floats, Floats]], length_s: float) -> Common | None:
    """Return the cards' samples side by side, each at its own time; None where there are too few or nothing moves.

    For looks of 20 ms at uneven times: too seldom on any one card for a grid, and often enough together, because no two
    of them fall on the same part of a step.

    Args:
        cards: as for `common`.
        length_s: of one look.
    """
    cards = [(t, (v - v.mean()) / spread) for t, v in cards if t.size >= FEWEST_SAMPLES and (spread := v.std()) > 0.0]
    if not cards:
        return None
    times = np.concatenate([t for t, _ in cards])
    order = times.argsort()
    times = times[order] - times[order[0]]
    return Common(times, np.concatenate([v for _, v in cards])[order], length_s, length_s, even=False)


def measured_every_s(cards: Sequence[tuple[Floats, Floats]]) -> float:
    """Return how often the slowest card's sensor measures, by how often its reading changes, seconds.

    An A100 or H100 answers 50 times a second and measures power ten times (arXiv 2312.02741).
    """
    slowest_s = 0.0
    for t, v in cards:
        if t.size < FEWEST_SAMPLES:
            continue
        changes = int(np.count_nonzero(v[1:] != v[:-1]))
        seldom = changes < (1.0 - REPEATS) * t.size
        slowest_s = max(slowest_s, float(t[-1] - t[0]) / (max(changes, 1) if seldom else t.size - 1))
    return slowest_s


def halved(signal: Common) -> Common:
    """Return the signal with each two points joined to one."""
    points = signal.value.size // 2 * 2
    return Common(
        signal.t_s[:points].reshape(-1, 2).mean(axis=1),
        signal.value[:points].reshape(-1, 2).mean(axis=1),
        2.0 * signal.pace_s,
        max(signal.refresh_s, 2.0 * signal.pace_s),
    )


def newest(signal: Common, seconds: float) -> Common:
    """Return the last so many seconds of the signal."""
    first = int(signal.t_s.searchsorted(signal.t_s[-1] - seconds))
    return replace(signal, t_s=signal.t_s[first:], value=signal.value[first:])
