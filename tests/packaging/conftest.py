"""The package and the installed Debian: made once for a test session."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.commands import PROJECT, build_package, call
from tests.packaging.container import Booted, bare_debian, booted
from tests.standin.library import build


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The .deb for Debian 12, built as the page says."""
    return build_package("3.11", tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A bare Debian 12 with systemd, nothing of gpumon in it, in memory: on disk its removal alone takes 40 s."""
    folder = tmp_path_factory.mktemp("debian")
    call("mount", "-t", "tmpfs", "-o", "size=6g,mode=755", "tmpfs", str(folder))
    try:
        bare_debian(folder / "tree")
        yield folder / "tree"
    finally:
        call("umount", "--recursive", "--lazy", str(folder))


@pytest.fixture(scope="session")
def installed(bare: Path, package: Path) -> Path:
    """The same with the package installed, without any network. Read-only for tests."""
    install(bare, package)
    return bare


def install(tree: Path, package: Path) -> None:
    """Install the package in a tree that is not booted."""
    shutil.copy(package, tree / "root")
    call(
        *("unshare", "--net", "chroot", str(tree)),
        *("apt-get", "install", "--yes", f"/root/{package.name}"),
        DEBIAN_FRONTEND="noninteractive",
        PATH="/usr/sbin:/usr/bin:/sbin:/bin",
    )


@pytest.fixture
def node(installed: Path, tmp_path: Path) -> Iterator[Booted]:
    """A booted Debian with the package installed: the service as shipped, without a driver."""
    with booted(installed, tmp_path) as container:
        yield container


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in driver library."""
    return build(tmp_path_factory.mktemp("driver"), 595)


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's root."""
    return PROJECT
