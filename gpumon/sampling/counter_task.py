"""Reading a card's byte counters fast enough that they do not come round unseen, and turning them into slots."""

from __future__ import annotations

import math
import random
import zlib

from gpumon.hardware.reader import CounterSample
from gpumon.model.card import LinkSource
from gpumon.model.fault import Fault
from gpumon.sampling.card_log import CardAccess
from gpumon.sampling.deadline import next_deadline
from gpumon.sampling.lateness import SHORTEST_SLOT_PERIODS, Lateness
from gpumon.sampling.link_pace import LinkPace

_NAN = math.nan
_IDLE_PERIOD_S = 1.0
_FAULT_PERIOD_S = 1.0
# A delta above the line rate by more than this is a counter that was reset, not traffic (facts/nvml.md 1.6).
_IMPOSSIBLE = 1.1
# Two readings would do to call a link quiet, but then most pauses inside a step count: each burst would begin in a long
# slot, and a late poller would lose more of the quiet time than of the loud, which lifts the mean of what was seen.
_QUIET_AFTER_S = 2.0
# Without the budget for gapless reading, so many gapless periods are read in a row before a pause: more, the less is
# missing, because each pause costs one read that closes no slot.
_SHORTEST_RUN = 4
_LONGEST_RUN = 32
# A second without any process may be taken as observed when less than this share of a turn went by.
_IDLE_TURNS = 0.1


class CounterTask:
    """The schedule and the last reading of one card's byte counters. Use: `run` when `due_s` has come."""

    def __init__(self, access: CardAccess, pace: LinkPace, start_s: float) -> None:
        self.due_s = self._grid_s = start_s
        self.pace = pace
        self._reader = access.reader
        self._clock = access.clock
        self._log = access.log
        self._budget = access.budget
        self._source = access.log.sources["counter"]
        card = access.reader.card
        self._pcie = card.capabilities.pcie_source is LinkSource.COUNTER
        self._nvlink = card.capabilities.nvlink_source is LinkSource.FIELD
        self._modulus = 1 << (card.capabilities.counter_bits or 64)
        self._random = random.Random(zlib.crc32(card.identity.uuid.encode()) + 1)
        self._before: CounterSample | None = None
        self._before_active = True
        self._loud_s = start_s  # when either direction was last above the quiet rate
        self._run_left = 0  # gapless periods still to come before the next pause
        self._lateness = Lateness(start_s)

    def wake(self, mono_s: float) -> None:
        """Read at once: the card has work again. From then on in step with other cards of its pace, see crew."""
        self.due_s = min(self.due_s, mono_s)
        self._grid_s = self.due_s - self.due_s % self.pace.busy_period_s

    def run(self, now_s: float) -> None:
        """Read the counters, log the slot since the last reading, and set the next deadline."""
        log = self._log
        if log.fault is not None:
            self._before = None
            self.due_s = now_s + _FAULT_PERIOD_S
            return
        sample = self._reader.counters()
        if isinstance(sample, Fault):
            log.failed(self._source, sample)
            if log.fault is not None:
                self._before = None
        else:
            log.good(self._source, now_s, self._clock.mono_s())
            self._lateness.note(sample.mono_s - self.due_s, now_s, self.pace)
            before, self._before = self._before, sample
            if before is not None:
                self._log_slots(before, sample)
            self._before_active = log.active
        self._schedule(now_s)

    def _log_slots(self, before: CounterSample, sample: CounterSample) -> None:
        gap_s = sample.mono_s - before.mono_s
        if gap_s <= 0.0:
            return
        if self._pcie:
            self._log_pcie(before, sample, gap_s)
        if self._nvlink:
            rx = sample.nvlink_rx_bytes - before.nvlink_rx_bytes
            tx = sample.nvlink_tx_bytes - before.nvlink_tx_bytes
            # A comparison with NaN is false, and a total that fell was restarted: neither is a slot.
            if rx >= 0.0 and tx >= 0.0:
                self._log.nvlink.append((before.mono_s, sample.mono_s, rx, tx, sample.power_watts))

    def _log_pcie(self, before: CounterSample, sample: CounterSample, gap_s: float) -> None:
        rx = _NAN if sample.rx is None or before.rx is None else float((sample.rx - before.rx) % self._modulus)
        tx = _NAN if sample.tx is None or before.tx is None else float((sample.tx - before.tx) % self._modulus)
        pace = self.pace
        quiet = pace.quiet_rate * gap_s
        if gap_s > pace.longest_gap_s:
            # Card and work were idle at both ends: what little went by cannot have gone round. Otherwise unobserved.
            few = _IDLE_TURNS * self._modulus
            if self._before_active or self._log.active or rx > few or tx > few:
                self._source.missed += 1
                return
        else:
            limit = _IMPOSSIBLE * pace.line_rate * gap_s
            if rx > limit or tx > limit:
                self._log.rejected += 1
                self._source.missed += 1
                return
        if rx > quiet or tx > quiet:
            self._loud_s = sample.mono_s
        self._log.pcie.append((before.mono_s, sample.mono_s, rx, tx, sample.power_watts))

    def _schedule(self, now_s: float) -> None:
        """Set the next deadline on the grid of the present period; deadlines that have passed are missed."""
        pace = self.pace
        if not self._log.active:
            period_s = _IDLE_PERIOD_S
        else:
            quiet = now_s - self._loud_s > _QUIET_AFTER_S
            period_s = pace.quiet_period_s if quiet else pace.busy_period_s
            period_s = min(period_s, self._lateness.longest_period_s(pace)) * self._budget.stretch
            if period_s > pace.longest_period_s:
                period_s = self._in_runs(period_s)
        self._grid_s, late = next_deadline(self._grid_s, period_s, now_s)
        self._source.missed += late
        # After a late reading the grid may be a moment away, and a slot that short has no rate worth the name.
        self.due_s = max(self._grid_s, now_s + SHORTEST_SLOT_PERIODS * period_s)

    def _in_runs(self, period_s: float) -> float:
        """Return the next wait when the budget allows one read per period_s and the link asks for more.

        Readings further apart than a turn say nothing, so a few are taken close together and the rest is left out,
        at random lengths so that no rhythm of the work stays hidden.
        """
        longest_s = self.pace.longest_period_s
        if self._run_left > 0:
            self._run_left -= 1
            return longest_s
        run = min(max(round(2.0 * longest_s / (period_s - longest_s)), _SHORTEST_RUN), _LONGEST_RUN)
        self._run_left = run
        pause_s = (run + 1) * period_s - run * longest_s
        return pause_s * (0.5 + self._random.random())
