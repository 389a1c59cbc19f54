"""Reported kinds SCHED and LIFE: timers that hang, clocks and zones that lie, and an end that always comes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpumon.app.service_manager import notify
from gpumon.app.timers import Timers
from tests.app.daemon import PROJECT, running
from tests.standin.library import ControlFile, build


def until(condition: Callable[[], bool]) -> None:
    """Wait for something another thread is about to do."""
    deadline_s = time.monotonic() + 5.0
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen within 5 s"
        threading.Event().wait(0.002)


def within(seconds: float, act: Callable[[], None]) -> None:
    """Fail when the call has not come back after so long."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"{act} hangs"


def test_a_hung_timer_holds_nobody_up() -> None:
    """Reports 118 and 120: a timer that never returns is not started twice, holds no other timer and no stop."""
    gate, hung, others = threading.Event(), [], []

    def hang() -> None:
        hung.append(1)
        gate.wait(30)

    with capture_logs() as lines:
        timers = Timers({"hang": (3600.0, hang), "other": (3600.0, lambda: others.append(1))})
        timers.start()
        for round_number in range(1, 4):
            within(2.0, timers.clock_stepped)
            until(lambda: len(others) >= round_number)  # noqa: B023 (used at once)
        assert len(hung) == 1
        within(2.0, timers.stop)
    assert [line["timer"] for line in lines] == ["hang"]
    gate.set()


def test_a_timer_that_came_back_runs_again() -> None:
    """Report 118: after its hang a timer is started again without a restart."""
    gate, runs = threading.Event(), []

    def slow() -> None:
        runs.append(1)
        gate.wait(30)

    timers = Timers({"slow": (3600.0, slow)})
    timers.start()
    timers.clock_stepped()
    until(lambda: len(runs) == 1)
    gate.set()

    def again() -> bool:
        timers.clock_stepped()
        return len(runs) == 2

    until(again)
    timers.stop()


def test_ready_in_the_abstract_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report 138: a notification socket in the abstract namespace hears what is told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0gpumon-test-{os.getpid()}")
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@gpumon-test-{os.getpid()}")
        notify("READY=1", "STATUS=x")
        assert manager.recv(100) == b"READY=1\nSTATUS=x"


@pytest.mark.realtime
@pytest.mark.tools
def test_a_hung_driver_keeps_nothing_alive(tmp_path: Path) -> None:
    """Reports 105 and 118: with every call stuck in the driver, health says so, and SIGTERM ends it, code 0."""
    library = ControlFile(tmp_path, build(tmp_path, 595))
    library.apply("card 0 minor 0", "card 1 minor 1")
    with running(tmp_path, **library.environment) as daemon:
        daemon.wait(lambda: daemon.value("nvml_up") == 1)
        threads = len(list(Path(f"/proc/{daemon.process.pid}/task").iterdir()))
        library.apply("set * everything hang")
        daemon.wait(lambda: _status(daemon.port, "/-/healthy") == 503, 20)
        for _ in range(1000):
            assert _status(daemon.port, "/metrics") == 200
        assert len(list(Path(f"/proc/{daemon.process.pid}/task").iterdir())) <= threads + 2
        assert "no card has answered" in _body(daemon.port, "/-/healthy")
        assert daemon.stop() < 5
        assert daemon.process.returncode == 0


def _body(port: int, path: str) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: client.recv(65536), b"")).decode()


def _status(port: int, path: str) -> int:
    return int(_body(port, path).split()[1])


@pytest.mark.realtime
@pytest.mark.parametrize("zone", ["Nonsense/Zone", ":UTC"])
def test_any_time_zone_and_utc_in_the_log(tmp_path: Path, zone: str) -> None:
    """Report 119: whatever TZ says, the daemon starts, and its log is in UTC."""
    with running(tmp_path, "--simulate", "rtx4090-x2-ddp-bound", TZ=zone) as daemon:
        daemon.wait(lambda: daemon.port)
        assert str(daemon.lines[0]["timestamp"]).endswith("Z")
        daemon.stop()


_BROKEN = """
import sys
from gpumon.sampling import Sampler
def broken(self):
    raise RuntimeError("boom")
Sampler.next_tick = broken
from gpumon.cli.main import main
sys.exit(main(["run", "--simulate", "rtx4090-x2-ddp-bound", "--listen", "127.0.0.1:0"]))
"""


@pytest.mark.realtime
def test_a_broken_main_loop_ends_the_process() -> None:
    """Report 137: when the loop fails, no other thread keeps a process alive that watches nothing."""
    done = subprocess.run([sys.executable, "-c", _BROKEN], cwd=PROJECT, capture_output=True, timeout=30, check=False)
    assert done.returncode not in (0, None)


_MODULES = {
    "lacking": "class NVMLError(Exception):\n    value = 0\n",
    "warning": "import warnings\nwarnings.warn('use another package', FutureWarning)\n",
    "none": "raise ModuleNotFoundError(\"No module named 'pynvml'\")\n",
}


@pytest.mark.realtime
@pytest.mark.parametrize("kind", _MODULES)
def test_another_module_of_the_bindings_name(tmp_path: Path, kind: str) -> None:
    """Report 141: with a module that lacks things, warns, or is not there, one sentence says so: never a traceback."""
    (tmp_path / "pynvml.py").write_text(_MODULES[kind], "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-m", "gpumon", "run", "--listen", "127.0.0.1:0"],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{PROJECT}", "GPUMON_CONTROL": str(tmp_path / "control")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "nvidia-ml-py" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
