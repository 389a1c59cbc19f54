"""buildah and podman with storage of their own, over a bare Debian instead of a registry's image.

No engine here may raise limits or has a service manager for its health timers, so limits are given low and health is
asked by hand. Networks between containers do not work on every such machine; the host's is used.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.packaging.commands import PROJECT, call

BASE = "localhost/debian:12"
IMAGE = "localhost/gpumon"
_LIMITS = ("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=1024:1024", "--no-healthcheck")


class Engine:
    """Builds and runs images with everything kept in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        places = ("--root", str(folder / "images"), "--runroot", str(folder / "run"), "--storage-driver", "overlay")
        self._buildah = ("buildah", *places)
        self._podman = ("podman", *places, "--cgroup-manager", "cgroupfs", "--runtime", "runc")

    def import_base(self, tree: Path) -> None:
        """Make an image of a folder."""
        archive = self._folder / "base.tar"
        call("tar", "--directory", str(tree), "--create", "--file", str(archive), ".")
        call(*self._podman, "import", str(archive), BASE)
        archive.unlink()

    def build(self, dockerfile: Path, context: Path, name: str, *options: str) -> None:
        """Build an image over the base."""
        call(
            *(*self._buildah, "bud", "--runtime", "runc", "--network", "host", "--pull-never", "--format", "docker"),
            *("--build-arg", f"BASE={BASE}", "--tag", name, "--file", str(dockerfile), *options, str(context)),
        )

    def wheels(self) -> tuple[str, ...]:
        """Fetch what the image installs with this machine's pip; return the options by which the build sees it."""
        wheels = self._folder / "wheels"
        get = (sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", str(wheels))
        call(*get, "--require-hashes", "--requirement", str(PROJECT / "requirements.txt"))
        call(*get, "hatchling")
        settings = self._folder / "pip.conf"
        settings.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        return ("--volume", f"{wheels}:/wheels:ro", "--volume", f"{settings}:/etc/pip.conf:ro")

    def run(self, name: str, *options: str, image: str = IMAGE, command: tuple[str, ...] = ()) -> None:
        """Start a container in the background, on the host's network."""
        call(
            *(*self._podman, "run", "--detach", "--name", name, "--network", "host", *_LIMITS, *options),
            *(image, *command),
        )

    def try_once(self, image: str, program: str, *arguments: str) -> None:
        """Run a program of an image in a container of its own; raises CalledProcessError when it fails."""
        options = ("--rm", "--network", "host", *_LIMITS, "--entrypoint", program)
        call(*self._podman, "run", *options, image, *arguments)

    def call(self, *words: str, check: bool = True) -> str:
        """Return what a podman command prints."""
        return call(*self._podman, *words, check=check)

    def end(self) -> None:
        """Remove every container."""
        subprocess.run([*self._podman, "rm", "--all", "--force", "--time", "0"], capture_output=True, check=False)
