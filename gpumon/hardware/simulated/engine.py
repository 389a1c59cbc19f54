"""A small event engine: programs are generators that yield how long, or for what, they wait.

A program yields a float (seconds to wait) or a Signal (wait until it is fired). Time moves only between events.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from itertools import count
from typing import TypeAlias


class Signal:
    """Something that happens once. Programs that wait for it go on when it is fired."""

    __slots__ = ("_waiting", "fired")

    def __init__(self) -> None:
        self.fired = False
        self._waiting: list[Callable[[], None]] = []

    def fire(self) -> None:
        """Wake everyone who waits; later waiters do not wait at all."""
        if self.fired:
            return
        self.fired = True
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def when_fired(self, wake: Callable[[], None]) -> None:
        """Call `wake` once this signal is fired; at once if it was."""
        if self.fired:
            wake()
        else:
            self._waiting.append(wake)


Program: TypeAlias = Generator["float | Signal", None, None]


class Engine:
    """The clock and the calendar of one simulated node."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calendar: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._unsettled: list[Callable[[], None]] = []

    def at(self, time_s: float, action: Callable[[], None]) -> None:
        """Run `action` at the given time; actions of one instant run in the order they were asked for."""
        heapq.heappush(self._calendar, (time_s, next(self._order), action))

    def before_time_moves(self, action: Callable[[], None]) -> None:
        """Run `action` once everything that happens at the present instant has happened."""
        self._unsettled.append(action)

    def start(self, program: Program) -> Signal:
        """Run a program from now on. The returned signal is fired when it ends."""
        done = Signal()
        self._advance(program, done)
        return done

    def run_until(self, time_s: float) -> None:
        """Let everything happen that happens up to and including `time_s`."""
        calendar = self._calendar
        while True:
            if self._unsettled and not (calendar and calendar[0][0] <= self.now):
                unsettled, self._unsettled = self._unsettled, []
                for action in unsettled:
                    action()
            elif calendar and calendar[0][0] <= time_s:
                self.now, _, action = heapq.heappop(calendar)
                action()
            else:
                break
        self.now = max(self.now, time_s)

    def _advance(self, program: Program, done: Signal) -> None:
        for wanted in program:
            if isinstance(wanted, Signal):
                if wanted.fired:
                    continue
                wanted.when_fired(lambda: self._advance(program, done))
            else:
                self.at(self.now + wanted, lambda: self._advance(program, done))
            return
        done.fire()


def all_of(signals: list[Signal]) -> Signal:
    """Return a signal that is fired once every given one is."""
    together = Signal()
    missing = len(signals)

    def one_more() -> None:
        nonlocal missing
        missing -= 1
        if missing == 0:
            together.fire()

    if not signals:
        together.fire()
    for signal in signals:
        signal.when_fired(one_more)
    return together
