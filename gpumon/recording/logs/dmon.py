"""`nvidia-smi dmon` text: "# gpu pwr gtemp ..." headers that repeat, "-" for what is missing, stamps with -o T or D.

Without stamps (no -o) the period is not in the log; dmon's default of one second is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from gpumon.recording.logs.cells import number, whole
from gpumon.recording.logs.query_csv import Stamps
from gpumon.recording.logs.rows import RX, TX, Row

# dmon's column -> reading and factor. Columns without a place here (encoders, BAR1, ...) are read over.
_COLUMNS: dict[str, tuple[str, float]] = {
    "pwr": ("power_watts", 1.0),
    "gtemp": ("temperature_gpu_celsius", 1.0),
    "temp": ("temperature_gpu_celsius", 1.0),
    "mtemp": ("temperature_memory_celsius", 1.0),
    "sm": ("utilization_ratio", 0.01),
    "mem": ("memory_controller_ratio", 0.01),
    "mclk": ("memory_clock_hertz", 1e6),
    "pclk": ("sm_clock_hertz", 1e6),
    "fb": ("memory_used_bytes", 2.0**20),
    "rxpci": (RX, 1e6),
    "txpci": (TX, 1e6),
    "pci": ("pcie_replays", 1.0),
    "smutil": ("sm_active_ratio", 0.01),
    "smocc": ("sm_occupancy_ratio", 0.01),
    "tensor": ("tensor_active_ratio", 0.01),
    "dram": ("dram_active_ratio", 0.01),
}
_DEFAULT_PERIOD_S = 1.0
_DAY_S = 86400.0


def is_header(line: str) -> bool:
    """Return True for the first header line: "# gpu ...", with Date and Time before it where asked for."""
    return line.startswith("#") and "gpu" in line.lower().split()[:4]


def rows(header: str, lines: Iterator[str], path: str, warn: Callable[[str], None]) -> Iterator[Row]:
    """Yield the samples. A repeated header may name other columns; lines that do not fit are counted and told once."""
    names = _names(header)
    stamps = Stamps()
    sample = -1
    seen: set[int] = set()
    bad = 0
    for line in lines:
        if line.startswith("#"):
            if is_header(line):
                names = _names(line)
            continue  # the second header line holds units
        cells = line.split()
        named = dict(zip(names, cells, strict=False))
        gpu = whole(named.get("gpu", ""))
        if gpu < 0 or len(cells) != len(names):
            bad += 1
            continue
        if gpu in seen or sample < 0:
            sample, seen = sample + 1, set()
        seen.add(gpu)
        stamp = _stamp(named)
        t_s = sample * _DEFAULT_PERIOD_S if math.isnan(stamp) else stamps.seconds(stamp)
        values = {
            _COLUMNS[name][0]: number(cell, _COLUMNS[name][1]) for name, cell in named.items() if name in _COLUMNS
        }
        yield Row(t_s=t_s, gpu=gpu, values={key: value for key, value in values.items() if not math.isnan(value)})
    if bad:
        warn(f"{path}: {bad} lines do not fit their header and were left out")


def _names(header: str) -> list[str]:
    return [name.lower().removeprefix("#") for name in header.replace("#", "# ", 1).split() if name != "#"]


def _stamp(named: dict[str, str]) -> float:
    """Return seconds of the -o T and -o D columns, NaN without them. Midnight without a date counts as a jump."""
    time = [whole(part) for part in named.get("time", "").split(":")]
    if len(time) != 3 or min(time) < 0:
        return math.nan
    date = named.get("date", "")
    days = float(date) if len(date) == 8 and date.isdigit() else 0.0
    return days * _DAY_S + time[0] * 3600.0 + time[1] * 60.0 + time[2]
