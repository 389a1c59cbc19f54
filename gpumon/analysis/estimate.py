"""The mean of a partly observed link, with its uncertainty."""

from __future__ import annotations

import math

import numpy as np

from gpumon.model.samples import Floats


def mean_rate(t0_s: Floats, t1_s: Floats, moved_bytes: Floats, span: tuple[float, float]) -> tuple[float, float]:
    """Return the mean rate of the observed slots and the half-width of its 95 % interval, bytes per second.

    Args:
        t0_s, t1_s, moved_bytes: slots that looked at this direction, shape (n,).
        span: (from, to), monotonic seconds, the stretch the mean is for.
    """
    lengths = t1_s - t0_s
    seen = float(lengths.sum())
    if seen <= 0.0:
        return math.nan, math.nan
    mean = float(moved_bytes.sum()) / seen
    unseen = max(0.0, 1.0 - seen / (span[1] - span[0]))
    if lengths.size < 3:
        return mean, math.nan
    spread = float(np.std(moved_bytes / lengths, ddof=1))
    return mean, 1.96 * spread * math.sqrt(unseen / lengths.size)
