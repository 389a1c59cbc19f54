"""The grid of values that a recording keeps. Rounding twice gives the same value as rounding once.

Steps, and why they are harmless: times 0.1 ms (polls are 20 ms and more apart); slot bytes 0.5 % of their value
(the analysis averages hundreds of slots; NVML's own unit is uncertain by 2.4 %); power 0.5 W (sensors are specified
to 5 %); ratios 0.005 (the driver counts percent); clocks 1 MHz (the driver's unit); memory 1 MiB.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gpumon.model.fields import READINGS_BY_KEY
from gpumon.model.process import HostSample
from gpumon.model.samples import CardTick, Floats, LinkSlots, Series, Tick

Codes = npt.NDArray[np.int64]
MISSING = -1  # code of NaN; every other code is >= 0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Step:
    """Equal steps of one unit; values below zero do not occur in what is recorded."""

    size: float

    def encode(self, values: Floats) -> Codes:
        """Return the nearest code of each value, MISSING for NaN."""
        missing = np.isnan(values)
        codes = np.rint(np.where(missing, 0.0, values) / self.size).astype(np.int64)
        return np.where(missing, MISSING, np.maximum(codes, 0))

    def decode(self, codes: Codes) -> Floats:
        """Return the values of the codes, NaN for MISSING."""
        return np.where(codes == MISSING, np.nan, codes * self.size)


@dataclass(frozen=True, slots=True)
class LogStep:
    """Steps of equal ratio for byte counts: 128 to a doubling, from 64 bytes upwards."""

    def encode(self, values: Floats) -> Codes:
        """Return the nearest code of each value, MISSING for NaN."""
        missing = np.isnan(values)
        scaled = np.log2(1.0 + np.where(missing, 0.0, np.maximum(values, 0.0)) / 64.0) * 128.0
        return np.where(missing, MISSING, np.rint(scaled).astype(np.int64))

    def decode(self, codes: Codes) -> Floats:
        """Return the values of the codes, NaN for MISSING."""
        return np.where(codes == MISSING, np.nan, (np.exp2(codes / 128.0) - 1.0) * 64.0)


TIME = Step(1e-4)
SLOT_BYTES = LogStep()
POWER = Step(0.5)
RATIO = Step(0.005)
CLOCK = Step(1e6)
PLAIN = Step(1.0)

_BY_UNIT: dict[str, Step] = {
    "ratio": RATIO,
    "bytes": Step(float(2**20)),
    "watts": Step(0.1),
    "joules": Step(1.0),
    "celsius": Step(1.0),
    "hertz": CLOCK,
    "seconds": Step(0.001),
    "1": PLAIN,
    "lanes": PLAIN,
    "boolean": PLAIN,
}
HOST_STEPS: dict[str, Step] = {
    **dict.fromkeys((f.name for f in fields(HostSample) if f.name.endswith("_seconds")), Step(0.001)),
    **dict.fromkeys((f.name for f in fields(HostSample) if f.name.endswith("_bytes")), Step(4096.0)),
}
SLOT_STEPS: dict[str, Step | LogStep] = {
    "rx_bytes": SLOT_BYTES,
    "tx_bytes": SLOT_BYTES,
    "power_watts": POWER,
}
SERIES_STEPS: dict[str, Step] = {
    "power": POWER,
    "utilization": RATIO,
    "memory_controller": RATIO,
    "sm_clock": CLOCK,
}


def reading_step(key: str) -> Step:
    """Return the step of a reading's unit. Raises KeyError for a key the field table does not know."""
    return _BY_UNIT[READINGS_BY_KEY[key].unit]


def on_grid(tick: Tick) -> Tick:
    """Return the tick with every recorded number moved to its grid."""
    return replace(
        tick,
        mono_s=_number(TIME, tick.mono_s),
        wall_s=round(tick.wall_s, 3),
        card_ticks=tuple(_card(card) for card in tick.card_ticks),
        host=_host(tick.host),
        processes=_rounded(tick.processes),
        events=tuple(replace(event, mono_s=_number(TIME, event.mono_s)) for event in tick.events),
    )


def _card(card: CardTick) -> CardTick:
    return replace(
        card,
        last_sample_s=_number(TIME, card.last_sample_s),
        processes_s=_number(TIME, card.processes_s),
        pcie=_slots(card.pcie),
        nvlink=_slots(card.nvlink),
        readings={key: _number(reading_step(key), value) for key, value in card.readings.items()},
        mig_memory_used_bytes={
            uuid: _number(_BY_UNIT["bytes"], value) for uuid, value in card.mig_memory_used_bytes.items()
        },
        processes=None if card.processes is None else tuple(_rounded(entry) for entry in card.processes),
        power=_series(POWER, card.power),
        utilization=_series(RATIO, card.utilization),
        memory_controller=_series(RATIO, card.memory_controller),
        sm_clock=_series(CLOCK, card.sm_clock),
    )


def _slots(slots: LinkSlots) -> LinkSlots:
    if not slots.t0_s.size:
        return slots
    return replace(
        slots,
        t0_s=_array(TIME, slots.t0_s),
        t1_s=_array(TIME, slots.t1_s),
        rx_bytes=_array(SLOT_BYTES, slots.rx_bytes),
        tx_bytes=_array(SLOT_BYTES, slots.tx_bytes),
        power_watts=_array(POWER, slots.power_watts),
    )


def _series(step: Step, series: Series) -> Series:
    if not series.t_s.size:
        return series
    return Series(t_s=_array(TIME, series.t_s), value=_array(step, series.value))


def _host(host: HostSample) -> HostSample:
    numbers = {name: _number(step, getattr(host, name)) for name, step in HOST_STEPS.items()}
    return HostSample(**numbers, aer_errors=host.aer_errors)


def _array(step: Step | LogStep, values: Floats) -> Floats:
    return step.decode(step.encode(values))


def _number(step: Step, value: float) -> float:
    return value if math.isnan(value) else max(0.0, float(np.rint(value / step.size))) * step.size


# Process values are few and recorded as they are; rounding keeps their text short. By the unit in the name.
_ROUND_BY_SUFFIX: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("_bytes", lambda value: _number(_BY_UNIT["bytes"], value)),
    ("_seconds", lambda value: round(value, 2)),
    ("_ratio", lambda value: round(value, 2)),
    ("_s", lambda value: _number(TIME, value)),
)


def _rounded(value: _T) -> _T:
    """Return a process value with its floats rounded by the unit in their names, deep through what it holds."""
    if isinstance(value, tuple):
        return tuple(_rounded(item) for item in value)  # type: ignore[return-value]  # same shape, same types
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}  # type: ignore[return-value]  # likewise
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changes: dict[str, object] = {}
    for item in fields(value):
        old = getattr(value, item.name)
        if isinstance(old, float) and not math.isnan(old):
            changes[item.name] = next((f(old) for suffix, f in _ROUND_BY_SUFFIX if item.name.endswith(suffix)), old)
        elif isinstance(old, (tuple, Mapping)):
            changes[item.name] = _rounded(old)
    return replace(value, **changes)
