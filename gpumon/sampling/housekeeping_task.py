"""What a card is asked once a second or more rarely, and whether it has work at all."""

from __future__ import annotations

import math

from gpumon.hardware.reader import CONTEXT_BYTES
from gpumon.model.fault import Fault
from gpumon.sampling.card_log import CardAccess
from gpumon.sampling.deadline import next_deadline

_SECOND_S = 1.0
# The power ring holds 2.0 to 2.4 s of a busy card, but two minutes of an idle one (facts/nvml.md 2.4).
_IDLE_RING_PERIOD_S = 10.0
_RARE_PERIOD_S = 15.0
_IDLE_PROCESS_PERIOD_S = 10.0
# The longest a stretched process interval gets. A process that comes or goes moves the card's memory, which is read
# every second: then the list is due after the plain interval. Where memory is unknown, jobs are seen within 5 s.
_LONGEST_PROCESS_PERIOD_S = 10.0
_LONGEST_BLIND_PROCESS_PERIOD_S = 5.0
# A card without processes stays watched closely this long after its last kernel or allocation.
_WORK_LINGERS_S = 5.0
# One failed read is a hiccup; the second in a row means that the card does not answer.
_FAILURES_TO_FAULT = 2
# Where in the second the reads lie that would otherwise come together.
_PROCESS_PHASE_S = 0.4
_RARE_PHASE_S = 0.7


class HousekeepingTask:
    """The slow schedule of one card. Each `run` makes one read, so that fast reads can go between."""

    def __init__(self, access: CardAccess, start_s: float, share: float) -> None:
        """Set the schedule up. `share`, 0 to 1, is the card's place among the node's: expensive reads take turns."""
        self._reader = access.reader
        self._clock = access.clock
        self._log = access.log
        self._budget = access.budget
        # These lie in the past: each read is made once at the beginning and then in its turn.
        self._quick_due_s = self._ring_due_s = start_s - _SECOND_S
        self._process_due_s = start_s + _PROCESS_PHASE_S + (share - 1.0) * self._interval_s
        self._rare_due_s = start_s + _RARE_PHASE_S + (share - 1.0) * _RARE_PERIOD_S
        self._failures = 0
        self._used_bytes = math.nan
        self._listed_bytes = math.nan  # memory in use at the last process list, and when that was
        self._listed_s = start_s
        self._occupied = True  # that list had processes, or could not be had
        self._last_work_s = start_s
        self.due_s = self._earliest()

    def run(self, now_s: float) -> None:
        """Make the read that is due first and set its next deadline."""
        try:
            if self._quick_due_s <= self.due_s:
                self._quick(now_s)
            elif self._log.fault is not None:
                # Only the quick read asks whether a card is back.
                self._put_off(now_s + _SECOND_S)
            elif self._ring_due_s <= self.due_s:
                self._rings(now_s)
            elif self._process_due_s <= self.due_s:
                self._processes(now_s)
            else:
                self._rare(now_s)
        finally:
            self.due_s = self._earliest()

    def _earliest(self) -> float:
        return min(self._quick_due_s, self._ring_due_s, self._process_due_s, self._rare_due_s)

    def _put_off(self, until_s: float) -> None:
        self._ring_due_s = max(self._ring_due_s, until_s)
        self._process_due_s = max(self._process_due_s, until_s)
        self._rare_due_s = max(self._rare_due_s, until_s)

    def _quick(self, now_s: float) -> None:
        log = self._log
        source = log.sources["quick"]
        self._quick_due_s, late = next_deadline(self._quick_due_s, _SECOND_S, now_s)
        source.missed += late
        log.bound()
        sample = self._reader.quick()
        ended_s = self._clock.mono_s()
        if isinstance(sample, Fault):
            log.failed(source, sample)
            self._failures += 1
            if self._failures >= _FAILURES_TO_FAULT and log.fault is None:
                log.fault = sample
            return
        self._failures = 0
        if log.fault is not None:
            # What was known before the card went says nothing about the card that came back.
            self._used_bytes = math.nan
            self._process_due_s = self._rare_due_s = now_s
        log.good(source, now_s, ended_s)
        log.quick = (sample, ended_s)
        used_bytes = sample.readings.get("memory_used_bytes", math.nan)
        grown = used_bytes - self._used_bytes > CONTEXT_BYTES
        self._used_bytes = used_bytes
        if grown or sample.readings.get("utilization_ratio", 0.0) > 0.0:
            self._last_work_s = now_s
            if not log.active:
                self._process_due_s = self._ring_due_s = now_s
        if abs(used_bytes - self._listed_bytes) > CONTEXT_BYTES:
            self._process_due_s = min(self._process_due_s, self._listed_s + self._interval_s)
        self._judge_activity(now_s)
        # The interval may have become shorter since: by configuration, or because the budget allows it again.
        self._process_due_s = min(self._process_due_s, self._listed_s + self._process_period_s())

    def _judge_activity(self, now_s: float) -> None:
        self._log.active = self._occupied or now_s - self._last_work_s < _WORK_LINGERS_S

    def _rings(self, now_s: float) -> None:
        log = self._log
        source = log.sources["ring"]
        period_s = _SECOND_S if log.active else _IDLE_RING_PERIOD_S
        self._ring_due_s, late = next_deadline(self._ring_due_s, period_s, now_s)
        source.missed += late
        rings = self._reader.rings()
        if isinstance(rings, Fault):
            log.failed(source, rings)
        else:
            log.good(source, now_s, self._clock.mono_s())
            log.rings.append(rings)

    def _processes(self, now_s: float) -> None:
        log = self._log
        source = log.sources["process"]
        period_s = self._process_period_s()
        self._process_due_s, late = next_deadline(self._process_due_s, period_s, now_s)
        source.missed += late
        processes = self._reader.processes()
        ended_s = self._clock.mono_s()
        self._listed_s, self._listed_bytes = now_s, self._used_bytes
        if isinstance(processes, Fault):
            log.failed(source, processes)
            log.processes = (None, ended_s)
            self._occupied = True  # who cannot see processes cannot say that there are none
        else:
            log.good(source, now_s, ended_s)
            log.processes = (processes, ended_s)
            self._occupied = any(process.kind != "graphics" for process in processes)
        self._judge_activity(now_s)

    @property
    def _interval_s(self) -> float:
        return self._budget.settings.process_interval_s

    def _process_period_s(self) -> float:
        """Return the interval of process lists: the first reads to be thinned out, before the link is seen less."""
        if not self._log.active:
            return _IDLE_PROCESS_PERIOD_S
        longest_s = _LONGEST_BLIND_PROCESS_PERIOD_S if math.isnan(self._used_bytes) else _LONGEST_PROCESS_PERIOD_S
        return max(min(self._interval_s * self._budget.stretch**8, longest_s), self._interval_s)

    def _rare(self, now_s: float) -> None:
        log = self._log
        source = log.sources["rare"]
        self._rare_due_s, late = next_deadline(self._rare_due_s, _RARE_PERIOD_S, now_s)
        source.missed += late
        sample = self._reader.rare()
        if isinstance(sample, Fault):
            log.failed(source, sample)
        else:
            ended_s = self._clock.mono_s()
            log.good(source, now_s, ended_s)
            log.rare = (sample, ended_s)
