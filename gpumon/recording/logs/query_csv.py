"""`nvidia-smi --query-gpu=timestamp,index,... --format=csv[,nounits]`: a header, then a line for each card and time.

Stamps are the host's local time and may jump (summer time, NTP). Time goes on by the log's own period where they do.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from datetime import datetime

from gpumon.model.fields import THROTTLE_REASONS, THROTTLE_UNKNOWN
from gpumon.recording.logs.cells import number, whole
from gpumon.recording.logs.rows import Row

# Column of nvidia-smi (without its [unit]) -> reading and the factor of a bare number.
_COLUMNS: dict[str, tuple[str, float]] = {
    "utilization.gpu": ("utilization_ratio", 0.01),
    "utilization.memory": ("memory_controller_ratio", 0.01),
    "memory.used": ("memory_used_bytes", 2.0**20),
    "memory.total": ("memory_total_bytes", 2.0**20),
    "memory.reserved": ("memory_reserved_bytes", 2.0**20),
    "power.draw": ("power_watts", 1.0),
    "power.draw.average": ("power_watts", 1.0),
    "power.draw.instant": ("power_watts", 1.0),
    "power.limit": ("power_limit_watts", 1.0),
    "enforced.power.limit": ("power_limit_watts", 1.0),
    "power.default_limit": ("power_default_limit_watts", 1.0),
    "temperature.gpu": ("temperature_gpu_celsius", 1.0),
    "temperature.memory": ("temperature_memory_celsius", 1.0),
    "clocks.sm": ("sm_clock_hertz", 1e6),
    "clocks.current.sm": ("sm_clock_hertz", 1e6),
    "clocks.mem": ("memory_clock_hertz", 1e6),
    "clocks.current.memory": ("memory_clock_hertz", 1e6),
    "clocks.max.sm": ("sm_clock_max_hertz", 1e6),
    "clocks.max.memory": ("memory_clock_max_hertz", 1e6),
    "pcie.link.gen.current": ("link_generation", 1.0),
    "pcie.link.gen.gpucurrent": ("link_generation", 1.0),
    "pcie.link.gen.max": ("link_generation_max", 1.0),
    "pcie.link.width.current": ("link_width_lanes", 1.0),
    "pcie.link.width.max": ("link_width_max_lanes", 1.0),
}
_REASON_COLUMNS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_STAMPS = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S")
# A step back, or forward by more than this, is the clock's doing or a pause; it counts as one period.
_JUMP_S = 600.0
# Cards of one pass are stamped milliseconds apart; only longer steps tell the log's period.
_SAME_PASS_S = 0.05


def is_header(line: str) -> bool:
    """Return True for the first line of such a log."""
    names = _names(line)
    return "timestamp" in names and any(name in _COLUMNS for name in names)


def rows(header: str, lines: Iterator[str], path: str, warn: Callable[[str], None]) -> Iterator[Row]:
    """Yield the samples. Lines that do not fit the header are counted and told once."""
    names = _names(header)
    steps = Stamps()
    bad = 0
    order = -1  # without an index column the cards follow each other within one stamp
    last_stamp = ""
    for line in lines:
        cells = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]
        if _names(line) == names:
            continue  # the header again, where logs were joined
        named = dict(zip(names, cells, strict=False))
        stamp = parse_stamp(named.get("timestamp", ""))
        if len(cells) != len(names) or stamp is None:
            bad += 1
            continue
        order = 0 if named["timestamp"] != last_stamp else order + 1
        last_stamp = named["timestamp"]
        gpu = whole(named["index"]) if "index" in named else order
        if gpu < 0:
            bad += 1
            continue
        yield _row(steps.seconds(stamp), gpu, named)
    if bad:
        warn(f"{path}: {bad} lines do not fit the header's {len(names)} columns and were left out")


class Stamps:
    """Local stamps to seconds from the first, never going back."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._now_s = 0.0
        self._period_s = 1.0

    def seconds(self, stamp: float) -> float:
        """Return seconds since the first stamp. A jump of the clock counts as one period of the log."""
        if self._last is not None and stamp != self._last:
            step = stamp - self._last
            if not 0 < step < _JUMP_S:
                step = self._period_s
            elif step > _SAME_PASS_S:
                self._period_s = step
            self._now_s += step
        self._last = stamp
        return self._now_s


def parse_stamp(text: str) -> float | None:
    """Return seconds of a local stamp; only differences mean anything. None when it is no stamp."""
    for form in _STAMPS:
        try:
            return (datetime.strptime(text, form) - datetime(1970, 1, 1)).total_seconds()
        except ValueError:
            continue
    return None


def _names(line: str) -> list[str]:
    return [cell.partition("[")[0].strip().lower() for cell in line.split(",")]


def _row(t_s: float, gpu: int, named: dict[str, str]) -> Row:
    values: dict[str, float] = {}
    for name, cell in named.items():
        if name in _COLUMNS:
            key, factor = _COLUMNS[name]
            value = number(cell, factor)
            if not math.isnan(value):
                values[key] = value
    return Row(
        t_s=t_s,
        gpu=gpu,
        values=values,
        name=named.get("name", named.get("gpu_name", "")),
        uuid=named.get("uuid", named.get("gpu_uuid", "")),
        throttle_reasons=_reasons(next((named[name] for name in _REASON_COLUMNS if name in named), "")),
    )


def _reasons(cell: str) -> frozenset[str]:
    try:
        mask = int(cell, 16) if cell.startswith("0x") else 0
    except ValueError:
        return frozenset()
    bits = [1 << n for n in range(64) if mask >> n & 1]
    return frozenset(THROTTLE_REASONS.get(bit, THROTTLE_UNKNOWN) for bit in bits)
