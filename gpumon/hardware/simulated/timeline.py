"""The physical truth of one card over time: stretches of constant rates with exact integrals.

Sensors ask for rates, integrals and means at any time that was simulated. Columns are the channels of the timeline
file; behind them come the labels of `Label`, the event log in the same form: the share of each stretch that the card
spent in each state. Labels are for the truth only; no sensor looks at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpumon.hardware.simulated.timeline_file import CHANNELS, CardTimeline

Floats: TypeAlias = npt.NDArray[np.float64]


class Label(IntEnum):
    """What a card is doing, as the event that did it knows."""

    COMPUTE = 0  # a kernel bound by arithmetic
    MEMORY = 1  # a kernel bound by device memory
    OVERLAP = 2  # a kernel while a collective moves data
    OWN_LINK = 3  # a collective moves data, held by a card's own link
    SHARED_LINK = 4  # ... by something several cards share: uplink, root complex, host memory
    LATENCY = 5  # ... by the time its messages take, not by their size
    HOST_PATH = 6  # cards exchange through the CPU (sockets)
    PEER_WAIT = 7  # waits for another card to arrive
    BUBBLE = 8  # waits for another pipeline stage
    INPUT = 9  # nothing runs: the next batch is not there
    CHECKPOINT = 10  # nothing runs: the host writes or reads a checkpoint
    OFFLOAD = 11  # nothing runs, or only copies: optimizer or weights live in host memory
    LAUNCH = 12  # no kernel of the work runs: the CPU launches them too slowly
    HOST_OTHER = 13  # nothing runs: anything else on the host
    IDLE = 14  # the job has nothing to do
    POWER_LIMITED = 15  # flag, beside the states: clocks held down by a lowered power limit
    THERMAL = 16  # flag: clocks held down by heat
    BRAKE = 17  # flag: clocks held down by the power brake


STATES = tuple(label for label in Label if label < Label.POWER_LIMITED)
COLUMNS = len(CHANNELS) + len(Label)
_FIRST_CAPACITY = 1024
# Kept behind the newest stretch when the past may be forgotten: the longest ring of a card covers 118 s at idle.
KEPT_SECONDS = 200.0


class Timeline:
    """Grows at its end; answers questions between `start_s` and `end_s`."""

    def __init__(self, keeps_all: bool) -> None:
        self._keeps_all = keeps_all
        self._times = np.empty(_FIRST_CAPACITY)
        self._rates = np.empty((COLUMNS, _FIRST_CAPACITY))
        self._cumulative = np.empty((COLUMNS, _FIRST_CAPACITY))
        self._first = 0
        self._size = 0  # index behind the last stretch
        self._total = np.zeros(COLUMNS)  # integral up to end_s
        self._new_times: list[float] = []
        self._new_rates: list[list[float]] = []
        self.end_s = 0.0

    def append(self, until_s: float, rates: list[float]) -> None:
        """Add a stretch from end_s to until_s. The list is kept, not copied."""
        self._new_times.append(self.end_s)
        self._new_rates.append(rates)
        self.end_s = until_s

    def flush(self) -> None:
        """Make everything appended so far visible to the questions below."""
        new = len(self._new_times)
        if new == 0:
            return
        self._make_room(new)
        slots = slice(self._size, self._size + new)
        times = self._times[slots]
        times[:] = self._new_times
        rates = self._rates[:, slots]
        rates[:] = np.array(self._new_rates).T
        lengths = np.diff(times, append=self.end_s)
        sums = np.cumsum(rates * lengths, axis=1)
        self._cumulative[:, self._size] = self._total
        self._cumulative[:, self._size + 1 : self._size + new] = self._total[:, None] + sums[:, :-1]
        self._total += sums[:, -1]
        self._size += new
        self._new_times, self._new_rates = [], []

    @property
    def start_s(self) -> float:
        """The earliest time that can still be asked for."""
        return float(self._times[self._first])

    def rates_at(self, time_s: float) -> Floats:
        """Return the rates of every column at one time, shape (COLUMNS,)."""
        return self._rates[:, self._index(time_s)]

    def integrals_at(self, time_s: float) -> Floats:
        """Return the integral of every column from 0 to one time, shape (COLUMNS,)."""
        index = self._index(time_s)
        elapsed = time_s - self._times[index]
        integrals: Floats = self._cumulative[:, index] + self._rates[:, index] * elapsed
        return integrals

    def integral_at(self, column: int, time_s: float) -> float:
        """Return the integral of one column from 0 to one time. The quick way: about 1.5 us."""
        return self.integrals_of((column,), time_s)[0]

    def integrals_of(self, columns: Sequence[int], time_s: float) -> list[float]:
        """Return the integrals of a few columns from 0 to one time, for the price of little more than one."""
        index = self._index(time_s)
        elapsed = time_s - self._times.item(index)
        cumulative, rates = self._cumulative.item, self._rates.item
        return [cumulative(column, index) + rates(column, index) * elapsed for column in columns]

    def mean_between(self, column: int, from_s: float, to_s: float) -> float:
        """Return the mean of one column over one stretch of time."""
        return (self.integral_at(column, to_s) - self.integral_at(column, from_s)) / (to_s - from_s)

    def integral(self, column: int, times_s: Floats) -> Floats:
        """Return the integral of one column from 0 to each of the times, same shape."""
        known = self._times[self._first : self._size]
        index = self._first + np.maximum(np.searchsorted(known, times_s, side="right") - 1, 0)
        elapsed = times_s - self._times[index]
        integrals: Floats = self._cumulative[column, index] + self._rates[column, index] * elapsed
        return integrals

    def mean(self, column: int, from_s: Floats, to_s: Floats) -> Floats:
        """Return the mean of one column over each stretch of time."""
        mean: Floats = (self.integral(column, to_s) - self.integral(column, from_s)) / (to_s - from_s)
        return mean

    def stretches(self, until_s: float) -> CardTimeline:
        """Return the channels (labels left out) up to a time, for a timeline file."""
        known = self._times[self._first : self._size]
        stop = self._first + int(np.searchsorted(known, until_s))
        kept = slice(self._first, max(stop, self._first + 1))
        channels = len(CHANNELS)
        return CardTimeline(
            self._times[kept].copy(), self._rates[:channels, kept].copy(), self._cumulative[:channels, kept].copy()
        )

    def _index(self, time_s: float) -> int:
        known = self._times[self._first : self._size]
        return self._first + max(int(known.searchsorted(time_s, side="right")) - 1, 0)

    def _make_room(self, new: int) -> None:
        if self._size + new <= self._times.size:
            return
        if not self._keeps_all:
            known = self._times[self._first : self._size]
            self._first += max(int(known.searchsorted(self.end_s - KEPT_SECONDS)) - 1, 0)
        kept = slice(self._first, self._size)
        kept_size = self._size - self._first
        capacity = max(self._times.size, 2 * (kept_size + new))
        for name in ("_times", "_rates", "_cumulative"):
            old = getattr(self, name)
            grown = np.empty((*old.shape[:-1], capacity))
            grown[..., :kept_size] = old[..., kept]
            setattr(self, name, grown)
        self._first, self._size = 0, kept_size
