"""Logs that people already have: nvidia-smi --query-gpu CSV, nvidia-smi dmon text, tables with a t_s column.

A missing column is a missing signal. Nothing is filled in: the verdicts say less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from gpumon.model.errors import RecordingError
from gpumon.model.samples import Tick
from gpumon.recording.logs import dmon, query_csv, table
from gpumon.recording.logs.rows import to_ticks

MAX_LINE = 1 << 16


def read_log(path: Path, warn: Callable[[str], None]) -> Iterator[Tick]:
    """Yield ticks from a log. The format is told by its first line.

    Raises: RecordingError when no format fits, naming those that are known.
    """
    lines = _lines(path, warn)
    first = next(lines, "")
    if dmon.is_header(first):
        rows = dmon.rows(first, lines, str(path), warn)
    elif query_csv.is_header(first):
        rows = query_csv.rows(first, lines, str(path), warn)
    elif table.is_header(first):
        rows = table.rows(first, lines, str(path), warn)
    elif "," in first and first.isprintable():
        warn(f"{path}: line 1 names no column t_s or timestamp: a table of results, not of samples; nothing to replay")
        return
    else:
        raise RecordingError(
            f"{path}: line 1: {first[:60]!r} begins no known log: expected a gpumon recording, the header of "
            "nvidia-smi --query-gpu CSV (with timestamp), nvidia-smi dmon text, or a CSV with a t_s column"
        )
    yield from to_ticks(rows)


def _lines(path: Path, warn: Callable[[str], None]) -> Iterator[str]:
    """Yield lines without their ends, skipping what is no text. A byte-order mark is taken off."""
    skipped = 0
    with path.open(encoding="utf-8-sig", errors="replace", newline=None) as file:
        while line := file.readline(MAX_LINE):
            text = line.rstrip("\n")
            if "\0" in text or len(line) == MAX_LINE:
                skipped += 1
            elif text.strip():
                yield text
    if skipped:
        warn(f"{path}: {skipped} lines hold binary data or are longer than {MAX_LINE} characters and were left out")
