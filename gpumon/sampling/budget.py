"""The sampler's own allowance: driver time and CPU time of all pollers together, kept by stretching their periods."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from gpumon.hardware.reader import CardReader
from gpumon.model.fault import Fault
from gpumon.model.settings import SamplingSettings

WINDOW_S = 0.02  # what nvmlDeviceGetPcieThroughput watches (nvml.h)
# While window calls of several cards overlap: both directions once in this time sees 0.21 of each. Shorter sees more
# and costs more: 168 calls a second on 8 cards are what 3.3 % of a core carries.
_OVERLAPPING_CYCLE_S = 0.095
# When they queue, each call holds all others up: no more than this much window time a second on the whole node.
_QUEUED_WINDOWS_RATIO = 0.25
_MOST_STRETCH = 20.0
_AVERAGE_OVER_S = 5.0  # process lists come every 3 s; a shorter average would follow them up and down
_HEADROOM = 0.98  # aim below the limit, so that averages stay under it
# How much of the excess is corrected within a second. The average lags by its 5 s: a faster hand would swing.
_GAIN = 0.15
# The reads that every card makes once at the beginning are no sign of what the schedule costs.
_SETTLING_S = 3.0
_OVERLAP_TEST_CALLS = 3
_OVERLAP_TEST_LIMIT_S = 1.0


class Budget:
    """One factor by which all cards stretch what can be stretched. Written once a second, read by every poller."""

    def __init__(self, settings: SamplingSettings, window_cards: int, windows_overlap: bool) -> None:
        self.settings = settings  # replaced when the configuration was read again
        self._window_cards = max(window_cards, 1)
        self.windows_overlap = windows_overlap
        self.stretch = 1.0
        self._load: float | None = None
        self._settled_s = 0.0
        self._before: tuple[float, float, float] | None = None

    def window_cycle_s(self) -> float:
        """Return the time in which a card watches each direction once."""
        if self.windows_overlap:
            return _OVERLAPPING_CYCLE_S * self.stretch
        fair_s = self._window_cards * 2.0 * WINDOW_S / _QUEUED_WINDOWS_RATIO
        return max(fair_s, _OVERLAPPING_CYCLE_S) * self.stretch

    def account(self, mono_s: float, driver_s: float, cpu_s: float) -> None:
        """Take the cumulative driver seconds, and CPU seconds net of them, at a tick and adapt the stretch."""
        before, self._before = self._before, (mono_s, driver_s, cpu_s)
        if before is None:
            self._settled_s = mono_s + _SETTLING_S
        if before is None or mono_s <= before[0] or mono_s < self._settled_s:
            return
        passed_s = mono_s - before[0]
        driver = (driver_s - before[1]) / passed_s / self.settings.driver_budget_ratio
        cpu = (cpu_s - before[2]) / passed_s / self.settings.cpu_budget_ratio
        weight = min(passed_s / _AVERAGE_OVER_S, 1.0)
        load = max(driver, cpu) / _HEADROOM
        self._load = load if self._load is None else self._load + weight * (load - self._load)
        if self._load > 1.0 or self.stretch > 1.0:
            self.stretch = min(max(self.stretch * self._load**_GAIN, 1.0), _MOST_STRETCH)


def windows_overlap(readers: Sequence[CardReader]) -> tuple[bool, tuple[threading.Thread, ...]]:
    """Measure whether window calls of two cards run side by side or wait for each other.

    Both readers make the same calls at the same time; calls that queue take twice as long.
    Returns: the answer, and the threads that did not come back. False when a call fails or hangs: queueing is the
        assumption that costs the node least.
    """
    elapsed_s: list[float] = []
    barrier = threading.Barrier(2)

    def watch(reader: CardReader) -> None:
        try:
            barrier.wait(timeout=_OVERLAP_TEST_LIMIT_S)
        except threading.BrokenBarrierError:
            return
        started_s = time.monotonic()
        if all(not isinstance(reader.window("rx"), Fault) for _ in range(_OVERLAP_TEST_CALLS)):
            elapsed_s.append((time.monotonic() - started_s) / _OVERLAP_TEST_CALLS)

    threads = [threading.Thread(target=watch, args=(reader,), daemon=True) for reader in readers[:2]]
    for thread in threads:
        thread.start()
    until_s = time.monotonic() + _OVERLAP_TEST_LIMIT_S
    for thread in threads:
        thread.join(max(until_s - time.monotonic(), 0.0))
    # Side by side a call takes 20 to 21 ms (btop, gridwatch); in a queue of two it takes 40.
    overlap = len(elapsed_s) == 2 and max(elapsed_s) < 1.5 * WINDOW_S
    return overlap, tuple(thread for thread in threads if thread.is_alive())
