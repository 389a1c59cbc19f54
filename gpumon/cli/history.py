"""`gpumon history`: the runs remembered on this node, as a table, JSON or CSV; and forgetting a tenant."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timezone

from gpumon.cli.arguments import Subparsers
from gpumon.config import load
from gpumon.history import Store, file_in, folder_of
from gpumon.history.store import read
from gpumon.model.errors import GpumonError
from gpumon.model.past import Run
from gpumon.model.settings import HistorySettings
from gpumon.model.verdict import TIME_STATES, Outcome
from gpumon.scaling.outcome import came_true
from gpumon.ui.phrases import brought, ranges

_HEAD = ("LAST SEEN", "TENANT", "WORKLOAD", "CARDS", "GPUS", "STRATEGY", "STEP", "THROUGHPUT", "ENERGY/STEP", "CLASS")
# Columns of CSV and keys of JSON, in this order; a figure that is missing is empty there and null here.
_FIELDS = (
    "gpu_job",
    "tenant",
    "workload",
    "gpu_count",
    "gpus",
    "card",
    "topology",
    "strategy",
    "begin",
    "end",
    "watched_seconds",
    "step_seconds",
    "throughput_per_second",
    "throughput_unit",
    "energy_joules_per_step",
    "class",
    *(f"time_ratio_{state}" for state in TIME_STATES),
    "findings",
    "changed",
    "gain_expected_low",
    "gain_expected_high",
    "gain_seen",
    "gain_evidence",
    "gain_result",
)


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser("history", help="runs seen before on this node", description=__doc__)
    parser.add_argument("--config", metavar="FILE", help="configuration; default /etc/gpumon/gpumon.toml if it exists")
    parser.add_argument("--forget", metavar="TENANT", help="delete every run of this tenant")
    parser.add_argument("--format", choices=("text", "json", "csv"), default="text", help="text (default), json or csv")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the runs, newest first, or delete a tenant's; 1 where the history cannot be read or written."""
    config = load(args.config, os.environ)
    if config.history is None:
        raise GpumonError("history.enabled = false: this node remembers nothing")
    path = file_in(folder_of(config.history, os.environ))
    if args.forget is not None:
        print(_forgotten(args.forget, config.history))
        return 0
    if not path.exists():
        runs: list[Run] = []
    else:
        runs, _ = read(path)
    if args.format == "json":
        print(
            json.dumps(
                {"schema": 1, "runs": [_fields(one, came_true(one, runs)) for one in runs]}, indent=2, allow_nan=False
            )
        )
    elif args.format == "csv":
        sys.stdout.write(_csv(runs))
    else:
        sys.stdout.write(table(runs))
    return 0


def _forgotten(tenant: str, settings: HistorySettings) -> str:
    path = file_in(folder_of(settings, os.environ))
    if not path.exists():
        raise GpumonError(f"{path} does not exist: nothing is remembered of {tenant!r}")
    with closing(Store.open(path, settings, time.time())) as store:
        count = store.forget(tenant)
    return f"{count} {'run' if count == 1 else 'runs'} of {tenant} deleted from {path}."


def table(runs: Sequence[Run]) -> str:
    """Return the runs as a table, one line each."""
    if not runs:
        return "No run is remembered yet.\n"
    rows = [_HEAD, *(_row(one) for one in runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    outcomes = [(one, came_true(one, runs)) for one in runs]
    said = [
        f"{_time(one.end_wall_s)}  {one.tenant}  {one.workload[:8]}: {brought(found)}"
        for one, found in outcomes
        if found is not None
    ]
    return "\n".join([*lines, *(["", "What changes brought", *said] if said else [])]) + "\n"


def _row(one: Run) -> tuple[str, ...]:
    step = "-" if math.isnan(one.step_s) else f"{one.step_s:.3g} s"
    throughput = "-" if math.isnan(one.throughput) else f"{one.throughput:.4g} {one.unit}/s"
    energy = "-" if math.isnan(one.energy_joules_per_step) else f"{one.energy_joules_per_step:.4g} J"
    return (
        _time(one.end_wall_s),
        one.tenant,
        one.workload[:8] or "-",
        str(one.count),
        ranges(one.gpus),
        one.strategy or "-",
        step,
        throughput,
        energy,
        one.job_class or "-",
    )


def _fields(one: Run, outcome: Outcome | None) -> dict[str, object]:
    split = None if one.split is None else one.split
    values: tuple[object, ...] = (
        one.gpu_job,
        one.tenant,
        one.workload or None,
        one.count,
        list(one.gpus),
        one.card or None,
        one.topology or None,
        one.strategy or None,
        _time(one.begin_wall_s),
        _time(one.end_wall_s),
        round(one.watched_s, 1),
        _number(one.step_s),
        _number(one.throughput),
        one.unit or None,
        _number(one.energy_joules_per_step),
        one.job_class or None,
        *(None if split is None else round(getattr(split, state), 4) for state in TIME_STATES),
        [held.finding for held in one.findings],
        *_outcome(outcome),
    )
    return dict(zip(_FIELDS, values, strict=True))


def _outcome(outcome: Outcome | None) -> tuple[object, ...]:
    if outcome is None:
        return [], None, None, None, None, None
    low, high = outcome.expected
    return list(outcome.findings), low, high, round(outcome.seen, 3), outcome.evidence, outcome.result


def _csv(runs: Sequence[Run]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, _FIELDS, lineterminator="\n")
    writer.writeheader()
    for one in runs:
        row = _fields(one, came_true(one, runs))
        lists = {name: " ".join(map(str, value)) for name, value in row.items() if isinstance(value, list)}
        writer.writerow(row | lists)
    return text.getvalue()


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")


def _time(wall_s: float) -> str:
    if math.isnan(wall_s):
        return "-"
    return datetime.fromtimestamp(wall_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
