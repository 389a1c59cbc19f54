"""How late a poller tends to be, and the period that leaves room for it.

A poller that is held up now and then (a busy host, a slow driver) loses a whole gap each time when its period leaves no
room before the counters come round. Reading more often makes the room, and costs driver time: so only where being late
costs more of the time than a trace, and only where the room can be made at all.
"""

from __future__ import annotations

import math

from gpumon.sampling.link_pace import LinkPace

_REMEMBERED_S = 10.0
# An observed share of 0.95 is promised; losing less than this is not worth reading twice as often.
_TOLERATED_RATIO = 0.02
_SHORTEST_PERIOD_S = 0.018
# The next reading after a late one may come this much later than a period, see counter_task.
SHORTEST_SLOT_PERIODS = 0.2


class Lateness:
    """The worst curable lateness of the last 10 to 20 s, and what it would have cost at the usual period."""

    def __init__(self, start_s: float) -> None:
        self._until_s = start_s + _REMEMBERED_S
        self._worst_s = self._worst_before_s = 0.0
        self._lost_s = self._lost_before_s = 0.0

    def note(self, late_s: float, now_s: float, pace: LinkPace) -> None:
        """Take how late a reading came."""
        if now_s >= self._until_s:
            self._worst_before_s, self._lost_before_s = self._worst_s, self._lost_s
            self._worst_s = self._lost_s = 0.0
            self._until_s = now_s + _REMEMBERED_S
        gap_s = pace.busy_period_s + late_s
        if gap_s > pace.longest_gap_s and self._room_s(late_s, pace) >= _SHORTEST_PERIOD_S:
            self._worst_s = max(self._worst_s, late_s)
            self._lost_s += gap_s

    def longest_period_s(self, pace: LinkPace) -> float:
        """Return the longest period that survives the lateness that can be survived; infinite when none is needed."""
        if max(self._lost_s, self._lost_before_s) <= _TOLERATED_RATIO * _REMEMBERED_S:
            return math.inf
        return self._room_s(max(self._worst_s, self._worst_before_s), pace)

    def _room_s(self, late_s: float, pace: LinkPace) -> float:
        return (pace.longest_gap_s - late_s) / (1.0 + SHORTEST_SLOT_PERIODS)
