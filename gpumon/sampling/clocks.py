"""The clocks of a run: the machine's, with a way to wake its sleeper, and a counter that only waiting advances."""

from __future__ import annotations

import threading
import time

# A wait is cut into pieces of this length: no platform's timeout overflows, and a stop is seen at once anyway.
_LONGEST_WAIT_S = 3600.0


class RealClock:
    """The machine's clocks for one thread. `stop` may be called from any thread and wakes the sleeper at once.

    A locked lock is the cheapest sleep that can be interrupted: threading.Event builds a new lock for every wait,
    which showed at 160 waits a second.
    """

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self._stopped = False
        self.mono_s = time.monotonic
        self.wall_s = time.time

    @property
    def stopped(self) -> bool:
        """True once `stop` was called."""
        return self._stopped

    def wait_until(self, mono_s: float) -> bool:
        """Sleep until the given monotonic time. Return False if told to stop before it came."""
        while not self._stopped:
            left_s = mono_s - time.monotonic()
            if left_s <= 0.0:
                return True
            if self._gate.acquire(timeout=min(left_s, _LONGEST_WAIT_S)):
                self._gate.release()
        return False

    def stop(self) -> None:
        """End the present wait and refuse further ones."""
        if not self._stopped:
            self._stopped = True
            self._gate.release()


class CountingClock:
    """Simulated time of one poller: a wait takes no time and moves the counter.

    The wall clock runs beside it at a fixed distance, as on a machine whose clock nobody touches.
    """

    def __init__(self, start_s: float = 0.0, wall_offset_s: float = 0.0) -> None:
        self._now_s = start_s
        self._wall_offset_s = wall_offset_s

    def mono_s(self) -> float:
        """Return the counter."""
        return self._now_s

    def wall_s(self) -> float:
        """Return the counter as Unix seconds."""
        return self._now_s + self._wall_offset_s

    def wait_until(self, mono_s: float) -> bool:
        """Move the counter forward to the given time; it never moves back."""
        self._now_s = max(self._now_s, mono_s)
        return True
