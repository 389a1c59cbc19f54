"""How well a period explains a signal: cut it into cycles, lay them on each other, tell each sample from the others.

A fold takes samples where they are, so a period that never falls on the grid of the samples loses nothing by it, where
a correlation over lags would prefer the multiple that does. Twice the true period explains a little less than the true
one, half of it much less. Cycles are compared within a few neighbours only: the steps of a real job differ by a few
per cent, and after a hundred of them nothing lies on top of each other.

Source: phase dispersion minimisation (Stellingwerf 1978), with each sample left out of the mean that foretells it, so
that what happens once explains nothing.
"""

from __future__ import annotations

import numpy as np

from gpumon.analysis.common_signal import Common

NEIGHBOURS = 8  # cycles that are laid on each other, and more where each holds few samples
FEWEST_IN_BIN = 8  # samples of all of them
BIN_S = 0.1  # of a cycle: fine enough for a pause of a tenth of a second in a step of many
BIN_PACES = 1.5
FEWEST_BINS, MOST_BINS = 14, 64
NOTHING = 1e-9  # variance of a signal that does not move


def explained(signal: Common, period_s: float) -> float:
    """Return the share of the signal's variance that a period foretells: 1 all, 0 and below nothing."""
    bins = int(min(MOST_BINS, max(FEWEST_BINS, period_s / max(BIN_S, BIN_PACES * signal.pace_s))))
    value = signal.value
    place = ((signal.t_s - signal.t_s[0]) * (bins / period_s)).astype(np.intp)
    cycle = place // bins
    spacing_s = float(signal.t_s[-1] - signal.t_s[0]) / value.size
    stretch = cycle // max(NEIGHBOURS, round(FEWEST_IN_BIN * bins * spacing_s / period_s))
    place += (stretch - cycle) * bins
    stretches = int(stretch[-1]) + 1
    cells = stretches * bins
    count = np.bincount(place, minlength=cells)
    sums = np.bincount(place, weights=value, minlength=cells)
    squares = np.bincount(place, weights=value * value, minlength=cells)
    # Of each stretch of cycles: its own mean, so that nothing slower than it plays a part.
    mean = sums.reshape(stretches, bins).sum(axis=1) / np.maximum(count.reshape(stretches, bins).sum(axis=1), 1)
    total = float(squares.sum() - mean.dot(sums.reshape(stretches, bins).sum(axis=1)))
    if total <= NOTHING * value.size:
        return 0.0
    many = count > 1
    n = count[many]
    missed = float(((squares[many] - sums[many] ** 2 / n) * (n / (n - 1)) ** 2).sum())
    alone = (count == 1).nonzero()[0]
    missed += float(((sums[alone] - mean[alone // bins]) ** 2).sum())
    return 1.0 - missed / total
