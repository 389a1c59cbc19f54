"""The NUMA nodes of the CPUs that a process may run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumon.hardware.procfs.numa import NumaNodes, mask_of


@pytest.fixture
def nodes(tmp_path: Path) -> NumaNodes:
    """Two nodes of 32 CPUs each, and a third that has memory only."""
    for node, cpumap in ((0, "00000000,ffffffff"), (1, "ffffffff,00000000"), (2, "00000000,00000000")):
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpumap").write_text(f"{cpumap}\n")
    (tmp_path / "devices/system/node/possible").write_text("0-2\n")
    return NumaNodes(str(tmp_path))


def test_a_bound_process_has_the_node_of_its_cpus(nodes: NumaNodes) -> None:
    """CPUs 0 to 3 lie on node 0, CPUs 32 to 63 on node 1; no CPU lies on a node that has none."""
    assert nodes.of(mask_of("f")) == {0}
    assert nodes.of(mask_of("ffffffff,00000000")) == {1}


def test_a_free_process_has_every_node(nodes: NumaNodes) -> None:
    """A mask over all CPUs touches both nodes."""
    assert nodes.of(mask_of("ffffffff,ffffffff")) == {0, 1}


def test_unknown_is_empty(nodes: NumaNodes, tmp_path: Path) -> None:
    """Neither a mask that cannot be read nor a tree without nodes says anything."""
    assert nodes.of(mask_of("garbage")) == frozenset()
    assert NumaNodes(str(tmp_path / "none")).of(mask_of("ff")) == frozenset()
