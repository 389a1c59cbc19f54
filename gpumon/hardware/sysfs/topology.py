"""The node's PCI tree as a Topology: every card's way to the root complex, shared uplinks, who drives which card.

A PCIe tree alternates: above a card lies a downstream port (of the root complex or a switch), above a switch's
downstream port its upstream port, above that again a downstream port. Only card - port and upstream port - port are
links; the way through a switch from its downstream to its upstream port is inside one chip and has no speed. So hops
are counted in pairs, which needs no configuration space and hence no root.

Not seen here: what sysfs does not show. An Intel chipset hangs on a DMI link that is no PCI bridge; two virtual
switches of one chip look like two switches; a virtual machine's tree is invented by the hypervisor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpumon.hardware.roots import default_procfs_root, default_sysfs_root
from gpumon.hardware.standing import in_virtual_machine
from gpumon.hardware.sysfs import acs, iommu, pci
from gpumon.hardware.sysfs.aer import aer_errors
from gpumon.model.card import Card
from gpumon.model.fault import Fault
from gpumon.model.topology import CardPath, LinkHop, NodeFacts, P2p, PciGpu, Topology, Uplink


def read_topology(
    cards: Sequence[Card],
    p2p: Sequence[P2p],
    facts: NodeFacts,
    *,
    sysfs_root: Path | None = None,
    procfs_root: Path | None = None,
) -> Topology:
    """Read how the cards are connected. Costs about 12 small files a card and 5 a bridge.

    Args:
        cards: probed cards; one without a PCI address gets an empty path.
        p2p: the driver's word on each pair, passed through.
        facts: where gpumon stands. In a virtual machine every bridge is invented: hops are marked virtual, there are
            no uplinks and no NUMA nodes, and `flat` is True; as where only virtual bridges are seen.
        sysfs_root, procfs_root: where to read; by default GPUMON_SYSFS_ROOT, GPUMON_PROCFS_ROOT, /sys and /proc.
    """
    root = sysfs_root or default_sysfs_root()
    guest = in_virtual_machine(facts)
    paths = tuple(_card_path(root, card, guest) for card in cards)
    # Without a readable tree there are no hops at all; with an invented one every hop is virtual.
    flat = guest or (bool(paths) and all(hop.virtual for path in paths for hop in path.hops))
    return Topology(
        paths=paths,
        uplinks=() if flat else _uplinks(paths),
        p2p=tuple(p2p),
        pci_gpus=tuple(_pci_gpu(root, address) for address in pci.nvidia_displays(root)),
        flat=flat,
        acs_enabled=None if flat else acs.redirects(root, paths, procfs_root or default_procfs_root()),
        iommu="" if guest else iommu.mode(root, procfs_root or default_procfs_root(), [path.address for path in paths]),
    )


def refresh_links(topology: Topology, *, sysfs_root: Path | None = None) -> Topology:
    """Read current speed and width of every hop above the cards' own again; the same object when nothing changed.

    Two files a port, each port once: cheap enough for every few seconds. A card's own link is asked of the driver every
    second, and its generation falls and rises with the work: it stays as it was read.
    """
    root = sysfs_root or default_sysfs_root()
    hops = {hop.address: hop for path in topology.paths for hop in path.hops[1:]}
    now = {address: _refreshed(root, hop) for address, hop in hops.items()}
    if now == hops:
        return topology
    return replace(
        topology,
        paths=tuple(
            replace(path, hops=(*path.hops[:1], *(now[hop.address] for hop in path.hops[1:])))
            for path in topology.paths
        ),
        uplinks=tuple(replace(uplink, hop=now[uplink.address]) for uplink in topology.uplinks),
    )


def _card_path(root: Path, card: Card, guest: bool) -> CardPath:
    address = pci.sysfs_address(card.identity.pci_address)
    above = pci.ancestry(root, address) if address else None
    if above is None:
        return CardPath(uuid=card.identity.uuid, address=address, hops=(), root="", numa_node=-1)
    return CardPath(
        uuid=card.identity.uuid,
        address=address,
        hops=tuple(_hops(root, address, above, guest)),
        root=above.root,
        numa_node=-1 if guest else pci.numa_node(root, address),
        aer_readable=not isinstance(aer_errors(address, sysfs_root=root), Fault),
    )


def _hops(root: Path, address: str, above: pci.Ancestry, guest: bool) -> Iterator[LinkHop]:
    """Yield the links of a way upwards. A device directly on a root bus has one, to no bridge."""
    chain = (address, *above.bridges)
    for position in range(0, len(chain), 2):
        lower = chain[position]
        upper = chain[position + 1] if position + 1 < len(chain) else ""
        if upper or position == 0:
            yield _hop(root, lower, upper, guest)


def _hop(root: Path, lower: str, upper: str, guest: bool) -> LinkHop:
    below = pci.link_end(root, lower)
    top = pci.link_end(root, upper) if upper else below
    hop = LinkHop(
        address=lower,
        upstream=upper,
        current_generation=_least(below.current_generation, top.current_generation),
        current_width=_least(below.current_width, top.current_width),
        max_generation=_least(below.max_generation, top.max_generation),
        max_width=_least(below.max_width, top.max_width),
    )
    invented = guest or any(pci.is_virtual_bridge(root, end) for end in (lower, upper) if end)
    return replace(hop, virtual=invented or not (hop.max_generation and hop.max_width))


def _refreshed(root: Path, hop: LinkHop) -> LinkHop:
    below = pci.current_link(root, hop.address)
    top = pci.current_link(root, hop.upstream) if hop.upstream else below
    return replace(hop, current_generation=_least(below[0], top[0]), current_width=_least(below[1], top[1]))


def _uplinks(paths: Sequence[CardPath]) -> tuple[Uplink, ...]:
    """Return the links above the cards' own that two or more cards share, in order of address."""
    shared: dict[str, list[tuple[str, LinkHop]]] = {}
    for path in paths:
        for hop in path.hops[1:]:
            if not hop.virtual:
                shared.setdefault(hop.address, []).append((path.uuid, hop))
    return tuple(
        Uplink(address=address, uuids=tuple(uuid for uuid, _ in users), hop=users[0][1])
        for address, users in sorted(shared.items())
        if len(users) > 1
    )


def _pci_gpu(root: Path, address: str) -> PciGpu:
    link = pci.link_end(root, address)
    return PciGpu(
        address=address,
        driver=pci.driver(root, address),
        current_width=link.current_width,
        max_width=link.max_width,
    )


def _least(one: int, other: int) -> int:
    """Return the smaller of two figures of which 0 means unknown."""
    return min(one, other) if one and other else one or other
