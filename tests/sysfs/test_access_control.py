"""ACS registers, IOMMU groups and modes as built trees show them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpumon.hardware.sysfs import read_topology
from gpumon.model.card import Card
from gpumon.model.topology import NodeFacts, Topology

from .conftest import INTEL, Tree

CardMaker = Callable[[str], Card]


def _config(control: int | None) -> bytes:
    """Configuration space as root sees it: an AER capability, then ACS with the given control register."""
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 1 << 16 | (0x148 if control is not None else 0) << 20).to_bytes(4, "little")
    if control is not None:
        config[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
        config[0x14E:0x150] = control.to_bytes(2, "little")
    return bytes(config)


def _two_under_a_switch(tree: Tree, config: bytes, groups: tuple[str, str] = ("", "")) -> list[str]:
    root = "pci0000:40/0000:40:01.0"
    tree.bridge(root, (4, 16), vendor=INTEL, config=config)
    tree.bridge(switch := f"{root}/0000:41:00.0", (4, 16), config=config)
    addresses = []
    for port, group in enumerate(groups):
        tree.bridge(down := f"{switch}/0000:42:{port:02x}.0", (4, 16), config=config)
        addresses.append(tree.gpu(f"{down}/0000:{0x43 + port:02x}:00.0", (4, 16), iommu_group=group))
    return addresses


def _read(tree: Tree, addresses: list[str], card: CardMaker, facts: NodeFacts) -> Topology:
    return read_topology([card(a) for a in addresses], (), facts, sysfs_root=tree.sys, procfs_root=tree.proc)


@pytest.mark.parametrize(
    ("control", "enabled"),
    [
        (0x1D, True),  # what Linux sets with the IOMMU on: validation, both redirections, upstream forwarding
        (0x04, True),
        (0x08, True),
        (0x11, False),  # validation and forwarding alone send nothing astray
        (0x00, False),
        (None, False),  # no ACS capability at all
    ],
)
def test_control_register_decides(
    tree: Tree, card: CardMaker, host: NodeFacts, control: int | None, enabled: bool
) -> None:
    """Access control is on when a port above a card redirects requests or completions."""
    addresses = _two_under_a_switch(tree, _config(control))
    assert _read(tree, addresses, card, host).acs_enabled is enabled


def test_without_root_and_groups_it_is_unknown(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """64 readable bytes and no IOMMU group say nothing."""
    addresses = _two_under_a_switch(tree, b"\0" * 64)
    assert _read(tree, addresses, card, host).acs_enabled is None


@pytest.mark.parametrize(("groups", "enabled"), [(("7", "8"), True), (("7", "7"), False)])
def test_groups_tell_without_root(
    tree: Tree, card: CardMaker, host: NodeFacts, groups: tuple[str, str], enabled: bool
) -> None:
    """Cards under one switch lie in different IOMMU groups only when access control separates them."""
    addresses = _two_under_a_switch(tree, b"\0" * 64, groups)
    assert _read(tree, addresses, card, host).acs_enabled is enabled


def test_override_makes_groups_meaningless(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """With pcie_acs_override the kernel invents groups, so they prove nothing."""
    tree.write(tree.proc / "cmdline", "quiet pcie_acs_override=downstream,multifunction")
    addresses = _two_under_a_switch(tree, b"\0" * 64, ("7", "8"))
    assert _read(tree, addresses, card, host).acs_enabled is None


def test_looping_capability_list_ends(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """A capability that points at itself does not hang the walk."""
    config = bytearray(_config(None))
    config[0x100:0x104] = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    addresses = _two_under_a_switch(tree, bytes(config))
    assert _read(tree, addresses, card, host).acs_enabled is False


def test_bridge_that_is_gone_is_unknown(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """A bridge that answers all ones, as after a bus drop, says nothing about access control."""
    addresses = _two_under_a_switch(tree, b"\xff" * 4096)
    assert _read(tree, addresses, card, host).acs_enabled is None


@pytest.mark.parametrize(
    ("group_type", "cmdline", "units", "mode"),
    [
        ("identity", "", ("dmar0",), "passthrough"),
        ("DMA-FQ", "iommu=pt", ("dmar0",), "translated"),  # the group itself knows better than the command line
        ("DMA", "", ("dmar0",), "translated"),
        ("", "quiet iommu=pt", ("dmar0",), "passthrough"),
        ("", "iommu.passthrough=0", ("dmar0",), "translated"),
        ("", "amd_iommu=off", (), "off"),
        ("", "quiet", (), "off"),
        ("", "quiet", ("dmar0",), ""),  # the kernel's build decides: not told
        ("", "quiet", None, ""),
    ],
)
def test_iommu_mode(
    tree: Tree,
    card: CardMaker,
    host: NodeFacts,
    *,
    group_type: str,
    cmdline: str,
    units: tuple[str, ...] | None,
    mode: str,
) -> None:
    """The card's own group decides, then the command line, then whether there is an IOMMU."""
    tree.write(tree.proc / "cmdline", cmdline)
    if units is not None:
        (tree.sys / "class/iommu").mkdir(parents=True)
        for unit in units:
            (tree.sys / "class/iommu" / unit).mkdir()
    addresses = _two_under_a_switch(tree, b"\0" * 64, ("7", "7"))
    if group_type:
        tree.write(tree.sys / "kernel/iommu_groups/7/type", group_type)
    assert _read(tree, addresses, card, host).iommu == mode
