"""The mean rate of a link that was only partly watched, and how sure it is.

A link is seen in slots: 20 ms windows at random places of equal strata, or counter intervals with holes. What lies
between is filled in from both sides, and the half-width says how far the truth may be from that.

Why not the textbook formula. One window per stratum leaves no second draw to compare with, so the variance inside a
stratum has to come from neighbouring strata. Taking their squared differences as they are triples the variance of
slow traffic, because neighbours lie three times as far apart as two draws from one stratum would; taking the plain
sample variance is worse still. So the traffic's own pace is estimated first: squared differences to the next and to
the next but one slot. Traffic that changes rarely between two looks doubles its difference over the doubled distance
(every edge is straddled by one pair of neighbours and by two pairs of next-but-ones); traffic that changes many times
between two looks does not grow at all. Between those two, q = D2/D1 - 1 runs from 1 to 0 as the autocorrelation over
one step would, and splits D1 into a slow part and a white part. Each part has a closed error for the holes as they
really lie. The share that was seen needs no correction factor: only holes have an error.
"""

from __future__ import annotations

import math

import numpy as np

from gpumon.model.samples import Floats

_NORMAL_95 = 1.959964  # two-sided 95 % quantile of the normal distribution
# Holes below this are the seam between two counter reads, not time that went unseen.
_SEAM_S = 1e-6


def mean_rate(t0_s: Floats, t1_s: Floats, moved_bytes: Floats, span: tuple[float, float]) -> tuple[float, float]:
    """Return the mean rate over the span and the half-width of its 95 % interval, in bytes per second.

    Args:
        t0_s: shape (n,), where each slot begins; monotonic seconds, oldest first, slots not overlapping.
        t1_s: shape (n,), where it ends.
        moved_bytes: shape (n,), what crossed in it; NaN where this direction was not looked at (dropped).
        span: from and to, monotonic seconds; slots that lie outside are left out.
    Returns: (NaN, NaN) without a slot; the half-width is NaN with fewer than three slots and a hole.
    Source: gap errors of the trapezoid rule for an edge placed at random, and for white noise; variogram by
        successive differences (Matheron 1965). Checked against 500 runs a pattern by benchmarks/link_traffic.py.
    """
    inside = (t0_s >= span[0] - _SEAM_S) & (t1_s <= span[1] + _SEAM_S) & np.isfinite(moved_bytes) & (t1_s > t0_s)
    start, end, amount = t0_s[inside], t1_s[inside], moved_bytes[inside]
    if not start.size:
        return math.nan, math.nan
    width = end - start
    rate = amount / width
    # Holes before, between and after the slots; shape (n + 1,).
    hole = np.maximum(np.concatenate((start, span[1:])) - np.concatenate((span[:1], end)), 0.0)
    inner = hole[1:-1]
    total_s = float(width.sum() + hole.sum())
    filled = float((inner * (rate[1:] + rate[:-1])).sum()) / 2.0 + hole[0] * rate[0] + hole[-1] * rate[-1]
    mean = float((amount.sum() + filled) / total_s)
    if float(hole.max()) <= _SEAM_S:
        return mean, 0.0
    if rate.size < 3:
        return mean, math.nan
    variance = _hole_variance(start, width, rate, hole)
    return mean, _quantile(rate.size) * math.sqrt(variance) / total_s


def _hole_variance(start: Floats, width: Floats, rate: Floats, hole: Floats) -> float:
    """Return the variance of the bytes filled into the holes."""
    step, white, slow = _pace(start, width, rate)
    mean_width = float(width.mean())
    inner = hole[1:-1]
    # Slow part: an edge of the traffic falls anywhere between the middles of two slots, and the fill is wrong by up to
    # half a hole either way: hole^2 / 12 of the squared step. `slow` is half the squared steps expected per `step`.
    apart = inner + (width[1:] + width[:-1]) / 2.0
    outer = hole[0] ** 3 + hole[-1] ** 3
    slope = slow / max(step - mean_width / 3.0, mean_width / 3.0)
    slow_error = slope * (float((apart * inner**2).sum()) / 6.0 + float(outer) * 2.0 / 3.0)
    # White part: each slot also stands for half of the holes beside it, and the holes have noise of their own.
    extra = (hole[:-1] + hole[1:]) / 2.0
    extra[0] += hole[0] / 2.0
    extra[-1] += hole[-1] / 2.0
    white_error = white * (float((extra**2).sum()) + 2.0 * mean_width * float(hole.sum()))
    # However long the holes, the fill is not worse than knowing only the traffic's spread.
    return min(slow_error + white_error, float(rate.var()) * float(hole.sum()) ** 2)


def _pace(start: Floats, width: Floats, rate: Floats) -> tuple[float, float, float]:
    """Return the mean distance of neighbouring slots, and the white and the slow part of their half squared step."""
    middle = start + width / 2.0
    step = float((middle[-1] - middle[0]) / (rate.size - 1))
    near = float(np.mean(np.diff(rate) ** 2)) / 2.0
    if near <= 0.0:
        return step, 0.0, 0.0
    far = float(np.mean((rate[2:] - rate[:-2]) ** 2)) / 2.0
    # Chance alone lifts the ratio by about 1/sqrt(n) as often as it lowers it, and only lifting narrows the interval.
    kept = min(max(far / near - 1.0 - rate.size**-0.5, 0.0), 1.0)
    # Neighbours that differ more than strangers do are in step with the strata; strangers tell the spread then.
    spread = min(near, float(rate.var(ddof=1))) if kept == 0.0 else near
    white = spread * (1.0 - kept) ** 2
    return step, white, spread - white


def _quantile(count: int) -> float:
    """Return the 95 % two-sided quantile for an interval whose variance came from `count` values.

    Source: Cornish-Fisher expansion of Student's t, first term. A variance from overlapping squared differences is
    worth about half as many independent ones.
    """
    freedom = max(count / 2.0, 1.0)
    return _NORMAL_95 + (_NORMAL_95**3 + _NORMAL_95) / (4.0 * freedom)
