"""The cards that one thread reads, one after the other.

Waking a thread costs about as much as a read of counters does, so cards whose reads fall due together share one. A call
that does not come back leaves its card alone with the thread that hangs; the others go on in a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from gpumon.model.clock import Clock
from gpumon.sampling.card_poller import CardPoller

# No slow read begins when a fast one is due within this time: the slowest, a process list, holds a driver lock for
# 4.5 ms (facts/nvml.md 10), and at gen5 x16 a counter read may be 10 ms late.
_ROOM_S = 0.008
# A fast read is made this much too early when the thread is awake for another card. Deadlines stay where they are, so
# the number of reads stays what it was; at gen5 x16 it is a fifth of the period.
_EARLY_S = 0.012
# A slow read is made so much too early when the thread is awake: it shares the waking with the fast ones before it.
_SLOW_EARLY_S = 0.05
# A call that lasts longer keeps the other cards waiting for no good reason: the slowest known take 10 ms.
_STUCK_S = 0.1


class Crew:
    """The pollers of one thread and which read comes next. `run` when `due_s` has come.

    All but `set_aside` and `hangs` is for that thread. In simulated time each card has a crew of its own.
    """

    def __init__(self, pollers: Sequence[CardPoller], clock: Clock, cpu_time_s: Callable[[], float]) -> None:
        """Take over the pollers.

        Args:
            clock: of the thread.
            cpu_time_s: cumulative CPU time of the thread; constant in simulated time.
        """
        self.pollers = tuple(pollers)
        self.clock = clock
        self.cpu_s = 0.0
        self._cpu_time_s = cpu_time_s
        self._lock = threading.Lock()  # for `pollers` and `_running`
        self._running: CardPoller | None = None
        self._choose()

    def run(self) -> None:
        """Make the fast reads of all cards for which it is time or nearly so, then the slow ones, likewise."""
        if self._slow is None:
            try:
                until_s = self.clock.mono_s() + (_EARLY_S if len(self.pollers) > 1 else 0.0)
                for poller in self.pollers:
                    if poller.fast_due_s <= until_s:
                        self._read(poller, CardPoller.run_fast)
            finally:
                self._choose()
        while self._slow is not None and self.due_s <= self.clock.mono_s() + _SLOW_EARLY_S:
            try:
                self._read(self._slow, CardPoller.run_slow)
            finally:
                self.cpu_s = self._cpu_time_s()
                self._choose()

    def hangs(self, now_s: float) -> bool:
        """Return True while a call keeps the thread for too long. From any thread."""
        running = self._running
        return running is not None and now_s - running.log.calling_since_s > _STUCK_S

    def set_aside(self, now_s: float) -> tuple[CardPoller, ...]:
        """Leave a card whose call does not come back alone with this thread; return the others. From any thread."""
        with self._lock:
            stuck = self._running
            if stuck is None or len(self.pollers) < 2 or not self.hangs(now_s):
                return ()
            others = tuple(poller for poller in self.pollers if poller is not stuck)
            self.pollers = (stuck,)
            return others

    def _read(self, poller: CardPoller, read: Callable[[CardPoller], None]) -> None:
        with self._lock:
            if poller not in self.pollers:
                return
            self._running = poller
        try:
            read(poller)
        finally:
            self._running = None

    def _choose(self) -> None:
        """Pick the read that comes next; a slow one waits for a fast one that is due soon."""
        pollers = self.pollers
        fast_s = min([poller.fast_due_s for poller in pollers])
        slow = min(pollers, key=_slow_due_s)
        if fast_s < max(slow.slow_due_s, self.clock.mono_s()) + _ROOM_S:
            self._slow: CardPoller | None = None
            self.due_s = fast_s
        else:
            self._slow = slow
            self.due_s = slow.slow_due_s


def _slow_due_s(poller: CardPoller) -> float:
    return poller.slow_due_s
