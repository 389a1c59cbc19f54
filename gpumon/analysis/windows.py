"""The last minute of a card's samples: bounded, immutable, cheap to extend.

A window is one array per tick. Extending it copies a tuple of at most a few dozen references; the samples are joined
only when a question is asked, for the span that is asked about.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpumon.model.card import LinkSource, PowerKind
from gpumon.model.samples import CardTick, Floats, LinkSlots, Series

SPAN_S = 60.0  # the longest window any judgement uses
# Logs of other tools bring one sample in 1 to 30 s: a minute of them is nothing, so the newest ticks stay.
KEEP_TICKS = 12
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
T1, T0, RX, TX, SLOT_POWER, SLOT_MEMORY = range(6)


@dataclass(frozen=True, slots=True)
class Window:
    """Samples of the last minute. Each chunk has shape (rows, n) and is one tick; row 0 is monotonic seconds."""

    rows: int
    chunks: tuple[Floats, ...] = ()


def push(window: Window, chunk: Floats, now_s: float, span_s: float = SPAN_S) -> Window:
    """Return the window with one more tick's samples, shape (rows, n), and without what is older than the span."""
    if chunk.shape[1] == 0:
        return _trimmed(window, window.chunks, now_s, span_s)
    if chunk.shape[1] > MAX_SAMPLES_PER_TICK:
        chunk = chunk[:, np.linspace(0, chunk.shape[1] - 1, MAX_SAMPLES_PER_TICK).astype(np.intp)]
    return _trimmed(window, (*window.chunks, chunk), now_s, span_s)


def _trimmed(window: Window, chunks: tuple[Floats, ...], now_s: float, span_s: float) -> Window:
    first = 0
    while len(chunks) - first > KEEP_TICKS and chunks[first][0, -1] < now_s - span_s:
        first += 1
    return Window(window.rows, chunks[first:]) if first or chunks is not window.chunks else window


def since(window: Window, from_s: float) -> Floats:
    """Return the samples later than from_s as one array of shape (rows, n), oldest first."""
    first = len(window.chunks)
    while first > 0 and window.chunks[first - 1][0, -1] > from_s:
        first -= 1
    if first == len(window.chunks):
        return np.empty((window.rows, 0))
    joined = np.concatenate(window.chunks[first:], axis=1)
    start = int(np.searchsorted(joined[0], from_s, side="right"))
    return joined[:, start:]


def newest_s(window: Window) -> float:
    """Return the time of the newest sample; minus infinity when there is none."""
    return float(window.chunks[-1][0, -1]) if window.chunks else -np.inf


@dataclass(frozen=True, slots=True)
class CardWindows:
    """Everything the analysis keeps of one card's recent past."""

    pcie: Window = field(default_factory=lambda: Window(6))  # rows T1, T0, RX, TX, SLOT_POWER, SLOT_MEMORY
    nvlink: Window = field(default_factory=lambda: Window(6))
    power: Window = field(default_factory=lambda: Window(2))  # time, watts
    utilization: Window = field(default_factory=lambda: Window(2))  # time, ratio
    memory_controller: Window = field(default_factory=lambda: Window(2))  # time, ratio
    sm_clock: Window = field(default_factory=lambda: Window(2))  # time, hertz
    scalars: Window = field(default_factory=lambda: Window(len(SCALARS) + 1))
    pcie_source: LinkSource = LinkSource.NONE
    nvlink_source: LinkSource = LinkSource.NONE
    power_kind: PowerKind = PowerKind.NONE


def _slots(slots: LinkSlots) -> Floats:
    if slots.t1_s.size == 0:
        return np.empty((6, 0))
    missing = np.full(slots.t1_s.size, np.nan)
    power = slots.power_watts if slots.power_watts.size else missing
    memory = slots.memory_controller_ratio if slots.memory_controller_ratio.size else missing
    return np.stack((slots.t1_s, slots.t0_s, slots.rx_bytes, slots.tx_bytes, power, memory))


def _series(series: Series) -> Floats:
    return np.stack((series.t_s, series.value)) if series.t_s.size else np.empty((2, 0))


def extend(windows: CardWindows, tick: CardTick, now_s: float) -> CardWindows:
    """Return the card's windows with one more tick. A card that did not answer adds nothing."""
    if not tick.up:
        return windows
    readings = tick.readings
    scalars = np.array([[now_s], *([readings.get(key, np.nan)] for key in SCALARS)])
    power = _series(tick.power)
    return CardWindows(
        pcie=push(windows.pcie, _slots(tick.pcie), now_s),
        nvlink=push(windows.nvlink, _slots(tick.nvlink), now_s),
        power=push(windows.power, power, now_s),
        utilization=push(windows.utilization, _series(tick.utilization), now_s),
        memory_controller=push(windows.memory_controller, _series(tick.memory_controller), now_s),
        sm_clock=push(windows.sm_clock, _series(tick.sm_clock), now_s),
        scalars=push(windows.scalars, scalars, now_s),
        pcie_source=tick.pcie.source if tick.pcie.t1_s.size else windows.pcie_source,
        nvlink_source=tick.nvlink.source if tick.nvlink.t1_s.size else windows.nvlink_source,
        power_kind=tick.power_kind if power.shape[1] else windows.power_kind,
    )


def scalar(windows: CardWindows, key: str, from_s: float) -> Floats:
    """Return the readings of one scalar since a time, oldest first; NaN where a tick lacked it."""
    row: Floats = since(windows.scalars, from_s)[SCALAR_ROW[key]]
    return row


def latest(windows: CardWindows, key: str) -> float:
    """Return the newest reading of one scalar, NaN when missing."""
    return float(windows.scalars.chunks[-1][SCALAR_ROW[key], -1]) if windows.scalars.chunks else np.nan
