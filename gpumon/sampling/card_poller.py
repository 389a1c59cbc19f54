"""One card's schedule: which read is due next, and making it.

A poller has no thread. In the daemon a thread sleeps until `due_s` and calls `run`; in simulated time a loop moves the
poller's own clock there. The reads, their order and their deadlines are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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

# No slow read begins when a fast one is due within this time: the slowest, a process list, holds a driver lock for
# 4.5 ms (facts/nvml.md 10), and at gen5 x16 a counter read may be 10 ms late.
_ROOM_S = 0.008
_AFTER_ERROR_S = 1.0


class _Task(Protocol):
    due_s: float

    def run(self, now_s: float) -> None: ...


class _TrafficTask(_Task, Protocol):
    def wake(self, mono_s: float) -> None: ...


class CardPoller:
    """The reads of one card in the order of their deadlines."""

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
        cpu_time_s: Callable[[], float],
    ) -> None:
        """Set the schedule up.

        Args:
            reader: for this poller's thread alone.
            tree_line_rate: fastest rate of the card's own link by the PCI tree, NaN when unknown.
            start_s: when sampling begins.
            phase_s: where in each second this card's slow reads lie, so that the cards of a node take turns.
            share: the card's place among the node's, 0 to 1, for what is read every few seconds.
            cpu_time_s: cumulative CPU time of the calling thread; constant in simulated time.
        """
        self.card = card
        self.log = CardLog(fault=card.fault)
        self.due_s = start_s
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
        self._slow = HousekeepingTask(access, start_s + phase_s, share, cpu_time_s)
        self._choose(start_s)

    def run(self) -> None:
        """Make the next read. Returns when it came back; a window call blocks for its 20 ms."""
        log = self.log
        now_s = self._clock.mono_s()
        was_active = log.active
        log.calling_since_s = now_s
        task = self._next
        try:
            task.run(now_s)
        except Exception:
            # A bug in one read: its task pauses, the card's other tasks go on. The thread's edge tells of it.
            task.due_s = max(task.due_s, now_s + _AFTER_ERROR_S)
            raise
        finally:
            log.calling_since_s = math.nan
            if task is self._slow:
                self._after_slow(now_s, was_active)
            self._choose(now_s)

    def _choose(self, now_s: float) -> None:
        """Pick the read that comes next; a slow one waits for a fast one that is due soon."""
        slow = self._slow
        chosen: _Task = slow
        due_s = max(slow.due_s, now_s) + _ROOM_S
        for task in self._traffic:
            if task.due_s < due_s:
                chosen, due_s = task, task.due_s
        self._next = chosen
        self.due_s = chosen.due_s

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
