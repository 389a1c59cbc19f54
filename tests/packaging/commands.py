"""Commands of the tests: what they print, or a failure that shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def call(*command: str, check: bool = True, timeout_s: float = 300.0, cwd: Path = PROJECT, **environ: str) -> str:
    """Return a command's standard output. When it fails, the error carries both outputs."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if check and done.returncode != 0:
        raise CommandError(done.returncode, command, done.stdout, done.stderr)
    return done.stdout


class CommandError(subprocess.CalledProcessError):
    """Shows what the command printed."""

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.stdout}\n{self.stderr}"


def build_package(python_version: str, out: Path) -> Path:
    """Build the .deb for a release's Python, hardly compressed: at the usual level that takes 25 s of 30."""
    call("deploy/debian/build", python_version, str(out), PYTHON=sys.executable, DPKG_DEB_COMPRESSOR_LEVEL="0")
    (made,) = out.iterdir()
    return made
