"""The whole daemon from outside: first verdict, signals, release, recording, configuration, a taken port."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
from pathlib import Path

import pytest

from gpumon.recording import read
from tests.app.daemon import PROJECT, running

pytestmark = pytest.mark.realtime

SCENARIO = ("--simulate", "rtx5090-x8-ddp-bound")


def test_first_verdict_and_a_quick_end(tmp_path: Path) -> None:
    """Within 30 s of its start the daemon names the simulated job's class; SIGTERM ends it within 2 s, code 0."""
    start_s = time.monotonic()
    with running(tmp_path, *SCENARIO) as daemon:
        found = daemon.wait(lambda: [job for job in daemon.state()["jobs"] if job["class"] != "unknown"])
        assert time.monotonic() - start_s < 30
        assert found[0]["class"] == "communication"
        assert found[0]["gpus"] == list(range(8))
        assert daemon.value("node_simulated") == 1
        assert daemon.value("nvml_up") == 1
        assert daemon.stop() < 2.5
        assert daemon.process.returncode == 0
        assert not (tmp_path / "control").exists()


def test_release_lets_go_and_comes_back(tmp_path: Path) -> None:
    """`gpumon release` answers when the driver is closed; nvml_up is 0 until the time is over."""
    with running(tmp_path, *SCENARIO) as daemon:
        daemon.wait(lambda: daemon.value("nvml_up") == 1)
        done = subprocess.run(
            [sys.executable, "-m", "gpumon", "release", "--for", "3s"],
            env={**os.environ, "GPUMON_CONTROL": str(tmp_path / "control")},
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "released for 3 s: no driver call runs, no device file is open\n")
        daemon.wait(lambda: daemon.value("nvml_up") == 0, 5)
        daemon.wait(lambda: daemon.value("nvml_up") == 1, 15)


def test_release_by_signal(tmp_path: Path) -> None:
    """SIGUSR1 releases as the command does."""
    with running(tmp_path, *SCENARIO) as daemon:
        daemon.wait(lambda: daemon.value("nvml_up") == 1)
        daemon.process.send_signal(signal.SIGUSR1)
        daemon.wait(lambda: daemon.value("nvml_up") == 0, 5)


def test_interrupts_at_any_time_end_it(tmp_path: Path) -> None:
    """Report 136: SIGINT right after the start, and SIGTERM twice, end the daemon cleanly."""
    with running(tmp_path, *SCENARIO) as daemon:
        daemon.wait(lambda: daemon.port)
        assert daemon.stop(signal.SIGINT) < 2.5
        assert daemon.process.returncode == 0
    with running(tmp_path, *SCENARIO) as daemon:
        daemon.wait(lambda: daemon.value("nvml_up") == 1)
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.stop() < 2.5


def test_hangup_rereads_the_configuration(tmp_path: Path) -> None:
    """SIGHUP takes new settings; a broken file is told and changes nothing."""
    config = tmp_path / "gpumon.toml"
    config.write_text('[sampling]\nprocess_interval = "2s"\n')
    with running(tmp_path, "--config", str(config), *SCENARIO) as daemon:
        daemon.wait(lambda: daemon.value("nvml_up") == 1)
        config.write_text('[sampling]\nprocess_interval = "0s"\n')
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait(lambda: [line for line in daemon.lines if line["event"] == "configuration not reloaded"], 10)
        config.write_text("[sampling]\nexpected_gpus = 9\n")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait(lambda: daemon.value("node_gpus_expected") == 9, 10)


def test_a_recording_daemon_writes_what_it_judged(tmp_path: Path) -> None:
    """`run --record` leaves a recording that reads back to its last tick."""
    with running(tmp_path, *SCENARIO, "--record", str(tmp_path / "r")) as daemon:
        daemon.wait(lambda: daemon.value('samples_total{source="tick"}') or daemon.value("nvml_up") == 1)
        time.sleep(3)
        daemon.stop()
    ticks = list(read([tmp_path / "r"], print))
    assert len(ticks) >= 3
    assert len(ticks[-1].cards) == 8


def test_a_taken_port_is_told_and_ends_the_start(tmp_path: Path) -> None:
    """Report 130: the sentence names the address; the exit code is not 0; nothing runs on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "gpumon", "run", *SCENARIO, "--listen", f"127.0.0.1:{port}"],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 1
    assert str(port) in done.stderr
    assert "Traceback" not in done.stderr


def test_ready_comes_after_the_first_tick(tmp_path: Path) -> None:
    """Report 138: READY=1 is sent once the page has a tick, WATCHDOG=1 every second, STOPPING=1 at the end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        with running(tmp_path, *SCENARIO, NOTIFY_SOCKET=str(tmp_path / "notify")) as daemon:
            first = manager.recv(4096).decode()
            assert first.startswith("READY=1\nWATCHDOG=1")
            assert daemon.get("/-/ready") == "ready\n"
            assert manager.recv(4096).decode().startswith("WATCHDOG=1")
            daemon.stop()
        messages = []
        manager.settimeout(0.5)
        try:
            while True:
                messages.append(manager.recv(4096).decode())
        except TimeoutError:
            assert messages[-1] == "STOPPING=1"


def test_a_stopped_pipeline_serves_its_own_series_only(tmp_path: Path) -> None:
    """When ticks stop, a scrape carries no card and /-/healthy answers 503; both recover."""
    with running(tmp_path, *SCENARIO) as daemon:
        daemon.wait(lambda: daemon.value("nvml_up") == 1)
        thread = _main_thread_stopped(daemon.process.pid)
        try:
            daemon.wait(lambda: "gpumon_gpu_up" not in daemon.get("/metrics"), 20)
            assert "gpumon_build_info" in daemon.get("/metrics")
            with pytest.raises(urllib.error.HTTPError, match="503"):
                daemon.get("/-/healthy")
        finally:
            thread.send_signal(signal.SIGTERM)
            thread.wait()
        daemon.wait(lambda: "gpumon_gpu_up" in daemon.get("/metrics"), 20)


def _main_thread_stopped(pid: int) -> subprocess.Popen[bytes]:
    """Hold the main thread of a process (and no other) with ptrace until the returned child ends."""
    code = f"""
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
assert libc.ptrace(0x4206, {pid}, None, None) == 0, os.strerror(ctypes.get_errno())  # PTRACE_SEIZE
assert libc.ptrace(0x4207, {pid}, None, None) == 0, os.strerror(ctypes.get_errno())  # PTRACE_INTERRUPT
print("held", flush=True)
signal.pause()
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    return child


def test_every_command_has_help() -> None:
    """Each command of the list answers --help and takes no time to say what is wrong."""
    done = subprocess.run(
        [sys.executable, "-m", "gpumon", "--help"], cwd=PROJECT, capture_output=True, text=True, timeout=60, check=True
    )
    for command in ("run", "release", "report", "record", "replay", "topo", "doctor", "plan", "scenarios", "tenants"):
        assert re.search(rf"^\s+{command}\s+\S", done.stdout, re.MULTILINE), command
    wrong = subprocess.run(
        [sys.executable, "-m", "gpumon", "report", "--duration", "soon"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert wrong.returncode == 2
    assert "500ms, 30s, 5m" in wrong.stderr
