"""Where gpumon stands: host, virtual machine or container; what it can see from there."""

from __future__ import annotations

import os
from pathlib import Path

from gpumon.model.topology import NodeFacts

PROCFS_VARIABLE = "GPUMON_PROCFS_ROOT"


def default_procfs_root() -> Path:
    """Return where procfs is mounted: GPUMON_PROCFS_ROOT, else /proc."""
    return Path(os.environ.get(PROCFS_VARIABLE) or "/proc")


def node_facts(
    driver_version: str = "",
    *,
    procfs_root: Path | None = None,
    sysfs_root: Path | None = None,
    filesystem_root: Path = Path("/"),
) -> NodeFacts:
    """Read the node's facts; needs no driver and no privilege."""
    raise NotImplementedError


def in_virtual_machine(facts: NodeFacts) -> bool:
    """Return True when the PCI tree that gpumon sees is a hypervisor's."""
    raise NotImplementedError
