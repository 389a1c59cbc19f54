"""Fixtures for readers of procfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumon.hardware.procfs import ProcfsHost

from .tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty host."""
    return Tree(tmp_path)


@pytest.fixture
def host(tree: Tree) -> ProcfsHost:
    """A reader of that host."""
    return ProcfsHost(procfs_root=tree.proc, sysfs_root=tree.sys)
