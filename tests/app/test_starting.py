"""Signals that come while the daemon still starts, also for the first process of a container."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
RUN = (sys.executable, "-m", "gpumon", "run", "--simulate", "rtx5090-x8-ddp-bound", "--listen", "127.0.0.1:0")


@pytest.mark.tools
def test_the_first_process_of_a_container_stops_while_it_starts(tmp_path: Path) -> None:
    """Report 136: SIGTERM is heard long before the daemon serves, and ends the start with code 0."""
    process = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", *RUN],
        cwd=PROJECT,
        env={**os.environ, "GPUMON_CONTROL": str(tmp_path / "control")},
        stderr=subprocess.PIPE,
        text=True,
    )
    until_s = time.monotonic() + 30
    while not (pid := hears_sigterm(process.pid)):
        assert time.monotonic() < until_s
        time.sleep(0.005)
    os.kill(pid, signal.SIGTERM)
    _, said = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "serves" not in said


def hears_sigterm(parent: int) -> int:
    """Return the child of a process once it has a handler for SIGTERM, else 0."""
    try:
        (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()
        status = Path(f"/proc/{child}/status").read_text("utf-8")
    except (OSError, ValueError):  # not there yet
        return 0
    caught = int(status.partition("SigCgt:\t")[2][:16], 16)
    return int(child) if caught >> (signal.SIGTERM - 1) & 1 else 0


def test_a_hangup_while_starting_is_outlived() -> None:
    """SIGHUP before there is a configuration to reread ends nothing; SIGTERM does, with code 0."""
    code = """
import importlib, os, signal, time
importlib.import_module("gpumon.cli.main")._mind_signals_while_starting()
os.kill(os.getpid(), signal.SIGHUP)
print("here", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(5)
os._exit(7)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, check=False, timeout=60)
    assert done.stdout == b"here\n"
    assert done.returncode == 0
