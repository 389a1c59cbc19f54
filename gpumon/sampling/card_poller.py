"""One card's schedule: when each of its reads is due, and making it.

A poller has no thread and does not choose: a crew does, for one card or several (crew.py). In the daemon a thread
sleeps until a read is due; in simulated time a loop moves the poller's own clock there. The reads, their order and
their deadlines are the same.
"""

from __future__ import annotations

import math
from typing import Protocol

from gpumon.hardware.reader import CardReader
from gpumon.model.card import Card, LinkSource
from gpumon.model.clock import Clock
from gpumon.sampling.budget import Budget
from gpumon.sampling.card_log import CardAccess, CardLog
from gpumon.sampling.counter_task import CounterTask
from gpumon.sampling.gpm_task import GpmTask
from gpumon.sampling.housekeeping_task import HousekeepingTask
from gpumon.sampling.link_pace import driver_line_rate, fastest, link_pace
from gpumon.sampling.window_task import WindowTask

_AFTER_ERROR_S = 1.0


class _Task(Protocol):
    due_s: float

    def run(self, now_s: float) -> None: ...


class _TrafficTask(_Task, Protocol):
    def wake(self, mono_s: float) -> None: ...


class CardPoller:
    """The reads of one card: `run_fast` when `fast_due_s` has come, `run_slow` when `slow_due_s` has."""

    def __init__(
        self,
        card: Card,
        *,
        reader: CardReader,
        clock: Clock,
        budget: Budget,
        tree_line_rate: float,
        start_s: float,
        phase_s: float,
        share: float,
    ) -> None:
        """Set the schedule up.

        Args:
            reader: for this poller's thread alone.
            tree_line_rate: fastest rate of the card's own link by the PCI tree, NaN when unknown.
            start_s: when sampling begins.
            phase_s: where in each second this card's slow reads lie, so that the cards of a node take turns.
            share: the card's place among the node's, 0 to 1, for what is read every few seconds.
        """
        self.card = card
        self.log = CardLog(fault=card.fault)
        self._clock = clock
        self._tree_line_rate = tree_line_rate
        self._rare_seen_s = math.nan
        access = CardAccess(reader, clock, self.log, budget)
        sources = (card.capabilities.pcie_source, card.capabilities.nvlink_source)
        traffic: list[_TrafficTask] = []
        self._counter: CounterTask | None = None
        if LinkSource.COUNTER in sources or LinkSource.FIELD in sources:
            pace = link_pace(fastest(tree_line_rate), card.capabilities.counter_bits)
            self._counter = CounterTask(access, pace, start_s)
            traffic.append(self._counter)
        if LinkSource.WINDOW in sources:
            traffic.append(WindowTask(access, start_s))
        if "gpm" in card.capabilities.features:
            traffic.append(GpmTask(access, start_s))
        self._traffic = tuple(traffic)
        self._slow = HousekeepingTask(access, start_s + phase_s, share)

    @property
    def slow_due_s(self) -> float:
        """When the next of the slow reads is due."""
        return self._slow.due_s

    @property
    def fast_due_s(self) -> float:
        """When traffic is to be read next; infinite where there is nothing to read it from."""
        traffic = self._traffic
        if len(traffic) == 1:
            return traffic[0].due_s
        return min((task.due_s for task in traffic), default=math.inf)

    def run_fast(self) -> None:
        """Read the traffic. Returns when the call came back; a window call blocks for its 20 ms."""
        self._run(min(self._traffic, key=_due_s), self._clock.mono_s())

    def run_slow(self) -> None:
        """Make the next of the slow reads."""
        now_s, was_active = self._clock.mono_s(), self.log.active
        try:
            self._run(self._slow, now_s)
        finally:
            self._after_slow(now_s, was_active)

    def _run(self, task: _Task, now_s: float) -> None:
        log = self.log
        log.calling_since_s = now_s
        try:
            task.run(now_s)
        except Exception:
            # A bug in one read: its task pauses, the card's other tasks go on. The thread's edge tells of it.
            task.due_s = max(task.due_s, now_s + _AFTER_ERROR_S)
            raise
        finally:
            log.calling_since_s = math.nan

    def _after_slow(self, now_s: float, was_active: bool) -> None:
        log = self.log
        if log.active and not was_active:
            for task in self._traffic:
                task.wake(now_s)
        if self._counter is not None and log.rare is not None and log.rare[1] != self._rare_seen_s:
            self._rare_seen_s = log.rare[1]
            rate = fastest(self._tree_line_rate, driver_line_rate(log.rare[0].readings))
            if rate != self._counter.pace.line_rate:
                self._counter.pace = link_pace(rate, self.card.capabilities.counter_bits)


def _due_s(task: _Task) -> float:
    return task.due_s
