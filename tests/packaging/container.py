"""A bare Debian with gpumon's package in it, and real systemd booted over it in a container.

What a boot writes goes to memory and is gone with it, so every test starts from the same installed tree. Control groups
carry no limits here (the machine's controllers belong to another hierarchy), but device rules are enforced: they are
programs on the unified hierarchy, which the container gets.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.packaging.commands import call

RELEASE = "bookworm"
# systemd and what makes it a booted system; python3 is what the package depends on: installing it needs no network.
# curl and openssl are used by the installation page.
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "curl", "openssl")
_UP = ("running\n", "degraded\n")
# A namespace of its own: the page's port is free, and nothing can be fetched.
_OPTIONS = (
    *("--quiet", "--register=no", "--keep-unit", "--private-network", "--volatile=overlay"),
    *("--capability=all", "--system-call-filter=bpf", "--console=pipe", "--boot"),
)
# All of it ends with this process, however that ends: nspawn is the first process of a namespace that dies with its
# parent, and what it started with it. Killing nspawn alone leaves the container running.
_LEASH = ("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def mirror() -> str:
    """Return where this machine's own apt takes the release from."""
    targets = call("apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages").split("\n")
    return next(line.partition(" ")[2] for line in targets if line.startswith(f"{RELEASE} "))


def bare_debian(tree: Path) -> None:
    """Make a minimal Debian 12 in a folder: 17 s of CPU (debootstrap: 33 s)."""
    call(
        *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}"),
        *("--dpkgopt=force-unsafe-io", RELEASE, str(tree), mirror()),
    )


class Booted:
    """A running container. Commands are run inside it as root."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self._leader = 0

    def started(self) -> None:
        """Wait until systemd has started what it was to start. What else than gpumon failed is not looked at."""
        nspawn = self.wait(lambda: _child(self._process.pid), "nspawn")
        self._leader = self.wait(lambda: _child(nspawn), "the container's first process")
        self.wait(lambda: self.call("systemctl", "is-system-running", check=False) in _UP, "the boot", 90)

    def wait(self, condition: Callable[[], Any], what: str, timeout_s: float = 30.0) -> Any:
        """Return the condition's first true value; fail with the container's journal when there is none in time."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            with contextlib.suppress(OSError, IndexError, subprocess.CalledProcessError):
                if value := condition():
                    return value
            time.sleep(0.1)
        units = self.call("systemctl", "list-units", "--failed", "--no-pager", check=False)
        raise AssertionError(f"{what}: not within {timeout_s} s\n{self._log.read_text()}\n{units}\n{self.journal()}")

    def call(self, *command: str, check: bool = True) -> str:
        """Return what a command prints."""
        return call("nsenter", "--target", str(self._leader), "--all", *command, check=check)

    def signal(self, name: str, pid: str) -> None:
        """Send a signal; the tree is so small that it has no kill program."""
        self.call("sh", "-c", f"kill -{name} {pid}")

    def python(self, code: str) -> str:
        """Return what Python code prints."""
        return self.call("python3", "-c", code)

    def page(self, path: str) -> str:
        """Return a document of gpumon's page; raises CalledProcessError while there is none."""
        return self.python(
            "import urllib.request as r; "
            f"print(r.urlopen('http://127.0.0.1:9836{path}', timeout=5).read().decode(), end='')"
        )

    def property(self, name: str) -> str:
        """Return a property of the service as systemd sees it."""
        return self.call("systemctl", "show", "--property", name, "--value", "gpumon.service").strip()

    def main_pid(self) -> str:
        """Return the service's main process, "0" without one."""
        return self.property("MainPID")

    def journal(self) -> str:
        """Return the service's log."""
        return self.call("journalctl", "--no-pager", "--output=cat", "--unit=gpumon.service", check=False)

    def write(self, path: str, text: str) -> None:
        """Write a file inside, its folders made."""
        file = Path(f"/proc/{self._leader}/root{path}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    def copy(self, source: Path, path: str) -> None:
        """Copy a file into it."""
        Path(f"/proc/{self._leader}/root{path}").write_bytes(source.read_bytes())

    def drop_in(self, text: str) -> None:
        """Change the service by a drop-in and start it anew."""
        self.write("/etc/systemd/system/gpumon.service.d/test.conf", f"[Service]\n{text}\n")
        self.call("systemctl", "daemon-reload")
        self.call("systemctl", "restart", "gpumon.service")

    def kill(self) -> None:
        """End it at once with all that runs in it."""
        self._process.kill()
        self._process.wait(20)


@contextlib.contextmanager
def booted(tree: Path, folder: Path) -> Iterator[Booted]:
    """Boot systemd over the tree and kill it at the end."""
    log = folder / "console"
    with log.open("wb") as console:
        process = subprocess.Popen(
            [*_LEASH, "systemd-nspawn", *_OPTIONS, "-D", str(tree)],
            env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
        )
    container = Booted(process, log)
    try:
        container.started()
        yield container
    finally:
        container.kill()


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()[0])
