"""Advanced Error Reporting counters of one PCI device: what the kernel has counted since boot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpumon.hardware.roots import default_sysfs_root
from gpumon.hardware.sysfs.files import text
from gpumon.hardware.sysfs.pci import ancestry
from gpumon.model.fault import Fault

_FILES = {
    "correctable": ("aer_dev_correctable", "TOTAL_ERR_COR"),
    "nonfatal": ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
    "fatal": ("aer_dev_fatal", "TOTAL_ERR_FATAL"),
}


def aer_errors(address: str, *, sysfs_root: Path | None = None) -> Mapping[str, float] | Fault:
    """Return the error counts of a PCI device by kind: correctable, nonfatal, fatal.

    Errors of the link show at either of its ends, so ask for the bridge above a card too.

    Returns: NOT_SUPPORTED when the kernel or the firmware keeps AER to itself (the files are missing).
    Source: aer_dev_correctable, aer_dev_nonfatal, aer_dev_fatal, readable without privilege; since boot.
    """
    device = (sysfs_root or default_sysfs_root()) / "bus/pci/devices" / address
    counts: dict[str, float] = {}
    for kind, (name, total) in _FILES.items():
        content = text(device / name)
        count = None if content is None else _total(content, total)
        if count is not None:
            counts[kind] = float(count)
    return counts or Fault.NOT_SUPPORTED


def link_errors(address: str, *, sysfs_root: Path | None = None) -> Mapping[str, float] | Fault:
    """Return the error counts of the link above a card: its own and those of the bridge it hangs on.

    An error is counted by the end that received it.
    """
    above = ancestry(sysfs_root or default_sysfs_root(), address)
    ends = (address, *(above.bridges[:1] if above is not None else ()))
    counts: dict[str, float] = {}
    for end in ends:
        found = aer_errors(end, sysfs_root=sysfs_root)
        if not isinstance(found, Fault):
            for kind, count in found.items():
                counts[kind] = counts.get(kind, 0.0) + count
    return counts or Fault.NOT_SUPPORTED


def _total(content: str, key: str) -> int | None:
    """Return the kernel's own sum, else the sum of the rows of kernels that print none."""
    rows: dict[str, int] = {}
    for line in content.splitlines():
        name, _, count = line.rpartition(" ")
        if count.isdigit():
            rows[name.strip()] = int(count)
    if not rows:
        return None
    return rows[key] if key in rows else sum(rows.values())
