"""A condition that comes and goes for a week must not fill a disk: each line a few times, then now and then.

What lasts is a metric; a log line says when something changed. A card that flaps changes a hundred thousand times a
day (NVIDIA/gpu-monitoring-tools#182: gigabytes of equal lines).
"""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog

BURST = 20  # a start and a reload with many mistakes fit
REFILL_S = 1800.0  # after the burst a line of a kind may pass each half hour: 356 in a week
_MOST_KINDS = 256  # the texts are written in the code and far fewer


class Limit:
    """A structlog processor. A kind of line is its text; what it is about stands in its fields."""

    def __init__(self, mono_s: Callable[[], float] = time.monotonic) -> None:
        self._mono_s = mono_s
        self._kinds: dict[str, tuple[float, float, int]] = {}  # (lines that may pass, as of, lines left out)

    def __call__(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Return the line, with how many like it were left out before; raise DropEvent to leave it out."""
        if method == "debug":
            return event
        kind, now_s = str(event.get("event", "")), self._mono_s()
        may_pass, as_of_s, left_out = self._kinds.get(kind, (float(BURST), now_s, 0))
        may_pass = min(float(BURST), may_pass + (now_s - as_of_s) / REFILL_S)
        if may_pass < 1.0:
            self._kinds[kind] = (may_pass, now_s, left_out + 1)
            raise structlog.DropEvent
        if len(self._kinds) < _MOST_KINDS or kind in self._kinds:
            self._kinds[kind] = (may_pass - 1.0, now_s, 0)
        if left_out:
            event["left_out"] = left_out
        return event
