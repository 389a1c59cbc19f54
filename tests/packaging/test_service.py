"""The unit as shipped, under real systemd: ready, watched, stopped, reloaded, restarted, upgraded, purged."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tests.packaging.container import Booted

pytestmark = [pytest.mark.tools, pytest.mark.realtime]

SIMULATED = "ExecStart=\nExecStart=/usr/bin/gpumon run --simulate rtx5090-x8-ddp-bound"
SOON = "RestartSec=200ms"  # shipped: 5 s


def test_ready_reload_crash_watchdog_and_stop(node: Booted) -> None:
    """Ready comes with the first tick; SIGHUP rereads; a crash and a hang are restarted; a stop takes 2 s."""
    node.drop_in(f"{SIMULATED}\n{SOON}\nWatchdogSec=3")
    # `systemctl restart` has waited for READY=1, so the first tick must be out.
    assert node.page("/-/ready") == "ready\n"
    assert "gpumon_node_simulated 1" in node.page("/metrics")
    assert "8 of 8 cards answer" in node.property("StatusText")

    node.write("/etc/gpumon/gpumon.toml", '[sampling]\nprocess_interval = "2s"\n')
    node.call("systemctl", "reload", "gpumon.service")
    node.wait(lambda: "configuration reloaded" in node.journal(), "the reload")

    first = node.main_pid()
    node.signal("SEGV", first)
    second = node.wait(lambda: _restarted(node, first), "the restart after a crash")
    node.signal("STOP", second)
    node.wait(lambda: _restarted(node, second), "the restart after a hang")
    assert "Watchdog timeout" in node.call("journalctl", "--no-pager", "--unit=gpumon.service")
    assert node.property("NRestarts") == "2"

    start_s = time.monotonic()
    node.call("systemctl", "stop", "gpumon.service")
    assert time.monotonic() - start_s < 2.0
    assert node.property("Result") == "success"


def _restarted(node: Booted, before: str) -> str:
    """Return the new main process once the service is ready again."""
    pid = node.main_pid()
    return pid if pid not in ("0", before) and node.property("ActiveState") == "active" else ""


def test_a_driver_that_comes_after_the_start(node: Booted, driver: Path) -> None:
    """Started before driver and device nodes, the service says so, and comes up when both are there."""
    assert node.property("ActiveState") == "active"
    assert "gpumon_nvml_up 0" in node.page("/metrics")
    node.write("/etc/systemd/system/gpumon.service.d/test.conf", f"[Service]\n{_STANDIN}\n")
    node.call("systemctl", "daemon-reload")
    node.call("systemctl", "restart", "gpumon.service")
    assert "driver_not_loaded" in node.journal()
    before = node.main_pid()

    _device_nodes(node)
    # NVIDIA's major number has no driver on this machine: ENXIO says that the control group let the call through.
    assert _opened_by_the_service(node, "/dev/nvidia0") == "ENXIO"
    assert _opened_by_the_service(node, "/dev/other") == "EPERM"
    node.write("/run/standin.script", "card 0 minor 0\ncard 1 minor 1\n")
    node.copy(driver, "/usr/lib/libnvidia-ml.so.1")
    node.wait(lambda: "gpumon_nvml_up 1" in node.page("/metrics"), "the driver", 90)
    node.wait(lambda: node.page("/metrics").count("\ngpumon_gpu_up{") == 2, "both cards")
    assert node.main_pid() == before


def test_a_hung_card_stops_neither_the_others_nor_the_service(node: Booted, driver: Path) -> None:
    """A driver call that never returns: its card is down, the other is measured, and a stop takes less than 3 s."""
    node.write("/run/standin.script", "card 0 minor 0\ncard 1 minor 1\n")
    node.copy(driver, "/usr/lib/libnvidia-ml.so.1")
    node.drop_in(_STANDIN)
    node.wait(lambda: node.page("/metrics").count("\ngpumon_gpu_temperature_celsius{") == 2, "both cards")
    node.write("/run/standin.script", "card 0 minor 0\ncard 1 minor 1\nset 0 everything hang\n")
    node.wait(lambda: _up(node) == {"0": "0", "1": "1"}, "the card's fault")
    assert node.page("/-/healthy") == "healthy\n"
    assert node.property("NRestarts") == "0"
    start_s = time.monotonic()
    node.call("systemctl", "stop", "gpumon.service")
    assert time.monotonic() - start_s < 3.0
    assert node.property("Result") == "success"


def _up(node: Booted) -> dict[str, str]:
    """Return which card answers: index -> 0 or 1."""
    return dict(re.findall(r'gpumon_gpu_up\{gpu="(\d)"[^}]*\} (\d)', node.page("/metrics")))


# The stand-in driver reads what cards there are from a file.
_STANDIN = "Environment=STANDIN_SCRIPT=/run/standin.script"


def _device_nodes(node: Booted) -> None:
    """Make the driver's nodes as nvidia-modprobe does, and one of another driver."""
    for name, minor in (("nvidia0", 0), ("nvidia1", 1), ("nvidiactl", 255)):
        node.call("mknod", "--mode=666", f"/dev/{name}", "c", "195", str(minor))
    node.call("mknod", "--mode=666", "/dev/other", "c", "511", "0")


def _opened_by_the_service(node: Booted, path: str) -> str:
    """Return how opening a file ends for a process in the service's control group: an error's name, or "open"."""
    return node.python(
        "import errno, os, pathlib\n"
        "group = pathlib.Path('/sys/fs/cgroup/system.slice/gpumon.service/cgroup.procs')\n"
        "group.write_text(str(os.getpid()))\n"
        f"try: os.open({path!r}, os.O_RDWR); print('open', end='')\n"
        "except OSError as error: print(errno.errorcode[error.errno], end='')\n"
    )


@pytest.mark.parametrize(
    ("denied", "what", "remedy"),
    [
        ("DeviceAllow=", "devices", "DeviceAllow=char-195 rw"),
        ("PrivateDevices=yes", "devices", "PrivateDevices=no"),
        ("ProtectProc=invisible", "processes", "ProtectProc=default"),
        ("InaccessiblePaths=/sys/fs/cgroup", "control_groups", "ProtectControlGroups=yes"),
    ],
)
def test_what_a_sandbox_hides_is_named(node: Booted, driver: Path, denied: str, what: str, remedy: str) -> None:
    """Report 139: each thing taken away gives its own sentence with its remedy, and the rest works."""
    _device_nodes(node)
    # The real library answers NO_PERMISSION where it cannot open the control node.
    node.write("/run/standin.script", "set * Init !4\n" if what == "devices" else "card 0 minor 0\n")
    node.copy(driver, "/usr/lib/libnvidia-ml.so.1")
    if denied.startswith("PrivateDevices"):
        node.write("/run/driver/nvidia/version", "NVRM version\n")
        denied += "\nBindReadOnlyPaths=/run/driver:/proc/driver"
    node.drop_in(f"{_STANDIN}\n{denied}")
    lines = [json.loads(line) for line in node.journal().splitlines() if line.startswith("{")]
    hidden = {line["hidden"]: line["event"] for line in lines if "hidden" in line}
    assert list(hidden) == [what]
    assert remedy in hidden[what]
    expected = "gpumon_nvml_up 0" if what == "devices" else "gpumon_gpu_temperature_celsius{"
    node.wait(lambda: expected in node.page("/metrics"), expected)
    start_s = time.monotonic()
    node.call("systemctl", "stop", "gpumon.service")
    assert time.monotonic() - start_s < 2.0
    assert node.property("ExecMainStatus") == "0"
