"""What the simulated driver has done so far: time spent inside calls, failures, rejected readings, the call queue."""

from __future__ import annotations

import threading
from collections import Counter

from gpumon.hardware.simulated.sensors import WINDOW_S
from gpumon.model.fault import Fault

# A window call comes back this long after its window has ended (published: 20 to 21 ms a call).
_WINDOW_RETURN_S = 0.5e-3


class DriverLedger:
    """Shared by all readers of a node; safe to use from several threads."""

    def __init__(self, queue_windows: bool) -> None:
        self._lock = threading.Lock()
        self._queue_windows = queue_windows
        self._free_s = -1.0
        self.seconds = 0.0
        self.errors: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()

    def spend(self, seconds: float) -> None:
        """Count time inside a call."""
        with self._lock:
            self.seconds += seconds

    def fail(self, reason: Fault) -> None:
        """Count a failed call."""
        with self._lock:
            self.errors[reason.value] += 1

    def reject(self, reason: str) -> None:
        """Count a reading that was thrown away."""
        with self._lock:
            self.rejected[reason] += 1

    def window_end(self, asked_s: float) -> float:
        """Return when a window asked for now has been watched; where calls queue, after those before it."""
        with self._lock:
            begin = max(asked_s, self._free_s) if self._queue_windows else asked_s
            end = begin + WINDOW_S + _WINDOW_RETURN_S
            self._free_s = end
            return end
