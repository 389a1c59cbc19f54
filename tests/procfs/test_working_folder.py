"""The folder a process works in: a link that only its own user and privileged readers may follow."""

from __future__ import annotations

from pathlib import Path

from gpumon.hardware.procfs import ProcfsHost

from .tree import Tree


def test_the_folder_of_a_process(tmp_path: Path) -> None:
    """It is what the link says; where there is none to read it is empty, and nothing else is missing."""
    tree = Tree(tmp_path)
    tree.process(100)
    tree.process(101)
    (tree.proc / "100" / "cwd").symlink_to("/work/one")
    host = ProcfsHost(procfs_root=tree.proc, sysfs_root=tree.sys)
    table = host.processes(frozenset({100, 101}), 1.0)
    assert {process.pid: process.folder for process in table.processes} == {100: "/work/one", 101: ""}
