"""The PCI tree, link states, error counters, access control and IOMMU as sysfs shows them."""

from gpumon.hardware.sysfs.aer import aer_errors
from gpumon.hardware.sysfs.topology import read_topology, refresh_links

__all__ = ["aer_errors", "read_topology", "refresh_links"]
