"""Two levels in a set of samples: are there two humps, where are they, and how much lies in the upper one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpumon.model.samples import Floats

# Between-class share of the variance at the best cut (Otsu 1979). A normal distribution gives 0.64, a uniform one
# 0.75, two clean levels nearly 1.
TWO_HUMPED = 0.80
CUT_MEANS = 0.68  # a cut through one level with noise separates less
FEWEST = 12  # samples
# Of a minute of a power ring, 3,000 samples 20 ms apart, every other one tells as much, at a third of the cost.
MOST = 1500


@dataclass(frozen=True, slots=True)
class Humps:
    """The best cut of the samples in two. Units are the samples'."""

    mean: float = math.nan
    spread: float = math.nan  # standard deviation
    low: float = math.nan  # mean below the cut
    high: float = math.nan  # mean above the cut
    low_quarter: float = math.nan  # 25 % quantile below the cut; of all where the cut means nothing
    high_half: float = math.nan  # 50, 75 and 90 % quantiles above the cut; of all where the cut means nothing
    high_quarter: float = math.nan
    high_tenth: float = math.nan
    top: float = math.nan  # 97 % quantile of all
    cut: float = math.nan
    share_high: float = math.nan
    separation: float = 0.0  # between-class share of the variance, 0 to 1
    samples: int = 0

    @property
    def two(self) -> bool:
        """Return True where two humps are clear."""
        return self.separation >= TWO_HUMPED


def quantile(ordered: Floats, q: float) -> float:
    """Return the q-quantile of sorted values, shape (n,), n > 0: the nearest value, no interpolation."""
    return float(ordered[min(ordered.size - 1, int(q * ordered.size))])


def median(values: Floats) -> float:
    """Return the middle value, shape (n,), n > 0, of an even count the mean of the two.

    numpy's own loads the masked arrays with it, 2 MiB that nothing else here needs.
    """
    ordered = np.sort(values)
    return float(ordered[(ordered.size - 1) // 2] + ordered[ordered.size // 2]) / 2.0


def two_levels(values: Floats) -> Humps:
    """Return the best cut of the samples, shape (n,), without NaN. Source: Otsu's method on the sorted samples."""
    if values.size == 0:
        return Humps()
    ordered = np.sort(values[:: math.ceil(values.size / MOST)])
    count = ordered.size
    sums = ordered.cumsum()
    total = float(sums[-1])
    mean = total / count
    variance = max(0.0, float(ordered.dot(ordered)) / count - mean * mean)
    below, separation = 0, 0.0
    if count >= FEWEST and variance > 1e-12 * max(mean * mean, 1e-12):
        number = np.arange(1, count)
        # Between-class variance of a cut after the first `number` values, times count.
        between = (sums[:-1] - number * mean) ** 2 / (number * (count - number))
        best = int(between.argmax())
        below, separation = best + 1, float(between[best]) / variance
    two = separation >= CUT_MEANS
    lower, upper = (ordered[:below], ordered[below:]) if two else (ordered, ordered)
    return Humps(
        mean=mean,
        spread=math.sqrt(variance),
        low=float(sums[below - 1]) / below if below else mean,
        high=(total - (float(sums[below - 1]) if below else 0.0)) / (count - below),
        low_quarter=quantile(lower, 0.25),
        high_half=quantile(upper, 0.5),
        high_quarter=quantile(upper, 0.75),
        high_tenth=quantile(upper, 0.9),
        top=quantile(ordered, 0.97),
        cut=float(ordered[below - 1] + ordered[below]) / 2 if 0 < below < count else float(ordered[-1]),
        share_high=(count - below) / count,
        separation=separation,
        samples=count,
    )
