"""A daemon as a child process, for tests that watch it from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]


class Running:
    """A started daemon: its process, port, and log lines so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.lines.append({"event": line.decode("utf-8", "replace")})

    @property
    def port(self) -> int:
        """The port it serves on."""
        return int(next(line["port"] for line in self.lines if "port" in line))

    def wait(self, condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Return the first true value of the condition; fail with the log when there is none in time."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            assert self.process.poll() is None, self.lines
            with contextlib.suppress(OSError, StopIteration, urllib.error.HTTPError):
                if value := condition():
                    return value
            time.sleep(0.05)
        raise AssertionError(f"not within {timeout_s} s; log: {self.lines}")

    def get(self, path: str) -> str:
        """Return a document."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def state(self) -> dict[str, Any]:
        """Return /api/v1/state."""
        return dict(json.loads(self.get("/api/v1/state")))

    def value(self, series: str) -> float | None:
        """Return the value of a series of /metrics, written with its labels; None when it is not there."""
        prefix = f"gpumon_{series} "
        return next(
            (float(line.split()[-1]) for line in self.get("/metrics").splitlines() if line.startswith(prefix)), None
        )

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Send a signal and return how long the end took."""
        start_s = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(20)
        return time.monotonic() - start_s


@contextlib.contextmanager
def running(folder: Path, *args: str, **environ: str) -> Iterator[Running]:
    """Start `gpumon run` with its own control socket; kill it at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gpumon", "run", "--listen", "127.0.0.1:0", *args],
        cwd=PROJECT,
        env={
            **os.environ,
            "GPUMON_CONTROL": str(folder / "control"),
            "STATE_DIRECTORY": str(folder / "state"),
            **environ,
        },
        stderr=subprocess.PIPE,
    )
    daemon = Running(process)
    try:
        yield daemon
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
