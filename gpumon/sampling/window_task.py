"""Watching a link through 20 ms windows, one direction at a time, where the card has nothing better."""

from __future__ import annotations

import math

from gpumon.model.fault import Fault
from gpumon.sampling.card_log import CardAccess
from gpumon.sampling.strata import WindowPlan

_NAN = math.nan
_IDLE_PERIOD_S = 1.0
_FAULT_PERIOD_S = 1.0


class WindowTask:
    """The window schedule of one card. Use: `run` when `due_s` has come; it blocks for the window."""

    def __init__(self, access: CardAccess, start_s: float) -> None:
        self._reader = access.reader
        self._clock = access.clock
        self._log = access.log
        self._budget = access.budget
        self._source = access.log.sources["window"]
        self._plan = WindowPlan(access.reader.card.identity.uuid, start_s)
        self.due_s, self._direction = self._plan.next(access.budget.window_cycle_s())

    def wake(self, mono_s: float) -> None:
        """Take up the dense schedule: the card has work again."""
        self._plan.restart(mono_s)
        self.due_s, self._direction = self._plan.next(self._budget.window_cycle_s())

    def run(self, now_s: float) -> None:
        """Watch the planned direction for one window and set the next deadline."""
        log = self._log
        if log.fault is not None:
            self.due_s = now_s + _FAULT_PERIOD_S
            self._plan.restart(self.due_s)
            return
        sample = self._reader.window(self._direction)
        ended_s = self._clock.mono_s()
        if isinstance(sample, Fault):
            log.failed(self._source, sample)
        else:
            log.good(self._source, now_s, ended_s)
            seen = sample.bytes_per_second * (sample.t1_s - sample.t0_s)
            rx, tx = (seen, _NAN) if self._direction == "rx" else (_NAN, seen)
            log.pcie.append((sample.t0_s, sample.t1_s, rx, tx, sample.power_watts))
        self._schedule(ended_s)

    def _schedule(self, ended_s: float) -> None:
        """Set the next window. One that is late by a whole cycle is left out: it would stand for another time."""
        cycle_s = self._budget.window_cycle_s()
        if not self._log.active:
            self._plan.restart(ended_s)
            self.due_s, self._direction = self._plan.next(cycle_s)
            self.due_s += _IDLE_PERIOD_S
            return
        due_s, direction = self._plan.next(cycle_s)
        if due_s < ended_s - cycle_s:
            self._source.missed += 2 * int((ended_s - due_s) / cycle_s)
            self._plan.restart(ended_s)
            due_s, direction = self._plan.next(cycle_s)
        self.due_s, self._direction = due_s, direction
