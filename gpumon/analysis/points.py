"""The fixed points at which everything that is only known as an interval is drawn.

No randomness: the same window gives the same answer. A low-discrepancy sequence covers a box of many unknowns evenly
with few points.
"""

from __future__ import annotations

import numpy as np

from gpumon.model.samples import Floats

POINTS = 64
UNKNOWNS = 11
(
    WAIT_LEVEL,
    COMPUTE_LEVEL,
    CONTEXT_LEVEL,
    PLATEAU,
    CORRELATION,
    BOUND_LEVEL,
    OTHER_LEVEL,
    MEMORY_LEVEL,
    SM_WAIT_LEVEL,
    SM_COMPUTE_LEVEL,
    MEMORY_RATE,
) = range(UNKNOWNS)


def _points() -> Floats:
    """Return the fixed points, shape (UNKNOWNS, POINTS), in 0..1. Source: Kronecker sequence on the plastic number's
    generalisation (Roberts 2018)."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (UNKNOWNS + 1))
    steps = (1.0 / root) ** np.arange(1, UNKNOWNS + 1)
    return (0.5 + np.outer(steps, np.arange(1, POINTS + 1))) % 1.0


U = _points()


def draw(interval: tuple[float, float], unknown: int) -> Floats:
    """Return an unknown's value at each point, even over its interval."""
    drawn: Floats = interval[0] + (interval[1] - interval[0]) * U[unknown]
    return drawn


def draw_factor(interval: tuple[float, float], unknown: int) -> Floats:
    """Return an unknown's value at each point, even in the logarithm: what is known to a factor."""
    drawn: Floats = interval[0] * (interval[1] / interval[0]) ** U[unknown]
    return drawn
