"""What a change would bring, as a range of speed-ups, from the job's own time split.

A change that takes a share f away from what now takes the share s of the time makes everything 1 / (1 - f s) times
faster. Both are ranges: s because the split is one, f because what a change brings has been seen to vary.
"""

from __future__ import annotations

import math

MOST = 10.0  # beyond, the split is at its edge and the figure means nothing but "much"


def removing(share: tuple[float, float], part: tuple[float, float]) -> tuple[float, float] | None:
    """Return the range of speed-ups where between part[0] and part[1] of a share of the time goes away.

    Args:
        share: of the time, low and high, 0 to 1; NaN where the split is not known: then nothing is said.
        part: of that share, low and high, 0 to 1.
    """
    if math.isnan(share[0]) or math.isnan(share[1]):
        return None
    low, high = (speed_up(part[at] * share[at]) for at in (0, 1))
    return round(max(1.0, low), 2), round(max(1.0, low, high), 2)


def speed_up(removed: float) -> float:
    """Return how many times faster it gets when this share of the time goes away."""
    return min(MOST, 1.0 / max(1.0 - removed, 1.0 / MOST))


def accumulating(share: float, factor: float) -> float:
    """Return the speed-up where the exposed exchange, this share of the time, is made `factor` times rarer.

    Each exchange that remains hides behind the last backward pass as much as it does now.
    """
    return speed_up(share * (1.0 - 1.0 / factor))
