"""One PCI device and the bridges above it: identity, driver, link state, way to the root complex."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpumon.hardware.sysfs.files import names, number, target_name, text

DEVICES = "bus/pci/devices"
NVIDIA_VENDOR = 0x10DE
_DISPLAY_CLASS = 0x03  # base class of VGA (0300), 3D (0302) and other display controllers

# Bridges that exist only in a hypervisor's memory: Red Hat (pcie-root-port, pxb), virtio, VMware, Xen, Hyper-V.
# What they say about speed and width is invented.
_VIRTUAL_VENDORS = frozenset({0x1B36, 0x1AF4, 0x15AD, 0x5853, 0x1414})

# Speed in GT/s per lane by generation, as pci_speed_string() of the kernel prints it: "16.0 GT/s PCIe", and
# "8 GT/s" before Linux 5.7.
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")

# Names under which a driver holds a card for a guest, and the open successors of nouveau.
_GUEST_DRIVERS = ("vfio", "pciback", "pci-stub")
_OPEN_DRIVERS = ("nouveau", "nova")


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """What one end of a link says. Generation 1..6 and width in lanes; 0 where it does not say."""

    current_generation: int
    current_width: int
    max_generation: int
    max_width: int


@dataclass(frozen=True, slots=True)
class Ancestry:
    """A device's bridges, nearest first, and its host bridge ("pci0000:40", "" unknown)."""

    bridges: tuple[str, ...]
    root: str


def sysfs_address(pci_address: str) -> str:
    """Return the sysfs spelling of a PCI address: four digits of domain, lower case.

    NVML prints eight digits and capitals: "00000000:41:00.0" becomes "0000:41:00.0". A domain above ffff keeps
    its digits, as in sysfs.
    """
    domain, separator, rest = pci_address.strip().lower().partition(":")
    if not separator:
        return ""
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


def nvidia_displays(root: Path) -> Iterator[str]:
    """Yield the addresses of NVIDIA display devices, whoever drives them. Audio and USB functions are left out."""
    for address in names(root / DEVICES) or ():
        device = root / DEVICES / address
        if number(device / "vendor") == NVIDIA_VENDOR and (number(device / "class") or 0) >> 16 == _DISPLAY_CLASS:
            yield address


def driver(root: Path, address: str) -> str:
    """Return who drives a card: nvidia, vfio-pci (any driver that holds it for a guest), nouveau, or none.

    A driver of another name serves neither NVML nor a guest that we know of, and counts as none.
    """
    name = target_name(root / DEVICES / address / "driver")
    if name == "nvidia":
        return "nvidia"
    if any(part in name for part in _GUEST_DRIVERS):
        return "vfio-pci"
    if name.startswith(_OPEN_DRIVERS):
        return "nouveau"
    return "none"


def ancestry(root: Path, address: str) -> Ancestry | None:
    """Return the bridges between a device and the root complex, None when sysfs does not know the device.

    The resolved path of /sys/bus/pci/devices/ADDRESS nests every bridge: .../pci0000:40/0000:40:01.1/0000:41:00.0.
    """
    try:
        path = (root / DEVICES / address).resolve(strict=True)
    except OSError:
        return None
    bridges: list[str] = []
    for parent in path.parents:
        if _HOST_BRIDGE.fullmatch(parent.name):
            return Ancestry(tuple(bridges), parent.name)
        if not _ADDRESS.fullmatch(parent.name):
            break
        bridges.append(parent.name)
    return Ancestry(tuple(bridges), "")


def link_end(root: Path, address: str) -> LinkEnd:
    """Return the link state of a device: of a card or switch port upwards, of a root or downstream port downwards."""
    device = root / DEVICES / address
    speed, width = current_link(root, address)
    return LinkEnd(
        current_generation=speed,
        current_width=width,
        max_generation=generation(text(device / "max_link_speed")),
        max_width=_width(device / "max_link_width"),
    )


def current_link(root: Path, address: str) -> tuple[int, int]:
    """Return (generation, width in lanes) of a device's link now; 0 where it does not say."""
    device = root / DEVICES / address
    return generation(text(device / "current_link_speed")), _width(device / "current_link_width")


def generation(speed: str | None) -> int:
    """Return the PCIe generation of a kernel speed text, 0 when it says nothing ("Unknown", a new speed)."""
    if not speed:
        return 0
    try:
        return _GENERATIONS.get(float(speed.split()[0]), 0)
    except ValueError:
        return 0


def vendor(root: Path, address: str) -> int:
    """Return the PCI vendor, 0 when unknown."""
    return number(root / DEVICES / address / "vendor") or 0


def is_virtual_bridge(root: Path, address: str) -> bool:
    """Return True for a bridge that only a hypervisor made."""
    return vendor(root, address) in _VIRTUAL_VENDORS


def numa_node(root: Path, address: str) -> int:
    """Return the NUMA node of a device, -1 when the firmware does not tell."""
    node = number(root / DEVICES / address / "numa_node")
    return -1 if node is None else node


def _width(path: Path) -> int:
    """Return lanes; 0 for what is no PCIe width (a link that is down reads 0, a removed device 63 or 255)."""
    lanes = number(path)
    return lanes if lanes is not None and lanes in _WIDTHS else 0
