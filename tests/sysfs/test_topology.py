"""The PCI tree of built machines: hops, shared uplinks, foreign drivers, flat and invented trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpumon.hardware.sysfs import read_topology, refresh_links
from gpumon.model.card import Card
from gpumon.model.topology import CardPath, LinkHop, NodeFacts, P2p, Topology

from .conftest import AMD, INTEL, QEMU, Tree

CardMaker = Callable[[str], Card]


def _read(tree: Tree, cards: list[Card], facts: NodeFacts, p2p: tuple[P2p, ...] = ()) -> Topology:
    return read_topology(cards, p2p, facts, sysfs_root=tree.sys, procfs_root=tree.proc)


def _dual_socket(tree: Tree) -> list[str]:
    """Two sockets, two gen4 switches each, two cards under every switch; one card negotiated x8."""
    addresses = []
    for socket, root_bus in enumerate((0x10, 0x40, 0x90, 0xC0)):
        numa_node = socket // 2
        root = f"pci0000:{root_bus:02x}/0000:{root_bus:02x}:01.0"
        tree.bridge(root, (4, 16), (5, 16), vendor=INTEL, numa_node=numa_node)
        upstream = f"{root}/0000:{root_bus + 1:02x}:00.0"
        tree.bridge(upstream, (4, 16), numa_node=numa_node)
        for port in range(2):
            down = f"{upstream}/0000:{root_bus + 2:02x}:{port * 8:02x}.0"
            narrow = (4, 8) if root_bus == 0xC0 and port == 1 else (4, 16)
            tree.bridge(down, narrow, (4, 16), numa_node=numa_node)
            bus = root_bus + 3 + port
            addresses.append(tree.gpu(f"{down}/0000:{bus:02x}:00.0", narrow, (4, 16), numa_node=numa_node))
    return addresses


def test_switch_hops_are_links_only(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """Card to port and switch to root port are hops; the way through the switch is none."""
    addresses = _dual_socket(tree)
    path = _read(tree, [card(addresses[0])], host).paths[0]
    assert path == CardPath(
        uuid="GPU-0000:13:00.0",
        address="0000:13:00.0",
        hops=(
            LinkHop("0000:13:00.0", "0000:12:00.0", 4, 16, 4, 16),
            LinkHop("0000:11:00.0", "0000:10:01.0", 4, 16, 4, 16),  # the root port could do gen5, the switch not
        ),
        root="pci0000:10",
        numa_node=0,
    )


def test_dual_socket_uplinks(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """Each pair of cards under one switch shares that switch's link and nothing else."""
    cards = [card(address) for address in _dual_socket(tree)]
    topology = _read(tree, cards, host)
    assert [(uplink.address, uplink.uuids) for uplink in topology.uplinks] == [
        ("0000:11:00.0", ("GPU-0000:13:00.0", "GPU-0000:14:00.0")),
        ("0000:41:00.0", ("GPU-0000:43:00.0", "GPU-0000:44:00.0")),
        ("0000:91:00.0", ("GPU-0000:93:00.0", "GPU-0000:94:00.0")),
        ("0000:c1:00.0", ("GPU-0000:c3:00.0", "GPU-0000:c4:00.0")),
    ]
    assert [path.numa_node for path in topology.paths] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert not topology.flat
    narrow = topology.paths[-1].hops[0]
    assert (narrow.current_width, narrow.max_width) == (8, 16)


