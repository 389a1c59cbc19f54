"""The last minute of a card's samples: bounded, immutable, cheap to extend.

Extending a window copies a tuple of at most a dozen references; the samples are joined only when a question is asked,
for the span that is asked about.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpumon.model.card import LinkSource, PowerKind
from gpumon.model.samples import CardTick, Floats, LinkSlots, Series

SPAN_S = 60.0  # the longest window any judgement uses
BLOCK_TICKS = 8
# Logs of other tools bring one sample in 1 to 30 s: a minute of them is nothing, so two blocks of ticks stay.
KEEP_BLOCKS = 2
# More samples a tick than this are thinned: 50 Hz rings and 20 ms slots stay whole, a runaway source does not.
MAX_SAMPLES_PER_TICK = 128

# Rows of the scalar window; one column a tick. Row 0 is the tick's time.
SCALARS = (
    "utilization_ratio",
    "memory_controller_ratio",
    "power_watts",
    "power_limit_watts",
    "power_default_limit_watts",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "sm_clock_hertz",
    "sm_clock_max_hertz",
    "temperature_gpu_celsius",
    "memory_used_bytes",
)
SCALAR_ROW = {key: number + 1 for number, key in enumerate(SCALARS)}

# Rows of a slot window.
SLOT_ROWS = 5
T1, T0, RX, TX, SLOT_POWER = range(SLOT_ROWS)


@dataclass(frozen=True, slots=True)
class Window:
    """Samples of the last minute, oldest first; row 0 is monotonic seconds.

    Eight ticks at a time are joined to a block, so that joining the whole minute is a dozen copies and not sixty.
    """

    rows: int
    blocks: tuple[Floats, ...] = ()  # shape (rows, n) each: eight ticks
    ticks: tuple[Floats, ...] = ()  # shape (rows, n) each: one tick, fewer than eight of them


def push(window: Window, chunk: Floats, now_s: float, span_s: float = SPAN_S) -> Window:
    """Return the window with one more tick's samples, shape (rows, n), and without what is older than the span."""
    if chunk.shape[1] == 0:
        return window
    if chunk.shape[1] > MAX_SAMPLES_PER_TICK:
        chunk = chunk[:, np.linspace(0, chunk.shape[1] - 1, MAX_SAMPLES_PER_TICK).astype(np.intp)]
    ticks = (*window.ticks, chunk)
    if len(ticks) < BLOCK_TICKS:
        return Window(window.rows, window.blocks, ticks)
    blocks = (*window.blocks, np.concatenate(ticks, axis=1))
    first = 0
    while len(blocks) - first > KEEP_BLOCKS and blocks[first][0, -1] < now_s - span_s:
        first += 1
    return Window(window.rows, blocks[first:])


def since(window: Window, from_s: float) -> Floats:
    """Return the samples later than from_s as one array of shape (rows, n), oldest first."""
    chunks = (*window.blocks, *window.ticks)
    first = len(chunks)
    while first > 0 and chunks[first - 1][0, -1] > from_s:
        first -= 1
    if first == len(chunks):
        return np.empty((window.rows, 0))
    oldest = chunks[first]
    start = int(oldest[0].searchsorted(from_s, side="right"))
    if first == len(chunks) - 1:
        return oldest[:, start:]
    return np.concatenate((oldest[:, start:], *chunks[first + 1 :]), axis=1)


@dataclass(frozen=True, slots=True)
class CardWindows:
    """Everything the analysis keeps of one card's recent past."""

    pcie: Window = field(default_factory=lambda: Window(SLOT_ROWS))  # rows T1, T0, RX, TX, SLOT_POWER
    nvlink: Window = field(default_factory=lambda: Window(SLOT_ROWS))
    power: Window = field(default_factory=lambda: Window(2))  # time, watts
    utilization: Window = field(default_factory=lambda: Window(2))  # time, ratio
    memory_controller: Window = field(default_factory=lambda: Window(2))  # time, ratio
    sm_clock: Window = field(default_factory=lambda: Window(2))  # time, hertz
    scalars: Window = field(default_factory=lambda: Window(len(SCALARS) + 1))
    pcie_source: LinkSource = LinkSource.NONE
    nvlink_source: LinkSource = LinkSource.NONE
    power_kind: PowerKind = PowerKind.NONE


def _slots(slots: LinkSlots) -> Floats:
    rows = np.full((SLOT_ROWS, slots.t1_s.size), np.nan)
    if slots.t1_s.size == 0:
        return rows
    rows[T1], rows[T0], rows[RX], rows[TX] = slots.t1_s, slots.t0_s, slots.rx_bytes, slots.tx_bytes
    if slots.power_watts.size:
        rows[SLOT_POWER] = slots.power_watts
    return rows


def _series(series: Series) -> Floats:
    rows = np.empty((2, series.t_s.size))
    rows[0], rows[1] = series.t_s, series.value
    return rows


@dataclass(frozen=True, slots=True)
class NewSlots:
    """The slots one tick added, shape (5, n)."""

    pcie: Floats
    nvlink: Floats


def extend(windows: CardWindows, tick: CardTick, now_s: float) -> tuple[CardWindows, NewSlots]:
    """Return the windows of a card that answered with one more tick, and the slots it added."""
    readings = tick.readings
    scalars = np.array([now_s, *(readings.get(key, np.nan) for key in SCALARS)])[:, np.newaxis]
    power = _series(tick.power)
    new = NewSlots(_slots(tick.pcie), _slots(tick.nvlink))
    grown = CardWindows(
        pcie=push(windows.pcie, new.pcie, now_s),
        nvlink=push(windows.nvlink, new.nvlink, now_s),
        power=push(windows.power, power, now_s),
        utilization=push(windows.utilization, _series(tick.utilization), now_s),
        memory_controller=push(windows.memory_controller, _series(tick.memory_controller), now_s),
        sm_clock=push(windows.sm_clock, _series(tick.sm_clock), now_s),
        scalars=push(windows.scalars, scalars, now_s),
        pcie_source=tick.pcie.source if tick.pcie.t1_s.size else windows.pcie_source,
        nvlink_source=tick.nvlink.source if tick.nvlink.t1_s.size else windows.nvlink_source,
        power_kind=tick.power_kind if power.shape[1] else windows.power_kind,
    )
    return grown, new


def latest(windows: CardWindows, key: str) -> float:
    """Return the newest reading of one scalar, NaN when missing."""
    chunks = windows.scalars.ticks or windows.scalars.blocks
    return float(chunks[-1][SCALAR_ROW[key], -1]) if chunks else np.nan
