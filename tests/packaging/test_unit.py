"""The unit's text: each check of the case file, what systemd says of it, and that every restriction has its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpumon.export.server import MAX_CONNECTIONS
from tests.packaging.commands import PROJECT, call
from tests.packaging.unit import Unit

SYSTEMD = PROJECT / "systemd"
CASE = json.loads((PROJECT / "tests/cases/unit-checks.json").read_text("utf-8"))
MAJOR_NUMBER = "char-195 rw"
# VmHWM of `gpumon run --simulate rtx5090-x8-ddp-bound` after a minute.
MEASURED_PEAK_MIB = 82
MOST_CARDS = 16


def seconds(text: str) -> float:
    """Return a time of the unit, which gives all of them in seconds."""
    return float(text)


def devices(unit: Unit) -> None:
    """No private device tree; NVIDIA's major number, which covers nodes that come later. Slices need no node."""
    assert unit.one("PrivateDevices") == "no"
    assert unit.one("DevicePolicy") == "closed"
    assert unit.all("DeviceAllow") == [MAJOR_NUMBER]


def processes(unit: Unit) -> None:
    """Other users' processes are visible under their own ids."""
    assert unit.one("ProtectProc") == "default"
    assert unit.one("ProcSubset") == "all"
    assert unit.one("PrivateUsers") == "no"
    assert "PrivatePIDs" not in dict(unit.settings)


def control_groups(unit: Unit) -> None:
    """The tree is read-only, and nothing makes it inaccessible."""
    assert unit.one("ProtectControlGroups") == "yes"
    assert not unit.all("InaccessiblePaths")
    assert not unit.all("TemporaryFileSystem")


def kernel_log(unit: Unit) -> None:
    """It is closed, and nothing in the code reads it: Xid errors come from the driver's events."""
    assert unit.one("ProtectKernelLogs") == "yes"
    readers = [
        path for path in (PROJECT / "gpumon").rglob("*.py") if re.search(r"dev/kmsg|syslog\(", path.read_text("utf-8"))
    ]
    assert readers == []


def user(unit: Unit) -> None:
    """User and group are made by the installed sysusers file."""
    made = (SYSTEMD / "gpumon.sysusers").read_text("utf-8")
    assert re.search(rf"^u {unit.one('User')} ", made, re.MULTILINE)
    assert unit.one("Group") == unit.one("User")


def order(unit: Unit) -> None:
    """After the driver's modules and persistence daemon, requiring neither."""
    assert {"systemd-modules-load.service", "nvidia-persistenced.service"} <= set(unit.one("After").split())
    for key in ("Requires", "BindsTo", "Requisite", "PartOf", "Wants"):
        assert not unit.all(key)


def restart(unit: Unit) -> None:
    """Always restarted, after a pause, without a limit after which it would stay away."""
    assert unit.one("Restart") == "always"
    assert seconds(unit.one("RestartSec")) >= 1
    assert unit.one("StartLimitIntervalSec") == "0"


def stop(unit: Unit) -> None:
    """Longer than the two seconds in which the daemon ends."""
    assert seconds(unit.one("TimeoutStopSec")) >= 2 * 2


def readiness(unit: Unit) -> None:
    """Type=notify is meant: READY=1 is sent, and the watchdog is fed once a second."""
    assert unit.one("Type") == "notify"
    assert "READY=1" in (PROJECT / "gpumon/app/daemon.py").read_text("utf-8")
    assert seconds(unit.one("WatchdogSec")) >= 2 * 1.0


def limits(unit: Unit) -> None:
    """Memory at least twice the measured peak; files are limited; a thread for every connection and card."""
    assert int(unit.one("MemoryMax").removesuffix("M")) >= 2 * MEASURED_PEAK_MIB
    assert int(unit.one("LimitNOFILE")) >= 1024
    assert int(unit.one("TasksMax")) >= MAX_CONNECTIONS + MOST_CARDS + 32


def secrets(unit: Unit) -> None:
    """The command line holds nothing but the command."""
    assert unit.one("ExecStart") == "/usr/bin/gpumon run"


def locale(unit: Unit) -> None:
    """Numbers and messages do not depend on the host's language."""
    assert unit.all("Environment") == ["LC_ALL=C.UTF-8"]


# In the order of the case file.
CHECKS: tuple[Callable[[Unit], None], ...] = (
    *(devices, processes, control_groups, kernel_log, user, order),
    *(restart, stop, readiness, limits, secrets, locale),
)


@pytest.mark.parametrize(("check", "text"), list(zip(CHECKS, CASE["checks"], strict=True)))
def test_case(check: Callable[[Unit], None], text: str) -> None:
    """Reports 139 and 143: each static check of the case file holds for the shipped unit."""
    assert text
    check(Unit(SYSTEMD / "gpumon.service"))


def test_every_restriction_has_its_reason() -> None:
    """Each paragraph of settings carries a comment, and no setting is given twice but the system-call filter."""
    unit = Unit(SYSTEMD / "gpumon.service")
    paragraphs = [text for text in unit.text.split("\n\n") if "=" in text and "[Install]" not in text]
    assert [text for text in paragraphs if "#" not in text] == []
    keys = [key for key, _ in unit.settings]
    assert {key for key in keys if keys.count(key) > 1} == {"SystemCallFilter"}


def exposure(folder: Path, *drop_ins: Path) -> float:
    """Return the score that systemd gives the unit: 0 shut, 10 open."""
    folder.mkdir()
    (folder / "gpumon.service").write_text((SYSTEMD / "gpumon.service").read_text("utf-8"))
    for drop_in in drop_ins:
        target = folder / "gpumon.service.d"
        target.mkdir(exist_ok=True)
        (target / drop_in.name).write_text(drop_in.read_text("utf-8"))
    said = call("systemd-analyze", "security", "--offline=true", str(folder / "gpumon.service"))
    match = re.search(r"exposure level for gpumon.service: ([0-9.]+)", said)
    assert match, said
    return float(match[1])


@pytest.mark.tools
def test_the_sandbox_is_strict(tmp_path: Path) -> None:
    """systemd's own score is at most 2.0 as shipped and 2.2 with the drop-in."""
    assert exposure(tmp_path / "shipped") <= 2.0
    assert exposure(tmp_path / "with", SYSTEMD / "gpumon.service.d/attribution.conf") <= 2.2


@pytest.mark.tools
def test_the_drop_in_is_off_and_tells_its_price() -> None:
    """The capabilities are given by a file that is not installed as a drop-in, and which says what they open."""
    unit = Unit(SYSTEMD / "gpumon.service")
    assert unit.one("CapabilityBoundingSet") == ""
    assert unit.one("AmbientCapabilities") == ""
    drop_in = Unit(SYSTEMD / "gpumon.service.d/attribution.conf")
    assert drop_in.one("AmbientCapabilities") == drop_in.one("CapabilityBoundingSet")
    assert "price" in drop_in.text
    build = (PROJECT / "deploy/debian/build").read_text("utf-8")
    assert "examples/" in next(line for line in build.splitlines() if "attribution.conf" in line)
