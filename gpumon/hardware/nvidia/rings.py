"""The driver's sample rings: near-complete power and utilization for one call a second each.

Source: nvmlDeviceGetSamples. Power: 119 samples, about 20 ms apart while busy and 1 s when idle; utilization: about 72
samples over 10 s. Stamps are wall-clock microseconds. At each drain the offset between the wall and the monotonic clock
is measured anew, so a slewed wall clock moves no sample in monotonic time, and a stepped one costs a drain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpumon.hardware.nvidia.arrays import SAMPLE_BYTES, Filled, samples
from gpumon.hardware.nvidia.plausible import CLOCK_MAX_HERTZ, Sieve
from gpumon.hardware.nvml import Device
from gpumon.hardware.reader import Rings
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.samples import Floats, Series

# nvmlSamplingType_t
POWER = 0
UTILIZATION = 1
MEMORY_CONTROLLER = 2
SM_CLOCK = 5
_CAPACITY = 256  # twice the longest ring seen (119)
# A wall clock that was slewed moves by 0.5 ms a second at most; what moved further in one drain was stepped.
_STEP_S = 0.05
# After a step, stamps up to this far ahead of the new time are passed over too: a small step back leaves some.
_MARK_MARGIN_S = 1.0
# The newest sample may be stamped this much after the drain: two clocks read one after the other.
_FUTURE_S = 0.05
# How a sample's union is to be read for each nvmlValueType_t.
_LAYOUTS = {
    value_type: np.dtype(
        {"names": ["stamp", "value"], "formats": ["<u8", value_dtype], "offsets": [0, 8], "itemsize": SAMPLE_BYTES}
    )
    for value_type, value_dtype in enumerate(("<f8", "<u4", "<u8", "<u8", "<i8", "<i4", "<u2"))
}
_UNSIGNED_INT = 1  # what a type that is not known is taken for


def wall_offset(clock: Clock) -> float:
    """Return monotonic minus wall time, the wall clock read between two looks at the monotonic one."""
    before = clock.mono_s()
    wall = clock.wall_s()
    return (before + clock.mono_s()) / 2 - wall


@dataclass(slots=True)
class _Ring:
    """One ring and how far it was drained."""

    kind: int
    reason: str  # under which values of it are rejected
    convert: Callable[[Floats], Floats]  # to base units
    high: Callable[[], float]  # the most a value can be, in base units
    newest_us: int = 0  # stamp of the newest sample taken, in the driver's wall time
    newest_s: float = 0.0  # the same on the monotonic clock


class RingReader:
    """Drains one card's rings. The first drain returns what was sampled since this reader was made."""

    def __init__(self, device: Device, clock: Clock, sieve: Sieve) -> None:
        self._device = device
        self._clock = clock
        self._sieve = sieve
        self._offset_s = wall_offset(clock)
        self._rings = (
            _Ring(POWER, "power", lambda value: value / 1e3, lambda: sieve.power_max_watts),
            _Ring(UTILIZATION, "utilization", lambda value: value / 100.0, lambda: 1.0),
            _Ring(MEMORY_CONTROLLER, "memory_controller", lambda value: value / 100.0, lambda: 1.0),
            _Ring(SM_CLOCK, "clock", lambda value: value * 1e6, lambda: CLOCK_MAX_HERTZ),
        )
        for ring in self._rings:
            ring.newest_s = clock.mono_s()

    def drain(self) -> Rings | Fault:
        """Return every ring's samples since the last drain; the fault when no ring answers at all."""
        offset_s = wall_offset(self._clock)
        stepped, self._offset_s = abs(offset_s - self._offset_s) > _STEP_S, offset_s
        series: list[Series] = []
        faults: list[Fault] = []
        for ring in self._rings:
            answer = self._drain(ring, offset_s, stepped)
            if isinstance(answer, Fault):
                faults.append(answer)
                answer = Series()
            series.append(answer)
        if self._device.gone is not None:
            return self._device.gone
        if len(faults) == len(series):
            return faults[0]
        return Rings(*series)

    def _drain(self, ring: _Ring, offset_s: float, stepped: bool) -> Series | Fault:
        filled = samples(self._device, ring.kind, ring.newest_us, _CAPACITY)
        if filled is Fault.NOT_FOUND:
            return Series()
        if isinstance(filled, Fault):
            return filled
        stamps_us, values = _columns(filled)
        now_s = self._clock.mono_s()
        if stepped:
            # Which samples were stamped by which time cannot be told: this drain is lost, and the next one starts here.
            self._count(stamps_us.size, "ring_stamp")
            at_hand = stamps_us[stamps_us <= (now_s - offset_s + _MARK_MARGIN_S) * 1e6]
            ring.newest_us = round(max(np.max(at_hand, initial=0.0), (now_s - offset_s) * 1e6))
            ring.newest_s = now_s
            return Series()
        t_s = stamps_us / 1e6 + offset_s
        # By the stamp, too: the offset is measured anew at each drain and wanders by microseconds.
        fresh = (stamps_us > ring.newest_us) & (t_s > ring.newest_s)
        t_s, stamps_us, values = t_s[fresh], stamps_us[fresh], ring.convert(values[fresh])
        if not t_s.size:
            return Series()
        if not (t_s[1:] >= t_s[:-1]).all():
            order = np.argsort(t_s, kind="stable")
            t_s, stamps_us, values = t_s[order], stamps_us[order], values[order]
        possible = int(np.searchsorted(t_s, now_s + _FUTURE_S, side="right"))
        self._count(t_s.size - possible, "ring_stamp")
        if not possible:
            return Series()
        t_s, values = t_s[:possible], values[:possible]
        ring.newest_s, ring.newest_us = float(t_s[-1]), round(float(stamps_us[possible - 1]))
        # A power of 0 is a sample the driver did not fill: a card that answers draws something.
        sane = (values <= ring.high()) & ((values > 0) if ring.kind == POWER else (values >= 0))
        if sane.all():
            return Series(t_s, values)
        self._count(int(np.count_nonzero(~sane)), ring.reason)
        return Series(t_s[sane], values[sane])

    def _count(self, rejected: int, reason: str) -> None:
        if rejected:
            self._device.meter.reject(reason, rejected)


def _columns(filled: Filled) -> tuple[npt.NDArray[np.float64], Floats]:
    """Return (stamps in microseconds, values) of samples whose union holds what the call said."""
    layout = _LAYOUTS.get(filled.value_type, _LAYOUTS[_UNSIGNED_INT])
    table = np.frombuffer(filled.content, layout, filled.count)
    return table["stamp"].astype(np.float64), table["value"].astype(np.float64)
