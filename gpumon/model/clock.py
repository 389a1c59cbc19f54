"""Time as a seam: the daemon's clock is real, the simulator's and the tests' are counters."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """A monotonic clock, the wall clock beside it, and waiting.

    One clock serves one thread. In simulated time every poller owns a clock that only its own waits advance,
    so a blocking call of one card costs the others nothing, as on a node whose calls overlap.
    """

    def mono_s(self) -> float:
        """Return monotonic seconds; the zero is arbitrary and shared by all clocks of one run."""
        ...

    def wall_s(self) -> float:
        """Return Unix seconds. May jump; never used for durations."""
        ...

    def wait_until(self, mono_s: float) -> bool:
        """Sleep until the given monotonic time. Return False if told to stop before it came."""
        ...
