"""PCI Access Control Services: whether bridges send traffic between cards up to the root complex and back.

With request or completion redirection on, a byte from one card to its neighbour under the same switch takes the way
through the root complex (and the IOMMU): half the rate at best (50 instead of 103 GB/s both ways under one switch,
docs/topology.md), and patched peer-to-peer drivers hang.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

from gpumon.hardware.sysfs.files import target_name, text
from gpumon.hardware.sysfs.pci import DEVICES
from gpumon.model.topology import CardPath

# PCI Express Base Specification, extended capability 000Dh: header, capability register at +4, control at +6.
_ACS_CAPABILITY = 0x000D
_CONTROL = 6
_ENTRY_BYTES = 8
_NO_ANSWER = 0xFFFFFFFF  # what the bus reads from a device that is gone
_REQUEST_REDIRECT = 0x04
_COMPLETION_REDIRECT = 0x08
_EXTENDED_START = 0x100  # the kernel shows an ordinary user only the first 64 bytes
_CONFIG_BYTES = 4096


def redirects(root: Path, paths: Sequence[CardPath], procfs_root: Path) -> bool | None:
    """Return True when a bridge above a card redirects, False when none does, None when it cannot be known.

    As root the control registers say it. Without root the IOMMU groups do: two cards under one switch lie in
    different groups only when access control keeps them apart.
    """
    ports = sorted({hop.upstream for path in paths for hop in path.hops if hop.upstream})
    answers = [port_redirects(root, port) for port in ports]
    if any(answers):
        return True
    if answers and None not in answers:
        return False
    return _redirects_by_groups(root, paths, procfs_root)


def port_redirects(root: Path, address: str) -> bool | None:
    """Return whether one port redirects; False without the capability, None when its registers are not readable."""
    try:
        file = os.open(root / DEVICES / address / "config", os.O_RDONLY)
    except OSError:
        return None
    try:
        return _redirects(lambda offset: os.pread(file, _ENTRY_BYTES, offset))
    except OSError:
        return None
    finally:
        os.close(file)


def _redirects(read: Callable[[int], bytes]) -> bool | None:
    """Walk the extended capabilities, 8 bytes at a time: each byte asked for is a cycle on the bus."""
    offset = _EXTENDED_START
    visited: set[int] = set()
    while _EXTENDED_START <= offset < _CONFIG_BYTES and offset not in visited:
        visited.add(offset)
        entry = read(offset)
        if len(entry) < _ENTRY_BYTES:
            return None
        header = int.from_bytes(entry[:4], "little")
        if header == _NO_ANSWER:
            return None
        if header & 0xFFFF == _ACS_CAPABILITY:
            control = int.from_bytes(entry[_CONTROL:], "little")
            return bool(control & (_REQUEST_REDIRECT | _COMPLETION_REDIRECT))
        offset = header >> 20
    return False


def _redirects_by_groups(root: Path, paths: Sequence[CardPath], procfs_root: Path) -> bool | None:
    """Judge by the IOMMU groups of cards that share a switch; the kernel's override makes groups meaningless."""
    if "pcie_acs_override" in (text(procfs_root / "cmdline") or ""):
        return None
    apart: list[bool] = []
    for one, other in combinations(paths, 2):
        if {hop.address for hop in one.hops[1:]} & {hop.address for hop in other.hops[1:]}:
            groups = [target_name(root / DEVICES / path.address / "iommu_group") for path in (one, other)]
            if all(groups):
                apart.append(groups[0] != groups[1])
    return any(apart) if apart else None
