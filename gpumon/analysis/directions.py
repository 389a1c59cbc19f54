"""Do both directions of a link move in the same instant, or in turn?

Collectives send and receive at once. Offload moves as much each way, one after the other, and equal means say nothing.
Counters see both directions in one slot; window calls see one at a time, so neighbouring windows are paired.
"""

from __future__ import annotations

import math

import numpy as np

from gpumon.analysis.humps import quantile
from gpumon.analysis.windows import RX, T0, T1, TX
from gpumon.model.samples import Floats

BUSY_SHARE = 0.35  # of the direction's own busy level
PAIR_S = 0.08  # two windows further apart than this are not one instant
FEWEST = 8  # busy instants


def _pairs(slots: Floats) -> tuple[Floats, Floats]:
    """Return the rates of both directions at the same instants, bytes per second, shape (n,) each."""
    lengths = slots[T1] - slots[T0]
    both = ~np.isnan(slots[RX]) & ~np.isnan(slots[TX])
    if both.any():
        return slots[RX][both] / lengths[both], slots[TX][both] / lengths[both]
    if slots.shape[1] < 2:
        return np.empty(0), np.empty(0)
    near = np.flatnonzero((np.diff(slots[T1]) < PAIR_S) & (np.isnan(slots[RX][:-1]) ^ np.isnan(slots[RX][1:])))
    rates_rx, rates_tx = slots[RX] / lengths, slots[TX] / lengths
    rx = np.where(np.isnan(rates_rx[near]), rates_rx[near + 1], rates_rx[near])
    tx = np.where(np.isnan(rates_tx[near]), rates_tx[near + 1], rates_tx[near])
    return rx, tx


def same_instant(slots: Floats) -> float:
    """Return the share of busy instants in which both directions are busy, 0 to 1; NaN where it cannot be told.

    Args:
        slots: a slot window's samples, shape (5, n).
    """
    rx, tx = _pairs(slots)
    if rx.size < FEWEST:
        return math.nan
    top_rx, top_tx = quantile(np.sort(rx), 0.95), quantile(np.sort(tx), 0.95)
    if top_rx <= 0.0 or top_tx <= 0.0:
        return math.nan
    busy_rx, busy_tx = rx >= BUSY_SHARE * top_rx, tx >= BUSY_SHARE * top_tx
    either = int((busy_rx | busy_tx).sum())
    if either < FEWEST:
        return math.nan
    return float((busy_rx & busy_tx).sum()) / either
