"""What a reading can be: values that cannot be true are thrown away and counted, never clamped into the possible.

Drivers hand out 2^32-1, thousands of percent and kilowatts now and then, on idle and busy cards alike
(NVIDIA/DCGM#199), and leave the true value again one call later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpumon.data import tables
from gpumon.hardware.nvml import Meter

# Excursions over the limit are real: ATX 3.0 allows twice the limit for 100 us, and no sensor is faster than that.
_POWER_OVER_LIMIT = 3.0
# Three times the greatest published limit (B200: 1000 W); holds where a card's own is unknown.
_POWER_MAX_WATTS = 3000.0
# Headers count in some sources and line rate is exact, so a true reading stays below 1.1 x line rate.
_LINK_OVER_RATE = 1.1
# So many impossible windows among so many with traffic: glitches come once in thousands (NVIDIA/DCGM#199).
_UNIT_IMPOSSIBLE, _UNIT_WINDOWS = 3, 100
# GPM's ratios come from counters read one after the other and end slightly over one at full load.
_RATIO_TOLERANCE = 0.01
_TEMPERATURES_CELSIUS = (-50.0, 150.0)
CLOCK_MAX_HERTZ = 20e9  # effective memory clocks of GDDR7 are below 16 GHz
_LINK_GENERATION_MAX = 7
_LINK_WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a card can reach. NaN where that is not known."""

    power_watts: float  # the greater of the enforced and the default limit
    memory_bytes: float
    link_bytes_per_second: float  # line rate of its own link at its maximum


def link_rate(generation: float, lanes: float) -> float:
    """Return a link's line rate in one direction, NaN when its generation or width is unknown."""
    if math.isnan(generation) or math.isnan(lanes):
        return math.nan
    try:
        return tables.pcie_bytes_per_second(int(generation), int(lanes))
    except ValueError:  # newer than the table
        return math.nan


class Sieve:
    """Lets a card's possible values through and counts the others. A rejected value comes back as NaN."""

    def __init__(self, meter: Meter, bounds: Bounds) -> None:
        self._meter = meter
        self.bounds = bounds

    def percent(self, value: float, reason: str) -> float:
        """Return a percentage as a ratio."""
        return self._keep(value / 100.0, 0.0, 1.0, reason)

    def ratio(self, value: float, reason: str) -> float:
        """Return a measured ratio, rounded down to 1 when it is over by no more than its own error."""
        return min(self._keep(value, 0.0, 1.0 + _RATIO_TOLERANCE, reason), 1.0)

    def power(self, milliwatts: float) -> float:
        """Return watts. A card that answers draws something: 0 is a value the driver did not fill."""
        watts = milliwatts / 1e3
        limit = self.power_max_watts
        return self._keep(watts, math.ulp(0.0), limit, "power")

    @property
    def power_max_watts(self) -> float:
        """The most that a power reading can be."""
        limit = self.bounds.power_watts
        return _POWER_MAX_WATTS if math.isnan(limit) else _POWER_OVER_LIMIT * limit

    def link(self, bytes_per_second: float, reason: str) -> float:
        """Return a PCIe rate. Some R56x drivers gave it a thousandfold."""
        rate = self.bounds.link_bytes_per_second
        return self._keep(bytes_per_second, 0.0, math.inf if math.isnan(rate) else _LINK_OVER_RATE * rate, reason)

    def memory(self, value: float) -> float:
        """Return bytes of device memory."""
        total = self.bounds.memory_bytes
        return self._keep(value, 0.0, math.inf if math.isnan(total) else total, "memory")

    def temperature(self, celsius: float) -> float:
        """Return a temperature."""
        return self._keep(celsius, *_TEMPERATURES_CELSIUS, "temperature")

    def clock(self, megahertz: float) -> float:
        """Return hertz."""
        return self._keep(megahertz * 1e6, 0.0, CLOCK_MAX_HERTZ, "clock")

    def link_generation(self, value: float) -> float:
        """Return a link generation."""
        return self._keep(value, 1, _LINK_GENERATION_MAX, "link_generation")

    def link_width(self, lanes: float) -> float:
        """Return a link width in lanes."""
        return lanes if lanes in _LINK_WIDTHS else self._reject("link_width")

    def _keep(self, value: float, low: float, high: float, reason: str) -> float:
        return value if low <= value <= high else self._reject(reason)

    def _reject(self, reason: str) -> float:
        self._meter.reject(reason)
        return math.nan


class WindowUnit:
    """Watches whether a card's 20 ms windows can be in the unit that they ought to be.

    Some R56x drivers gave a thousandfold: above the link's rate when busy, and plausible, but wrong, when nearly idle.
    A few impossible rates among not many are no glitches; from then on no window of that card is believed.
    """

    __slots__ = ("_impossible", "_meter", "_seen")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._seen = self._impossible = 0

    def doubtful(self, bytes_per_second: float) -> bool:
        """Take note of a window's rate, NaN when it was impossible; return whether the unit is in doubt."""
        if self._impossible >= _UNIT_IMPOSSIBLE:
            self._meter.reject("pcie_unit")
            return True
        if bytes_per_second > 0.0 or math.isnan(bytes_per_second):
            self._seen += 1
            self._impossible += math.isnan(bytes_per_second)
        if self._seen >= _UNIT_WINDOWS:
            self._seen = self._impossible = 0
        return False
