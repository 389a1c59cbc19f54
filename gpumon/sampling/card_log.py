"""What one card's tasks have read since the last tick, and what is known of the card's state.

Written by the card's own thread, emptied by the tick's. No lock: the writer only appends and replaces references, the
tick takes a copy of what is there and deletes as many from the front; each of these is one atomic step of the
interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpumon.hardware.reader import CardReader, GpmSample, Rings, SlowSample
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.samples import GpuProcess
from gpumon.sampling.budget import Budget

# (t0_s, t1_s, rx_bytes, tx_bytes, power_watts); NaN where not seen.
LinkRow = tuple[float, float, float, float, float]

# The kinds of read; label values of `gpumon_samples_total`.
SOURCES = ("counter", "window", "gpm", "ring", "quick", "rare", "process")
# After one of these nothing the card answers can be used; the rest of its tasks pause.
CARD_FAULTS = frozenset({Fault.LOST, Fault.RESET_REQUIRED, Fault.DRIVER_NOT_LOADED, Fault.VERSION_MISMATCH})
# Rows kept when nobody closes ticks any more: more than a minute of the fastest poller.
_MOST_ROWS = 2500
_MOST_DRAINS = 120


@dataclass(slots=True)
class Source:
    """How one kind of read is doing on one card."""

    samples: int = 0
    missed: int = 0  # came too late, brought nothing, or could not be used
    duration_s: float = math.nan  # of the last run
    last_s: float = math.nan  # monotonic time of the last good one


@dataclass(slots=True)
class CardLog:
    """The card's readings on their way to the tick."""

    pcie: list[LinkRow] = field(default_factory=list)
    nvlink: list[LinkRow] = field(default_factory=list)
    rings: list[Rings] = field(default_factory=list)
    gpm: list[GpmSample] = field(default_factory=list)
    # The newest of each, with the monotonic time it was read at.
    quick: tuple[SlowSample, float] | None = None
    rare: tuple[SlowSample, float] | None = None
    processes: tuple[tuple[GpuProcess, ...] | None, float] = (None, math.nan)
    fault: Fault | None = None  # set while the card as a whole does not answer
    last_good_s: float = math.nan
    calling_since_s: float = math.nan  # NaN between calls
    active: bool = True  # it has work, or may have
    rejected: int = 0  # counter deltas faster than the link can be
    sources: Mapping[str, Source] = field(default_factory=lambda: {name: Source() for name in SOURCES})

    def good(self, source: Source, started_s: float, ended_s: float) -> None:
        """Note a read that brought something."""
        source.samples += 1
        source.duration_s = ended_s - started_s
        source.last_s = self.last_good_s = ended_s
        if self.fault is not None:
            self.fault = None

    def failed(self, source: Source, fault: Fault) -> None:
        """Note a read that brought nothing."""
        source.missed += 1
        if fault in CARD_FAULTS:
            self.fault = fault

    def bound(self) -> None:
        """Drop the oldest rows of a log that nobody empties."""
        for rows in (self.pcie, self.nvlink):
            if len(rows) > _MOST_ROWS:
                del rows[: len(rows) - _MOST_ROWS]
        if len(self.rings) > _MOST_DRAINS:
            del self.rings[:-_MOST_DRAINS]
        if len(self.gpm) > _MOST_ROWS:
            del self.gpm[:-_MOST_ROWS]


@dataclass(frozen=True, slots=True)
class CardAccess:
    """What every task of one card works with; for the card's own thread."""

    reader: CardReader
    clock: Clock
    log: CardLog
    budget: Budget
