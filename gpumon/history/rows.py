"""A run as a row of the file and back. NaN is NULL there."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpumon.model.past import HeldFinding, Run, SetRate, Shares
from gpumon.model.verdict import TimeSplit

_TEXTS = ("gpu_job", "workload", "tenant", "card", "topology", "strategy", "unit", "job_class")
_NUMBERS = (
    "begin_wall_s",
    "end_wall_s",
    "watched_s",
    "step_s",
    "step_spread",
    "throughput",
    "throughput_spread",
    "energy_joules_per_step",
)
_WHOLE = ("micro_batch", "accumulation")
_SPLIT = ("compute", "communication", "overlap", "memory", "host_wait", "peer_wait", "idle", "uncertainty")
_SHARES = ("own", "host", "exchange", "waiting", "hidden", "memory", "width")
COLUMNS: tuple[str, ...] = (
    *_TEXTS,
    *_NUMBERS,
    *_WHOLE,
    *_SPLIT,
    *(f"share_{name}" for name in _SHARES),
    "ended",
    "uuids",
    "gpus",
    "findings",
)
RATE_COLUMNS: tuple[str, ...] = ("uuids", "link", "gpus", "bytes_per_second", "wall_s")

Cell = str | float | int | None


def of_run(run: Run) -> tuple[Cell, ...]:
    """Return the run's cells in the order of COLUMNS."""
    split: list[Cell] = [None if run.split is None else getattr(run.split, name) for name in _SPLIT]
    shares: list[Cell] = [None if run.shares is None else getattr(run.shares, name) for name in _SHARES]
    return (
        *(getattr(run, name) for name in _TEXTS),
        *(_cell(getattr(run, name)) for name in _NUMBERS),
        *(getattr(run, name) for name in _WHOLE),
        *split,
        *shares,
        int(run.ended),
        " ".join(run.uuids),
        _gpus(run.gpus),
        " ".join(map(_finding, run.findings)),
    )


def to_run(cells: Sequence[Cell]) -> Run:
    """Return the run of a row. Raises ValueError or TypeError for a row that `of_run` did not make."""
    row = dict(zip(COLUMNS, cells, strict=True))
    states = [_number(row[name]) for name in _SPLIT]
    shares = [_number(row[f"share_{name}"]) for name in _SHARES]
    return Run(
        gpu_job=str(row["gpu_job"]),
        workload=str(row["workload"]),
        tenant=str(row["tenant"]),
        uuids=tuple(str(row["uuids"]).split()),
        gpus=_indices(row["gpus"]),
        card=str(row["card"]),
        topology=str(row["topology"]),
        strategy=str(row["strategy"]),
        begin_wall_s=_number(row["begin_wall_s"]),
        end_wall_s=_number(row["end_wall_s"]),
        watched_s=_number(row["watched_s"]),
        ended=bool(row["ended"]),
        step_s=_number(row["step_s"]),
        step_spread=_number(row["step_spread"]),
        throughput=_number(row["throughput"]),
        throughput_spread=_number(row["throughput_spread"]),
        unit=str(row["unit"]),
        micro_batch=int(_number(row["micro_batch"])),
        accumulation=int(_number(row["accumulation"])),
        split=None if any(map(math.isnan, states)) else TimeSplit(*states),
        shares=None if any(map(math.isnan, shares)) else Shares(*shares),
        energy_joules_per_step=_number(row["energy_joules_per_step"]),
        job_class=str(row["job_class"]),
        findings=tuple(map(_to_finding, str(row["findings"]).split())),
    )


def of_rate(rate: SetRate) -> tuple[Cell, ...]:
    """Return the rate's cells in the order of RATE_COLUMNS."""
    return " ".join(rate.uuids), rate.link, _gpus(rate.gpus), rate.bytes_per_second, rate.wall_s


def to_rate(cells: Sequence[Cell]) -> SetRate:
    """Return the rate of a row."""
    uuids, link, gpus, rate, wall_s = cells
    return SetRate(tuple(str(uuids).split()), _indices(gpus), str(link), _number(rate), _number(wall_s))


def _finding(held: HeldFinding) -> str:
    """Return "no_accumulation:1.2:1.9", or the name alone where no gain was promised."""
    return ":".join((held.finding, *(f"{edge:g}" for edge in held.gain or ())))


def _to_finding(word: str) -> HeldFinding:
    name, *edges = word.split(":")
    if not edges:
        return HeldFinding(name)
    low, high = map(float, edges)
    return HeldFinding(name, (low, high))


def _cell(value: float) -> Cell:
    return None if math.isnan(value) else value


def _number(cell: Cell) -> float:
    return math.nan if cell is None else float(cell)


def _gpus(indices: Sequence[int]) -> str:
    return " ".join(str(index) for index in indices)


def _indices(cell: Cell) -> tuple[int, ...]:
    return tuple(int(word) for word in str(cell).split())
