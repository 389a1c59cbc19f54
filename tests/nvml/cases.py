"""Case files as scripts of the stand-in library: the readings of a tick become the answers of the calls they stand for.

The files in tests/cases come from public bug reports of neighbouring tools; identifiers in them are made up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CASES = Path(__file__).resolve().parents[1] / "cases"
CODES = {
    "UNINITIALIZED": 1,
    "NOT_SUPPORTED": 3,
    "NOT_FOUND": 6,
    "INSUFFICIENT_SIZE": 7,
    "DRIVER_NOT_LOADED": 9,
    "FUNCTION_NOT_FOUND": 13,
    "GPU_IS_LOST": 15,
    "UNKNOWN": 999,
}
# Readings that are one number of one call (or of several calls that tell the same).
_NUMBERS = {
    "power_mw": ("GetPowerUsage", "GetFieldValue:186"),
    "power_limit_mw": ("GetEnforcedPowerLimit",),
    "energy_mj": ("GetTotalEnergyConsumption",),
    "temperature_c": ("GetTemperature",),
    "ecc_mode": ("GetEccMode",),
    "ecc": ("GetTotalEccErrors",),
    "procs": ("GetComputeRunningProcesses",),
    "proc_util": ("GetProcessUtilization",),
    "memory_v1": ("GetMemoryInfo",),
    "memory_v2": ("GetMemoryInfo_v2",),
    "utilization": ("GetUtilizationRates",),
    "remapped_rows": ("GetRemappedRows",),
    "nvlink_count": ("GetNvLinkState",),
    "name": ("GetName",),
    "everything": ("everything",),
    "handle_lookup": ("GetHandle",),
}
# NVLink byte counters of one link: fields 202 and 204, scripted by id + 1000 * (link + 1).
_NVLINK_FIELDS = {"nvlink_tx_bytes": 202, "nvlink_rx_bytes": 204}
_PCIE_COUNTERS = {"tx": 0, "rx": 1}


def case(name: str) -> dict[str, Any]:
    """Return a case file's content."""
    content: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text("utf-8"))
    return content


def cards(content: Mapping[str, Any]) -> Iterator[str]:
    """Return the lines that make a case's cards and slices."""
    for gpu in content["gpus"]:
        index = gpu["index"]
        for key, value in (
            ("uuid", gpu["uuid"]),
            ("bus_id", gpu["pci"]),
            ("minor", gpu["minor"]),
            ("name", gpu["name"]),
        ):
            yield f"card {index} {key} {value}"
        for part in gpu.get("mig", ()):
            yield f"mig {index} {part['uuid']} {part['gi']} {part['ci']} {part['name']} 0 0"


def tick(content: Mapping[str, Any], readings: Mapping[str, Any]) -> Iterator[str]:
    """Return the lines that make one tick's readings the answers from now on."""
    for gpu in content["gpus"]:
        # What an earlier tick said of everything no longer holds where this one does not say so.
        yield f"clear {gpu['index']} everything"
        yield f"clear {gpu['index']} GetHandle"
        merged = {**readings.get("all", {}), **readings.get(gpu["key"], {})}
        yield from _answers(str(gpu["index"]), merged, readings)
        for slot, part in enumerate(gpu.get("mig", ())):
            yield from _answers(f"{gpu['index']}.{slot}", readings.get(part["key"], {}), readings)


def _answers(who: str, readings: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[str]:
    for key, value in readings.items():
        if key in _NUMBERS:
            for name in _NUMBERS[key]:
                yield f"set {who} {name} {_answer(key, value)}"
        elif key == "pcie_kbps":
            for direction, rate in value.items():
                yield f"set {who} GetPcieThroughput:{_PCIE_COUNTERS[direction]} {_answer(key, rate)}"
        elif key in _NVLINK_FIELDS:
            for link, count in value.items():
                yield f"set {who} GetFieldValue:{_NVLINK_FIELDS[key] + 1000 * (int(link) + 1)} {count}"


def _answer(key: str, value: Any) -> str:
    if isinstance(value, Mapping) and "error" in value:
        return "x:fffe" if value["error"] == "DECODE" else f"!{CODES[value['error']]}"
    if key == "utilization":
        return f"{value['gpu']},{value['memory']}"
    if key in {"memory_v1", "memory_v2"}:
        return f"{value['total']},{value.get('reserved', 0)},{value['used']}"
    if key == "name":
        return f"x:{value['bytes_hex']}"
    if key == "procs":
        return ";".join(f"{row['pid']}/{row['used_bytes']}" for row in value) or "-"
    if key == "proc_util":
        return ";".join(f"{row['pid']}/{row['ts_us']}/{row['sm']}/{row['mem']}" for row in value)
    return str(value)
