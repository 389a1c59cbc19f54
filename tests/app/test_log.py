"""Logging never raises, never blocks, writes valid lines, hides secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from gpumon.app.log import printable


class Hostile:
    """An object whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def test_every_value_becomes_a_json_line() -> None:
    """Report 142: bytes, NaN, surrogates, odd keys, loops and hostile objects become text."""
    loop: list[object] = []
    loop.append(loop)
    event = {
        "bytes": b"\xff\xf0",
        "nan": float("nan"),
        "surrogate": "\udca0",
        7: "int key",
        None: "none key",
        "loop": loop,
        "object": Hostile(),
        "array": np.arange(3),
        "huge": "x" * 10_000_000,
        "error": ValueError("chained"),
    }
    line = json.dumps(printable(event))
    assert len(line) < 10_000
    assert json.loads(line)["nan"] == "nan"
    line.encode("utf-8")


def test_secrets_are_hidden() -> None:
    """Values whose key speaks of a secret are not written."""
    shown = printable({"api_token": "abc", "password": "abc", "cmdline": "abc", "gpu": 3})
    assert "abc" not in json.dumps(shown)
    assert shown["gpu"] == 3


def _run(code: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run([sys.executable, "-c", code], env=environ, timeout=60, check=False, **options)  # type: ignore[call-overload]


LOG = """
import structlog
from gpumon.app import log
log.configure("info", "json")
logger = structlog.get_logger()
for n in range({count}):
    logger.info(f"line {{n}}", n=n, blob=b"x", key="y" * {size})
log.drain(2.0)
print("done", log.dropped_lines())
"""


def test_lines_are_json_on_standard_error() -> None:
    """Each line of a service's log is one JSON object."""
    done = _run(LOG.format(count=3, size=1), capture_output=True)
    assert done.stdout == b"done 0\n"
    assert [json.loads(line)["n"] for line in done.stderr.splitlines()] == [0, 1, 2]


def test_a_closed_or_stuck_reader_costs_lines_only() -> None:
    """With standard error closed, full, or a pipe that nobody reads, the caller goes on and drops are counted."""
    closed = _run("import os; os.close(2)\n" + LOG.format(count=5, size=1), stdout=subprocess.PIPE)
    assert closed.stdout == b"done 5\n"
    with Path("/dev/full").open("wb") as full:
        assert _run(LOG.format(count=5, size=1), stdout=subprocess.PIPE, stderr=full).stdout == b"done 5\n"
    reading, writing = os.pipe()
    stuck = _run(LOG.format(count=3000, size=1000), stdout=subprocess.PIPE, stderr=writing)
    os.close(reading)
    os.close(writing)
    assert int(stuck.stdout.split()[1]) >= 1000
