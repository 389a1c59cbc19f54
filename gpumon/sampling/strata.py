"""Where the 20 ms windows go: one per direction at a random place of every stratum.

Training repeats itself every few hundred milliseconds, so windows at a fixed rhythm would see the same moment of every
step (aliasing). Here time is cut into cycles. Each cycle is two cells, one for each direction, in an order thrown anew
every time, and the window begins anywhere in its cell: every instant is equally likely to be seen, and slow traffic
is still seen evenly. Cycle lengths vary by a tenth so that no rhythm stays in step with the grid either.
The seed is the card's: cards of a node do not look in step, and a simulated run repeats itself.
"""

from __future__ import annotations

import random
import zlib

_CYCLE_JITTER = 0.1
DIRECTIONS = (("rx", "tx"), ("tx", "rx"))


class WindowPlan:
    """The endless sequence of planned windows of one card."""

    def __init__(self, seed: str, start_s: float) -> None:
        self._random = random.Random(zlib.crc32(seed.encode()))
        self._cell_s = start_s  # where the next cell begins
        self._half_s = 0.0
        self._order = DIRECTIONS[0]
        self._second = False

    def next(self, cycle_s: float) -> tuple[float, str]:
        """Return the start and the direction of the next window. `cycle_s` takes effect with the next cycle."""
        draw = self._random.random
        if not self._second:
            self._half_s = 0.5 * cycle_s * (1.0 + _CYCLE_JITTER * (2.0 * draw() - 1.0))
            self._order = DIRECTIONS[draw() < 0.5]
        start_s = self._cell_s + draw() * self._half_s
        self._cell_s += self._half_s
        direction = self._order[self._second]
        self._second = not self._second
        return start_s, direction

    def restart(self, mono_s: float) -> None:
        """Forget the cells up to the given time: the card was not looked at for a while."""
        self._cell_s = max(self._cell_s, mono_s)
        self._second = False
