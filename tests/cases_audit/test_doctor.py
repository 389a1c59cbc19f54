"""What the doctor says of processes: hidden ones, numbers of another namespace, cards cut into slices by a library."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumon.doctor.checks import run_checks
from gpumon.doctor.examination import examine
from gpumon.doctor.result import Level, Result
from gpumon.hardware.nvidia import NvmlNode
from tests.nvml.reading import MachineClock
from tests.procfs.tree import Tree, given
from tests.standin.library import Standin

pytestmark = pytest.mark.tools


def told(tree: Tree, check: str) -> Result | None:
    """Return the one result of a check on a node of the stand-in library and these trees."""
    node = NvmlNode(procfs_root=tree.proc, sysfs_root=tree.sys)
    examination = examine(
        node,
        lambda _: MachineClock(),
        procfs_root=tree.proc,
        sysfs_root=tree.sys,
        filesystem_root=tree.proc.parent,
    )
    node.close()
    found = [result for result in run_checks(examination) if result.check == check]
    assert len(found) <= 1
    return found[0] if found else None


def test_hidden_processes_are_counted(standin: Standin, tree: Tree) -> None:
    """GPU processes that procfs does not show are counted, with the remedy; shown ones are fine."""
    standin.apply("card 0 minor 0", "set 0 GetComputeRunningProcesses 70/1000;71/1000;72/1000")
    tree.process(70)
    result = told(tree, "processes")
    assert result is not None
    assert result.level is Level.WARN
    assert "2 of 3 processes" in result.sentence
    tree.process(71)
    tree.process(72)
    result = told(tree, "processes")
    assert result is not None
    assert result.level is Level.PASS


def test_numbers_of_another_namespace(standin: Standin, tree: Tree) -> None:
    """Where the driver's numbers are not this procfs's, that is said, and none is called hidden."""
    standin.apply("card 0 minor 0", "set 0 GetComputeRunningProcesses 70/1000")
    (tree.proc / "2/comm").unlink()
    (tree.proc / "2").rmdir()
    (tree.proc / "1/ns").mkdir(parents=True)
    (tree.proc / "1/ns/pid").symlink_to("pid:[4026532501]")
    result = told(tree, "processes")
    assert result is not None
    assert result.level is Level.WARN
    assert "another namespace" in result.sentence


def test_cards_cut_into_slices_by_a_library(standin: Standin, tree: Tree) -> None:
    """A container in which a library answers for NVML is named; without one nothing is said."""
    standin.apply("card 0 minor 0", "set 0 GetComputeRunningProcesses 70/1000")
    tree.process(70, mountinfo=given(0))
    assert told(tree, "slices") is None
    tree.process(70, mountinfo=given(0, hook=True), start=999)
    result = told(tree, "slices")
    assert result is not None
    assert result.level is Level.WARN
    assert "hami" in result.sentence


def test_nothing_is_said_without_a_driver(standin: Standin, tree: Tree, tmp_path: Path) -> None:
    """Without a driver there is no process to look for."""
    standin.apply("set * Init !9")
    result = told(tree, "processes")
    assert result is not None
    assert result.level is Level.PASS
