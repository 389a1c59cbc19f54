"""The Debian package: installed without a network, upgraded in place, removed, purged; built for each Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.packaging.commands import PROJECT, build_package, call
from tests.packaging.container import Booted
from tests.packaging.pythons import python_of

pytestmark = [pytest.mark.tools, pytest.mark.realtime]

SETTING = '[sampling]\nprocess_interval = "2s"\n'


@pytest.fixture(scope="module")
def newer(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same package under a later version, with another file as a release would have."""
    folder = tmp_path_factory.mktemp("newer")
    call("dpkg-deb", "--raw-extract", str(package), str(folder / "root"))
    control = folder / "root/DEBIAN/control"
    control.write_text(control.read_text("utf-8").replace("Version: ", "Version: 9."), "utf-8")
    (folder / "root/usr/lib/gpumon/gpumon/later.py").write_text('"""New in this version."""\n', "utf-8")
    call("dpkg-deb", "--root-owner-group", "-Znone", "--build", str(folder / "root"), str(folder / "newer.deb"))
    return folder / "newer.deb"


def test_an_upgrade_keeps_settings_and_state_and_a_purge_takes_them(node: Booted, newer: Path) -> None:
    """The service runs on with the new version; a removal leaves what is the administrator's, a purge nothing."""
    node.write("/etc/gpumon/gpumon.toml", SETTING)
    node.write("/var/lib/gpumon/kept", "learned")
    state = node.wait(lambda: node.call("ls", "--inode", "/var/lib/gpumon/history.sqlite"), "the history")
    before = node.main_pid()
    node.copy(newer, "/root/newer.deb")
    node.call("dpkg", "--install", "/root/newer.deb")
    assert node.main_pid() not in ("0", before)
    assert node.property("ActiveState") == "active"
    assert node.call("cat", "/etc/gpumon/gpumon.toml") == SETTING
    assert node.call("cat", "/var/lib/gpumon/kept") == "learned"
    assert node.call("ls", "--inode", "/var/lib/gpumon/history.sqlite") == state
    assert "later.cpython-311.pyc" in node.call("ls", "/usr/lib/gpumon/gpumon/__pycache__")

    # An administrator who took the service out of the boot finds it so after the next upgrade.
    node.call("systemctl", "disable", "--now", "gpumon.service")
    node.call("dpkg", "--install", "/root/newer.deb")
    assert node.call("systemctl", "is-enabled", "gpumon.service", check=False) == "disabled\n"
    assert node.property("ActiveState") == "inactive"
    node.call("systemctl", "enable", "--now", "gpumon.service")

    node.call("dpkg", "--remove", "gpumon-exporter")
    assert node.property("LoadState") == "not-found"
    assert node.call("cat", "/etc/gpumon/gpumon.toml") == SETTING
    assert node.call("ls", "--inode", "/var/lib/gpumon/history.sqlite") == state
    assert node.call("cat", "/var/lib/gpumon/kept") == "learned"
    node.call("dpkg", "--install", "/root/newer.deb")
    assert node.call("systemctl", "is-enabled", "gpumon.service") == "enabled\n"

    node.call("dpkg", "--purge", "gpumon-exporter")
    left = "find / -xdev ( -path /proc -o -path /sys -o -path /root -o -path /run ) -prune -o -name *gpumon* -print"
    assert node.call(*left.split()) == ""


def test_what_is_installed_is_compiled_and_small(node: Booted) -> None:
    """Every module has its bytecode, the daemon needs less than half of its limit, and it belongs to its user."""
    missing = node.python(
        "import importlib.util as u, pathlib as p\n"
        "print(*[m for m in p.Path('/usr/lib/gpumon').rglob('*.py')"
        " if not p.Path(u.cache_from_source(str(m))).exists()], sep='', end='')"
    )
    assert missing == ""
    status = node.call("cat", f"/proc/{node.main_pid()}/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert int(fields["VmHWM"].split()[0]) * 1024 < int(node.property("MemoryMax")) / 2
    assert fields["CapEff"] == "0000000000000000"
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"
    assert node.call("stat", "--format=%U %a", "/var/lib/gpumon", "/run/gpumon/control") == "gpumon 750\ngpumon 600\n"
    assert "released for 2 s" in node.call("gpumon", "release", "--for", "2s")


def test_systemd_finds_nothing_wrong(node: Booted) -> None:
    """`systemd-analyze verify` is silent for the installed unit, alone and with the drop-in."""
    unit = "/lib/systemd/system/gpumon.service"
    assert node.call("sh", "-c", f"systemd-analyze verify {unit} 2>&1") == ""
    node.call("mkdir", "/etc/systemd/system/gpumon.service.d")
    node.call("cp", "/usr/share/doc/gpumon-exporter/examples/attribution.conf", "/etc/systemd/system/gpumon.service.d/")
    assert node.call("sh", "-c", f"systemd-analyze verify {unit} 2>&1") == ""


def test_the_drop_in_opens_other_users_environments(node: Booted) -> None:
    """With the two capabilities, and only with both, the service can read the environment of another user's process."""
    node.call("useradd", "tenant")
    tenant = node.call("systemd-run", "--uid=tenant", "--setenv=NCCL_P2P_DISABLE=1", "--unit=tenant", "sleep", "60")
    assert tenant == ""
    pid = node.call("systemctl", "show", "--property=MainPID", "--value", "tenant.service").strip()

    def readable() -> bool:
        """Say whether a process with the service's user and capabilities can read it."""
        granted = node.property("AmbientCapabilities")
        options = ["-p", f"AmbientCapabilities={granted}", "-p", f"CapabilityBoundingSet={granted}"]
        run = ("systemd-run", "--quiet", "--pipe", "--wait", "--uid=gpumon", *options)
        return "NCCL_P2P_DISABLE=1" in node.call(*run, "cat", f"/proc/{pid}/environ", check=False)

    assert not readable()
    node.call("mkdir", "/etc/systemd/system/gpumon.service.d")
    example = node.call("cat", "/usr/share/doc/gpumon-exporter/examples/attribution.conf")
    node.drop_in(example)
    assert readable()
    assert node.property("ActiveState") == "active"
    node.drop_in("CapabilityBoundingSet=CAP_SYS_PTRACE\nAmbientCapabilities=CAP_SYS_PTRACE")
    assert not readable()


@pytest.mark.parametrize("version", ["3.10", "3.12"])
def test_ubuntu_packages_run(version: str, tmp_path: Path) -> None:
    """The packages for Ubuntu 22.04 and 24.04 hold what their own Python can load."""
    package = build_package(version, tmp_path / "out")
    call("dpkg-deb", "--extract", str(package), str(tmp_path / "root"))
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'root/usr/lib/gpumon')!r})\n"
        "from gpumon.cli import main\nsys.exit(main(['scenarios']))"
    )
    done = subprocess.run(
        [python_of(version), "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "rtx5090-x8-ddp-bound" in done.stdout, done.stderr
    assert (tmp_path / "root/usr/share/doc/gpumon-exporter/examples/config.example.toml").read_text("utf-8") == (
        PROJECT / "config.example.toml"
    ).read_text("utf-8")
