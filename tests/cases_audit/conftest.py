"""The stand-in driver library and a procfs of files, watched through everything up to the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.procfs import ProcfsHost
from gpumon.model.settings import Settings
from tests.cases_audit.watched import Watched
from tests.nvml.conftest import libraries, node, standin  # noqa: F401 (fixtures)
from tests.procfs.tree import Tree
from tests.standin.library import Standin


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A procfs and a sysfs without processes."""
    return Tree(tmp_path / "host")


@pytest.fixture
def watch(standin: Standin, node: NvmlNode, tree: Tree) -> Callable[..., Watched]:  # noqa: F811 (the fixtures above)
    """Begin to watch what the stand-in library and the tree show at that moment.

    The library's rings stamp with the machine's clock, which simulated time leaves behind: there are none.
    """

    def begin(settings: Settings | None = None) -> Watched:
        standin.apply("set * GetSamples !3")
        return Watched(node, ProcfsHost(procfs_root=tree.proc, sysfs_root=tree.sys), settings)

    return begin
