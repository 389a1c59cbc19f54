"""The simulated node's PCI tree and the driver's word on peer access."""

from __future__ import annotations

from itertools import combinations

from gpumon.hardware.simulated.fabric import Slot, nvlink_joins
from gpumon.hardware.simulated.scenario import NodePlan
from gpumon.model.topology import CardPath, LinkHop, P2p, PciGpu, Topology, Uplink

# nvmlGpuTopologyLevel_t
_LEVELS = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}


def pci_address(node: NodePlan, index: int) -> str:
    """Return the sysfs address of a card."""
    if node.flat:
        return f"0000:00:{0x10 + index:02x}.0"
    slot = node.slots[index]
    bus = 0x01 + 0x80 * slot.socket + 8 * index
    return f"0000:{bus & 0xFF:02x}:00.0"


def root_of(node: NodePlan, index: int) -> str:
    """Return the host bridge above a card."""
    if node.flat:
        return "pci0000:00"
    slot = node.slots[index]
    above = slot.switch if slot.switch >= 0 else 16 + index
    return f"pci0000:{0x80 * slot.socket + 3 * above & 0xFF:02x}"


def topology(node: NodePlan, uuids: tuple[str, ...], awake: tuple[bool, ...]) -> Topology:
    """Return the tree as sysfs shows it; a sleeping card's own link shows generation 1."""
    paths = tuple(
        CardPath(
            uuid,
            pci_address(node, index),
            _hops(node, index, awake[index]),
            root_of(node, index),
            -1 if node.flat else node.slots[index].socket,
            aer_readable=not node.flat,
        )
        for index, uuid in enumerate(uuids)
    )
    uplinks = () if node.flat else _uplinks(node, uuids)
    p2p = tuple(
        P2p(uuids[a], uuids[b], path_between(node, a, b), p2p_status(node, a, b))
        for a, b in combinations(range(len(uuids)), 2)
    )
    gpus = tuple(
        PciGpu(pci_address(node, index), "nvidia", slot.trained_lanes, slot.lanes_max)
        for index, slot in enumerate(node.slots)
    )
    return Topology(paths, uplinks, p2p, gpus, node.flat, None if node.flat else node.acs_enabled, node.iommu)


def path_between(node: NodePlan, a: int, b: int) -> str:
    """Return the level of the common ancestor of two cards, or their NVLink."""
    first, second = node.slots[a], node.slots[b]
    if nvlink_joins(node.slots, (a, b), node.host) and first.card.nvlink is not None:
        return f"NV{first.card.nvlink.links}"
    if node.flat:
        return "PHB"
    if first.socket != second.socket:
        return "SYS"
    if first.switch >= 0 and first.switch == second.switch:
        return "PIX"
    return "NODE"


def topology_level(node: NodePlan, a: int, b: int) -> int:
    """Return nvmlGpuTopologyLevel_t of two cards, NVLink left out."""
    first, second = node.slots[a], node.slots[b]
    if node.flat:
        return _LEVELS["PHB"]
    if first.socket != second.socket:
        return _LEVELS["SYS"]
    return _LEVELS["PIX"] if first.switch >= 0 and first.switch == second.switch else _LEVELS["NODE"]


def p2p_status(node: NodePlan, a: int, b: int) -> str:
    """Return what the driver says about peer access between two cards."""
    first, second = node.slots[a], node.slots[b]
    if nvlink_joins(node.slots, (a, b), node.host):
        return "ok"
    if node.host.peer_access is not None:
        return "ok" if node.host.peer_access else "chipset_not_supported"
    allowed = first.card.name == second.card.name and first.card.peer_access
    return "ok" if allowed else "gpu_not_supported"


def _hops(node: NodePlan, index: int, awake: bool) -> tuple[LinkHop, ...]:
    slot = node.slots[index]
    address = pci_address(node, index)
    bus = address[5:7]
    generation = slot.trained_generation if awake else 1
    if node.flat:
        hop = LinkHop(address, "", generation, slot.trained_lanes, slot.generation_max, slot.lanes_max, virtual=True)
        return (hop,)
    port = f"0000:{int(bus, 16) - 1:02x}:00.0"
    own = LinkHop(address, port, generation, slot.trained_lanes, slot.generation_max, slot.lanes_max)
    if slot.switch >= 0:
        return own, _switch_hop(node, slot)
    if slot.hop_lanes:
        above = f"0000:{int(bus, 16) - 1:02x}:1c.0"
        return own, LinkHop(port, above, slot.hop_generation, slot.hop_lanes, slot.hop_generation, slot.hop_lanes)
    return (own,)


def _switch_hop(node: NodePlan, slot: Slot) -> LinkHop:
    host = node.host
    address = switch_address(slot)
    above = f"0000:{0x80 * slot.socket:02x}:{1 + slot.switch:02x}.1"
    return LinkHop(address, above, host.switch_generation, host.switch_lanes, host.switch_generation, host.switch_lanes)


def switch_address(slot: Slot) -> str:
    """Return the address of the upstream port of a slot's switch."""
    return f"0000:{(0x80 * slot.socket + 0x60 + slot.switch) & 0xFF:02x}:00.0"


def _uplinks(node: NodePlan, uuids: tuple[str, ...]) -> tuple[Uplink, ...]:
    below: dict[int, list[int]] = {}
    for index, slot in enumerate(node.slots):
        if slot.switch >= 0:
            below.setdefault(slot.switch, []).append(index)
    return tuple(
        Uplink(
            switch_address(node.slots[cards[0]]),
            tuple(uuids[index] for index in cards),
            _switch_hop(node, node.slots[cards[0]]),
        )
        for cards in below.values()
        if len(cards) > 1
    )


def slot_numa(slot: Slot, node: NodePlan) -> int:
    """Return the NUMA node of a card; -1 where the guest is not told."""
    return -1 if node.flat else slot.socket
