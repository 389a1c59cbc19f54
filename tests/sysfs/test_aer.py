"""PCI error counters of a device."""

from __future__ import annotations

from gpumon.hardware.sysfs import aer_errors
from gpumon.model.fault import Fault

from .conftest import Tree


def test_kernel_totals_are_taken(tree: Tree) -> None:
    """Each kind is the kernel's own total; correctable rows are not added up twice."""
    address = tree.gpu("pci0000:00/0000:01:00.0", (4, 16))
    device = tree.sys / "bus/pci/devices" / address
    tree.write(device / "aer_dev_correctable", "RxErr 3\nBadTLP 9\nBadDLLP 0\nRollover 0\nTOTAL_ERR_COR 12")
    tree.write(device / "aer_dev_nonfatal", "Undefined 0\nDLP 0\nTOTAL_ERR_NONFATAL 1")
    tree.write(device / "aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0")
    assert aer_errors(address, sysfs_root=tree.sys) == {"correctable": 12.0, "nonfatal": 1.0, "fatal": 0.0}


def test_rows_without_a_total_are_added(tree: Tree) -> None:
    """A kernel that prints no total still gives a count."""
    address = tree.gpu("pci0000:00/0000:01:00.0", (4, 16))
    tree.write(tree.sys / "bus/pci/devices" / address / "aer_dev_correctable", "Receiver Error 3\nBad TLP 9")
    assert aer_errors(address, sysfs_root=tree.sys) == {"correctable": 12.0}


def test_without_aer_there_are_no_zeros(tree: Tree) -> None:
    """Where firmware keeps AER to itself the answer is a reason, never zero errors."""
    address = tree.gpu("pci0000:00/0000:01:00.0", (4, 16))
    assert aer_errors(address, sysfs_root=tree.sys) is Fault.NOT_SUPPORTED
