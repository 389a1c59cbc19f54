"""Prometheus and Alertmanager in two versions: Debian 12's, installed, and Debian's newest, unpacked beside."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PROGRAMS = ("prometheus", "promtool", "prometheus-alertmanager", "amtool")
_PACKAGES = ("prometheus", "prometheus-alertmanager")
_NEWEST_PACKAGES = (*_PACKAGES, "promtool")  # a package of its own since Debian 13
_CACHE = Path(tempfile.gettempdir()) / f"gpumon-test-tools-{os.getuid()}"


def installed(program: str) -> str:
    """Return the installed program; fail with what to install."""
    path = shutil.which(program)
    assert path is not None, f"{program} is missing: install the packages {' and '.join(_PACKAGES)}"
    return path


def newest(program: str) -> str:
    """Return the program as Debian's next release has it: fetched once, never installed."""
    _CACHE.mkdir(mode=0o700, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:  # test processes run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = _CACHE / "root"
        if not done.exists():
            _fetch(_CACHE / "apt", _CACHE / "unpacked")
            (_CACHE / "unpacked").rename(done)
    return str(done / "usr" / "bin" / program)


def _fetch(apt: Path, root: Path) -> None:
    """Unpack the packages of Debian testing, from the mirror this machine uses, with a package list of our own."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    targets = subprocess.run(
        ["apt-get", "indextargets", "Created-By: Packages", "--format", "$(SITE) $(RELEASE)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # The archive itself; a security archive has no testing.
    site = next(line.split()[0] for line in targets.splitlines() if "-" not in line.split()[1])
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (apt / "sources.list").write_text(f"deb [signed-by={keyring}] {site} testing main\n", "utf-8")
    options = [
        f"Dir::Etc::sourcelist={apt}/sources.list",
        "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State::lists={apt}/lists",
        f"Dir::Cache={apt}/cache",
        "Acquire::Languages=none",
        "APT::Sandbox::User=root",
    ]
    words = [word for option in options for word in ("-o", option)]
    for command in (["update"], ["download", *_NEWEST_PACKAGES]):
        subprocess.run(["apt-get", "-qq", *words, *command], cwd=apt, check=True, capture_output=True, timeout=240)
    for package in apt.glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(root)], check=True, timeout=60)
