"""What a power reading hides by being a mean of the time before it.

Boards smooth: a reading is the mean of the last 20 to 100 ms, by the card. Phases that are shorter never show the level
they run at, and their humps look like levels all the same.
"""

from __future__ import annotations

import numpy as np

from gpumon.analysis.activity import APART, CLEAR_HUMPS
from gpumon.analysis.humps import Humps, quantile
from gpumon.analysis.overlap import SENSOR_S
from gpumon.model.samples import Floats

RISES = 0.98  # quantile of the steps between samples: those of a rise or a fall
SWIFT_S = 0.035  # a rise so quick is that of a board that smooths over less than any phase of note
LOOKS_BACK = 1.15  # of SENSOR_S: the hump of a hidden phase lasts as long as a reading looks back, at most


def beyond(power: Floats, humps: Humps) -> tuple[float, float]:
    """Return how far the lower and the upper level may lie from the other hump, as multiples of the humps' distance.

    A reading looks back for a time W. A phase of a length T of at least W shows its level, and its hump lasts T; a
    shorter one reaches the share T / W of the way, and its hump lasts W. In both cases power takes the shorter of the
    two times to rise. So where a hump lasts no longer than a reading may look back and power takes less to rise, the
    level may lie beyond it by the ratio of the two. 1 where nothing is hidden.

    Args:
        power: time and watts of a ring, shape (2, n), n > 1.
        humps: two_levels of the watts.
    """
    if not APART <= humps.separation < CLEAR_HUMPS:
        return 1.0, 1.0
    time_s, watts = power
    steps = np.sort(np.abs(np.diff(watts)))
    span_s = float(time_s[-1] - time_s[0])
    rise_s = span_s / steps.size * (humps.top - humps.low_quarter) / max(quantile(steps, RISES), 1e-6)
    if rise_s <= SWIFT_S:
        return 1.0, 1.0
    upper = watts > humps.cut
    cycle_s = 2.0 * span_s / max(1, int(np.count_nonzero(upper[1:] != upper[:-1])))
    lasts_s = ((1.0 - humps.share_high) * cycle_s, humps.share_high * cycle_s)
    low, high = (max(1.0, one / rise_s) if one <= LOOKS_BACK * SENSOR_S else 1.0 for one in lasts_s)
    return low, high