def test_cascaded_switches_share_at_each_level(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """A switch below a switch gives an uplink for its own cards and one for all of them."""
    root = "pci0000:60/0000:60:01.0"
    tree.bridge(root, (4, 16), vendor=AMD)
    tree.bridge(top := f"{root}/0000:61:00.0", (4, 16))
    cards = []
    for leaf in range(2):
        tree.bridge(down := f"{top}/0000:62:{leaf:02x}.0", (4, 16))
        tree.bridge(up := f"{down}/0000:{0x63 + leaf * 8:02x}:00.0", (4, 16))
        for port in range(2):
            tree.bridge(slot := f"{up}/0000:{0x64 + leaf * 8:02x}:{port:02x}.0", (4, 16))
            cards.append(card(tree.gpu(f"{slot}/0000:{0x65 + leaf * 8 + port:02x}:00.0", (4, 16))))
    topology = _read(tree, cards, host)
    assert [(uplink.address, len(uplink.uuids)) for uplink in topology.uplinks] == [
        ("0000:61:00.0", 4),
        ("0000:63:00.0", 2),
        ("0000:6b:00.0", 2),
    ]


def test_consumer_board_chipset_slot_and_riser(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """A card behind the chipset shows the chipset's link as a hop; a riser's width shows on the card's own."""
    tree.bridge("pci0000:00/0000:00:01.1", (3, 16), (5, 16), vendor=AMD)
    direct = tree.gpu("pci0000:00/0000:00:01.1/0000:01:00.0", (3, 16), (4, 16))  # a gen3 riser
    chipset = "pci0000:00/0000:00:02.1"
    tree.bridge(chipset, (4, 4), vendor=AMD)
    tree.bridge(f"{chipset}/0000:03:00.0", (4, 4), vendor=AMD)
    tree.bridge(f"{chipset}/0000:03:00.0/0000:04:00.0", (4, 4), vendor=AMD)
    behind = tree.gpu(f"{chipset}/0000:03:00.0/0000:04:00.0/0000:05:00.0", (1, 4), (4, 16))
    topology = _read(tree, [card(direct), card(behind)], host)
    riser, slot = topology.paths
    assert [(hop.current_generation, hop.max_generation) for hop in riser.hops] == [(3, 4)]
    assert [(hop.current_width, hop.max_width) for hop in slot.hops] == [(4, 4), (4, 4)]
    assert topology.uplinks == ()


def test_idle_speed_is_read_as_it_is(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """A card that lowered its generation at idle shows current 1 beside its maximum."""
    tree.bridge("pci0000:00/0000:00:01.0", (1, 16), (4, 16), vendor=INTEL)
    address = tree.gpu("pci0000:00/0000:00:01.0/0000:01:00.0", (1, 16), (4, 16))
    hop = _read(tree, [card(address)], host).paths[0].hops[0]
    assert (hop.current_generation, hop.max_generation) == (1, 4)


def test_virtual_machine_is_flat(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """In a KVM guest there are no uplinks and no NUMA, whatever the invented bridges say."""
    guest = replace(host, virtualization="kvm", standing="vm")
    tree.bridge("pci0000:00/0000:00:02.0", (4, 16), vendor=INTEL, numa_node=0)  # ioh3420: a made-up Intel port
    tree.bridge("pci0000:00/0000:00:02.0/0000:01:00.0", (4, 16), vendor=0x104C)
    cards = []
    for port in range(2):
        tree.bridge(down := f"pci0000:00/0000:00:02.0/0000:01:00.0/0000:02:{port:02x}.0", (4, 16), vendor=0x104C)
        cards.append(card(tree.gpu(f"{down}/0000:{3 + port:02x}:00.0", (4, 16), numa_node=0)))
    topology = _read(tree, cards, guest)
    assert topology.flat
    assert topology.uplinks == ()
    assert topology.acs_enabled is None
    assert topology.iommu == ""
    assert {path.numa_node for path in topology.paths} == {-1}
    assert all(hop.virtual for path in topology.paths for hop in path.hops)


def test_hidden_hypervisor_is_flat_by_its_bridges(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """Where the hypervisor hides but every bridge is QEMU's, the tree is flat too."""
    tree.bridge("pci0000:00/0000:00:02.0", (4, 32), vendor=QEMU)
    address = tree.gpu("pci0000:00/0000:00:02.0/0000:01:00.0", (4, 16))
    topology = _read(tree, [card(address)], host)
    assert topology.flat
    assert topology.paths[0].hops[0].virtual


def test_card_on_the_root_bus_has_a_virtual_hop(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """A card that sits on a root bus without a link, as in flat KVM guests, says nothing about a wire."""
    address = tree.device("pci0000:00/0000:00:10.0", vendor=0x10DE, pci_class=0x030200, driver="nvidia")
    topology = _read(tree, [card(address)], host)
    assert topology.paths[0].hops == (LinkHop("0000:00:10.0", "", 0, 0, 0, 0, virtual=True),)
    assert topology.flat


@pytest.mark.parametrize("width", ["0", "63", "255", "", "x16"])
def test_impossible_width_is_unknown(tree: Tree, card: CardMaker, host: NodeFacts, width: str) -> None:
    """A width that PCIe does not have is unknown, never a number to divide by."""
    tree.bridge("pci0000:00/0000:00:01.0", (4, 16), vendor=INTEL)
    address = tree.gpu("pci0000:00/0000:00:01.0/0000:01:00.0", (4, 16))
    for end in (address, "0000:00:01.0"):
        tree.write(tree.sys / "bus/pci/devices" / end / "current_link_width", width)
    assert _read(tree, [card(address)], host).paths[0].hops[0].current_width == 0


def test_unknown_speed_makes_the_hop_virtual(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """A hop of unknown maximum speed does not count as a wire."""
    tree.bridge("pci0000:00/0000:00:01.0", (0, 16), vendor=INTEL)
    address = tree.gpu("pci0000:00/0000:00:01.0/0000:01:00.0", (0, 16))
    assert _read(tree, [card(address)], host).paths[0].hops[0].virtual


def test_old_kernels_speed_text_is_understood(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """Kernels before 5.7 print "8 GT/s"."""
    tree.bridge("pci0000:00/0000:00:01.0", (3, 16), vendor=INTEL)
    address = tree.gpu("pci0000:00/0000:00:01.0/0000:01:00.0", (3, 16))
    for end in (address, "0000:00:01.0"):
        tree.write(tree.sys / "bus/pci/devices" / end / "current_link_speed", "8 GT/s")
    assert _read(tree, [card(address)], host).paths[0].hops[0].current_generation == 3


def test_nvml_spelling_of_the_address_is_understood(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """NVML's eight-digit capital form finds the device that sysfs spells in four digits."""
    tree.bridge("pci0000:c0/0000:c0:01.0", (4, 16), vendor=INTEL)
    tree.gpu("pci0000:c0/0000:c0:01.0/0000:c1:00.0", (4, 16))
    assert _read(tree, [card("00000000:C1:00.0")], host).paths[0].address == "0000:c1:00.0"


def test_host_with_cards_for_guests(tree: Tree, host: NodeFacts) -> None:
    """Cards on vfio-pci, nouveau or nothing are listed with their width although NVML knows none of them."""
    for bus, driver in ((0x21, "vfio-pci"), (0x41, "nvgrace_gpu_vfio_pci"), (0x61, "nouveau"), (0x81, "")):
        tree.bridge(f"pci0000:{bus - 1:02x}/0000:{bus - 1:02x}:01.0", (4, 8), (4, 16), vendor=INTEL)
        tree.gpu(f"pci0000:{bus - 1:02x}/0000:{bus - 1:02x}:01.0/0000:{bus:02x}:00.0", (4, 8), (4, 16), driver=driver)
    topology = _read(tree, [], host)
    assert [(gpu.address, gpu.driver, gpu.current_width, gpu.max_width) for gpu in topology.pci_gpus] == [
        ("0000:21:00.0", "vfio-pci", 8, 16),
        ("0000:41:00.0", "vfio-pci", 8, 16),
        ("0000:61:00.0", "nouveau", 8, 16),
        ("0000:81:00.0", "none", 8, 16),
    ]
    assert not topology.flat


def test_container_without_the_tree(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """A card that NVML knows and sysfs does not show has an empty path, and the node is flat."""
    inside = replace(host, virtualization="docker", standing="container", host_pids=False)
    topology = _read(tree, [card("0000:41:00.0")], inside)
    assert topology.paths == (CardPath("GPU-0000:41:00.0", "0000:41:00.0", (), "", -1),)
    assert topology.flat


def test_container_with_the_tree_is_as_good_as_the_host(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """A container sees the host's sysfs, so its uplinks are real."""
    inside = replace(host, virtualization="docker", standing="container", host_pids=False)
    topology = _read(tree, [card(address) for address in _dual_socket(tree)], inside)
    assert len(topology.uplinks) == 4
    assert not topology.flat


def test_p2p_is_passed_through(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """The driver's word on a pair stays as it was given."""
    pair = P2p("GPU-a", "GPU-b", "PHB", "chipset_not_supported")
    assert _read(tree, [], host, (pair,)).p2p == (pair,)


def test_refresh_sees_a_downtrained_uplink(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """After a switch's link fell to x4, refresh shows it in the paths and in the uplink, and keeps the rest."""
    cards = [card(address) for address in _dual_socket(tree)]
    before = _read(tree, cards, host)
    tree.set_link("0000:11:00.0", 4, 4)
    after = refresh_links(before, sysfs_root=tree.sys)
    assert after.uplinks[0].hop.current_width == 4
    assert after.paths[0].hops[1].current_width == 4
    assert after.paths[2:] == before.paths[2:]
    assert after == _read(tree, cards, host)


def test_refresh_returns_the_same_object_without_change(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """A tick that changed nothing keeps the topology object."""
    before = _read(tree, [card(address) for address in _dual_socket(tree)], host)
    assert refresh_links(before, sysfs_root=tree.sys) is before


def test_refresh_of_a_vanished_bridge_is_unknown(tree: Tree, card: CardMaker, host: NodeFacts) -> None:
    """A switch that fell off the bus leaves zeros, not an exception and not its last speed."""
    before = _read(tree, [card(address) for address in _dual_socket(tree)], host)
    above = before.paths[0].hops[1]
    for end in (above.address, above.upstream):
        (tree.sys / "bus/pci/devices" / end).unlink()
    assert refresh_links(before, sysfs_root=tree.sys).paths[0].hops[1].current_width == 0
