"""A CSV with a `t_s` column: seconds from the first sample, one line for each card and time.

Columns: gpu (index) or card (a name); power_w, util_gpu_pct or sm_util_pct, util_mem_pct or mem_util_pct,
mem_used_mib, temp_c, clk_sm_mhz or sm_clk_mhz, clk_mem_mhz or mem_clk_mhz, rx_mb_s, tx_mb_s, power_limit_w.
A file may hold several runs one after the other: where t_s falls back, a new run begins.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator

from gpumon.recording.logs.cells import number, whole
from gpumon.recording.logs.rows import RX, TX, Row

_COLUMNS: dict[str, tuple[str, float]] = {
    "power_w": ("power_watts", 1.0),
    "power_limit_w": ("power_limit_watts", 1.0),
    "util_gpu_pct": ("utilization_ratio", 0.01),
    "sm_util_pct": ("utilization_ratio", 0.01),
    "util_mem_pct": ("memory_controller_ratio", 0.01),
    "mem_util_pct": ("memory_controller_ratio", 0.01),
    "mem_used_mib": ("memory_used_bytes", 2.0**20),
    "temp_c": ("temperature_gpu_celsius", 1.0),
    "clk_sm_mhz": ("sm_clock_hertz", 1e6),
    "sm_clk_mhz": ("sm_clock_hertz", 1e6),
    "clk_mem_mhz": ("memory_clock_hertz", 1e6),
    "mem_clk_mhz": ("memory_clock_hertz", 1e6),
    "rx_mb_s": (RX, 1e6),
    "tx_mb_s": (TX, 1e6),
}


def is_header(line: str) -> bool:
    """Return True when the line names t_s and a column that is known."""
    names = _names(line)
    return "t_s" in names and any(name in _COLUMNS for name in names)


def rows(header: str, lines: Iterator[str], path: str, warn: Callable[[str], None]) -> Iterator[Row]:
    """Yield the samples, runs one behind the other."""
    names = _names(header)
    cards: dict[str, int] = {}
    offset_s = 0.0
    last_s = math.nan
    bad = 0
    for line in lines:
        cells = next(csv.reader([line]))
        named = dict(zip(names, cells, strict=False))
        t_s = number(named.get("t_s", ""), 1.0)
        if math.isnan(t_s) or len(cells) != len(names):
            bad += 1
            continue
        if t_s + offset_s < last_s - 1e-9:
            # One second between the runs: they did not overlap, and how far apart they were is not known.
            offset_s = last_s + 1.0 - t_s
        last_s = t_s + offset_s
        gpu = whole(named["gpu"]) if "gpu" in named else cards.setdefault(named.get("card", ""), len(cards))
        if gpu < 0:
            bad += 1
            continue
        values = {
            _COLUMNS[name][0]: number(cell, _COLUMNS[name][1]) for name, cell in named.items() if name in _COLUMNS
        }
        present = {key: value for key, value in values.items() if not math.isnan(value)}
        yield Row(t_s=last_s, gpu=gpu, values=present, name=named.get("card", ""))
    if bad:
        warn(f"{path}: {bad} lines do not fit the header's {len(names)} columns and were left out")


def _names(line: str) -> list[str]:
    return [cell.strip().lower() for cell in line.split(",")]
