"""Two levels in a set of samples: are there two humps, where are they, and how much lies in the upper one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpumon.model.samples import Floats

BINS = 48
# Between-class share of the variance at the best cut (Otsu 1979). A normal distribution gives 0.64, a uniform one
# 0.75, two clean levels nearly 1.
TWO_HUMPED = 0.80
FEWEST = 12  # samples


@dataclass(frozen=True, slots=True)
class Humps:
    """The best cut of the samples in two. Units are the samples'."""

    low: float = math.nan  # mean below the cut
    high: float = math.nan  # mean above the cut
    cut: float = math.nan
    share_high: float = math.nan
    separation: float = 0.0  # between-class share of the variance, 0 to 1
    samples: int = 0

    @property
    def two(self) -> bool:
        """Return True where two humps are clear."""
        return self.separation >= TWO_HUMPED


def two_levels(values: Floats) -> Humps:
    """Return the best cut of the samples, shape (n,), without NaN. Source: Otsu's method on a histogram."""
    if values.size < FEWEST:
        return Humps(samples=int(values.size))
    lowest, highest = float(values.min()), float(values.max())
    if highest - lowest <= 1e-9 * max(abs(highest), 1e-9):
        return Humps(lowest, highest, highest, 1.0, 0.0, int(values.size))
    position = ((values - lowest) * ((BINS - 1e-6) / (highest - lowest))).astype(np.intp)
    counts = np.bincount(position, minlength=BINS).astype(float)
    sums = np.bincount(position, weights=values, minlength=BINS)
    n_low = np.cumsum(counts)[:-1]
    s_low = np.cumsum(sums)[:-1]
    n_high = values.size - n_low
    total = float(values.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        m_low, m_high = s_low / n_low, (total - s_low) / n_high
        between = np.where((n_low > 0) & (n_high > 0), n_low * n_high * (m_high - m_low) ** 2, 0.0)
    best = int(between.argmax())
    variance = float(values.var())
    return Humps(
        low=float(m_low[best]),
        high=float(m_high[best]),
        cut=lowest + (best + 1) * (highest - lowest) / BINS,
        share_high=float(n_high[best]) / values.size,
        separation=float(between[best]) / values.size**2 / variance if variance > 0.0 else 0.0,
        samples=int(values.size),
    )
