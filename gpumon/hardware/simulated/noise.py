"""Noise that is a function of where it falls: the same seed, card and sample give the same value in any order."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

# Samples of a sensor take their noise from a table in turn; at 50 Hz it comes round after 164 s.
_TABLE = 8192


class Noise:
    """Standard normal numbers of one sensor, one for each sample number."""

    def __init__(self, stream: int) -> None:
        self._table = np.random.default_rng(stream).standard_normal(_TABLE)

    def at(self, number: int) -> float:
        """Return the number of one sample."""
        return self._table.item(number % _TABLE)

    def of(self, numbers: npt.NDArray[np.int64]) -> Floats:
        """Return the numbers of several samples."""
        picked: Floats = self._table[numbers % _TABLE]
        return picked
