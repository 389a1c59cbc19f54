"""The levels of a card's power: what was learned, and what a window shows."""

from __future__ import annotations

import pytest

from gpumon.analysis.activity import Levels, power_ranges
from gpumon.analysis.humps import Humps

LIMIT = 575.0
LEARNED = Levels(limit=LIMIT, context=30.0, waiting=130.0, computing=560.0)


def shown(low: float, high: float, separation: float) -> Humps:
    """Return the humps of a window whose power lies about these two levels."""
    return Humps(
        mean=(low + high) / 2, low=low, high=high, low_quarter=low, high_half=high, high_quarter=high,
        high_tenth=high, top=high, cut=(low + high) / 2, share_high=0.3, separation=separation, samples=1000,
    )  # fmt: skip


@pytest.mark.parametrize(("separation", "reaches"), [(0.75, 560.0), (0.97, 325.5)])
def test_a_blur_does_not_take_away_what_was_learned(separation: float, reaches: float) -> None:
    """Work may draw as much as before while its phases are too short to be seen; a level that is seen is the level."""
    levels = power_ranges(LEARNED, LIMIT, shown(190.0, 310.0, separation), 180.0, gap=0.0, falls=False, held=False)
    assert levels.computing[1] == pytest.approx(reaches)
    assert levels.computing[0] <= 310.0
