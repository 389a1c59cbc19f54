"""How the IOMMU treats the cards: off, passthrough (addresses as they are), or translated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpumon.hardware.sysfs.files import names, text
from gpumon.hardware.sysfs.pci import DEVICES

OFF = "off"
PASSTHROUGH = "passthrough"
TRANSLATED = "translated"
UNKNOWN = ""

_OFF_OPTIONS = frozenset({"iommu=off", "intel_iommu=off", "amd_iommu=off"})
_PASSTHROUGH_OPTIONS = frozenset({"iommu=pt", "iommu.passthrough=1"})
_TRANSLATED_OPTIONS = frozenset({"iommu=nopt", "iommu.passthrough=0"})
# Types of an IOMMU group's default domain (Documentation/ABI/testing/sysfs-kernel-iommu_groups).
_GROUP_TYPES = {"identity": PASSTHROUGH, "DMA": TRANSLATED, "DMA-FQ": TRANSLATED}


def mode(root: Path, procfs_root: Path, addresses: Sequence[str]) -> str:
    """Return "translated" if any card's addresses are, else "passthrough", "off", or "" when unknown.

    The card's own group is asked first; a group that a guest owns, and kernels before 5.11, give no type there.
    Then the kernel command line, then whether the kernel found an IOMMU at all. Without any of these words it is the
    kernel's build that decides, which sysfs does not tell.
    """
    groups = {text(root / DEVICES / address / "iommu_group/type") for address in addresses if address}
    types = {_GROUP_TYPES[group] for group in groups if group in _GROUP_TYPES}
    if types:
        return TRANSLATED if TRANSLATED in types else PASSTHROUGH
    options = frozenset((text(procfs_root / "cmdline") or "").split())
    units = names(root / "class/iommu")
    if options & _OFF_OPTIONS or units == ():
        return OFF
    if options & _PASSTHROUGH_OPTIONS:
        return PASSTHROUGH
    if units and options & _TRANSLATED_OPTIONS:
        return TRANSLATED
    return UNKNOWN
