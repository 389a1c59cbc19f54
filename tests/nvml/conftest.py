"""The stand-in driver library in this process, and a node read through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpumon.hardware.nvidia import NvmlNode
from tests.standin.library import Standin, build, loaded

Libraries = Callable[..., Path]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    """Builds the library of an era, less some entry points."""
    folder = tmp_path_factory.mktemp("standin")

    def library(era: int = 595, without: tuple[str, ...] = ()) -> Path:
        return build(folder, era, without)

    return library


@pytest.fixture
def standin(libraries: Libraries) -> Iterator[Standin]:
    """The newest era's library, to be scripted. Afterwards: nothing was called that must not be."""
    with loaded(libraries()) as library:
        yield library
        assert not library.violations()


@pytest.fixture
def node(standin: Standin, tmp_path: Path) -> Iterator[NvmlNode]:
    """A node over `standin`, not opened yet, with empty procfs and sysfs; shut down afterwards."""
    reader = empty_node(tmp_path)
    yield reader
    reader.close()


def empty_node(folder: Path) -> NvmlNode:
    """Return a node whose procfs and sysfs are empty."""
    return NvmlNode(procfs_root=folder / "proc", sysfs_root=folder / "sys")
