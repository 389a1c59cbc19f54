"""The node's topology for people and for scripts: the tree, shared uplinks, NVLink, the peer matrix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gpumon.doctor.rates import card_link, hop_bytes_per_second, hop_words
from gpumon.model.card import Card
from gpumon.model.topology import CardPath, LinkHop, NodeFacts, Topology

_STANDING = {"host": "bare host", "vm": "virtual machine", "container": "container"}
_ACS = {True: "on: cards' direct traffic takes the way through the root complex", False: "off", None: "not readable"}
_P2P_SHORT = {
    "ok": "ok",
    "chipset_not_supported": "no",
    "gpu_not_supported": "no",
    "topology_not_supported": "no",
    "disabled": "off",
    "not_supported": "no",
    "unknown": "?",
}
_PATHS = (
    ("PIX", "one switch"),
    ("PXB", "several switches"),
    ("PHB", "the CPU's root complex"),
    ("NODE", "one socket's root complexes"),
    ("SYS", "between sockets"),
    ("NV", "NVLink, with the number of links"),
)


# uuid -> key of model/fields.py -> value
Readings: TypeAlias = Mapping[str, Mapping[str, float]]


@dataclass(slots=True)
class _Branch:
    """A shared way in the tree being drawn: the hop that leads to it, what hangs below."""

    hop: LinkHop | None = None
    branches: dict[str, _Branch] = field(default_factory=dict)
    leaves: list[tuple[Card, CardPath, str]] = field(default_factory=list)  # with the words on its own link


def draw(facts: NodeFacts, cards: Sequence[Card], topology: Topology, readings: Readings) -> str:
    """Return the whole picture as text.

    Args:
        readings: of each card by UUID; its link's state is taken from there where the tree does not have it.
    """
    sections = [_head(facts, cards, topology), *_trees(cards, topology, readings)]
    sections += [_narrowest(cards, topology), _nvlink(cards), _matrix(cards, topology), _foreign(topology)]
    return "\n\n".join(section for section in sections if section) + "\n"


def document(facts: NodeFacts, cards: Sequence[Card], topology: Topology, readings: Readings) -> dict[str, object]:
    """Return the same for a program; unknown is null or left out."""
    paths = {path.uuid: path for path in topology.paths}
    index = _indices(cards)
    return {
        "schema": 1,
        "node": {
            "hostname": facts.hostname,
            "standing": facts.standing,
            "virtualization": facts.virtualization,
            "driver_version": facts.driver_version,
            "simulated": facts.simulated,
        },
        "tree_known": not topology.flat,
        "iommu": topology.iommu or None,
        "acs_enabled": topology.acs_enabled,
        "gpus": [
            _card_document(card, paths.get(card.identity.uuid), readings.get(card.identity.uuid, {})) for card in cards
        ],
        "uplinks": [
            {
                "uplink": uplink.address,
                "gpus": [index[uuid] for uuid in uplink.uuids if uuid in index],
                "link": _hop_document(uplink.hop),
            }
            for uplink in topology.uplinks
        ],
        "p2p": [
            {"gpu": index.get(pair.uuid), "peer": index.get(pair.peer_uuid), "path": pair.path, "driver_says": pair.p2p}
            for pair in topology.p2p
        ],
        "pci_gpus": [
            {
                "address": gpu.address,
                "driver": gpu.driver,
                "width": gpu.current_width or None,
                "max_width": gpu.max_width or None,
            }
            for gpu in topology.pci_gpus
        ],
    }


def _head(facts: NodeFacts, cards: Sequence[Card], topology: Topology) -> str:
    machine = "simulated node" if facts.simulated else _STANDING.get(facts.standing, facts.standing)
    if facts.virtualization not in {"", "none"}:
        machine += f" ({facts.virtualization})"
    noun = "card" if len(cards) == 1 else "cards"
    lines = [f"{facts.hostname}: {len(cards)} {noun}, {machine}, driver {facts.driver_version or 'not loaded'}"]
    if topology.flat:
        lines.append("PCI tree: not visible from here. Uplinks, NUMA nodes and neighbours are unknown.")
    else:
        lines.append(f"IOMMU: {topology.iommu or 'unknown'}   ACS: {_ACS[topology.acs_enabled]}")
    return "\n".join(lines)


def _trees(cards: Sequence[Card], topology: Topology, readings: Readings) -> list[str]:
    """Return one drawing for each root complex, and one for the cards whose root is unknown."""
    paths = {path.uuid: path for path in topology.paths}
    roots: dict[str, _Branch] = {}
    for card in cards:
        path = paths.get(card.identity.uuid) or CardPath(card.identity.uuid, card.identity.pci_address, (), "", -1)
        branch = roots.setdefault("" if topology.flat else path.root, _Branch())
        for hop in () if topology.flat else reversed(path.hops[1:]):
            branch = branch.branches.setdefault(hop.address, _Branch(hop))
        branch.leaves.append((card, path, _own_state(path, readings.get(card.identity.uuid, {}))))
    index = _indices(cards)
    shared = {uplink.address: [index.get(uuid, -1) for uuid in uplink.uuids] for uplink in topology.uplinks}
    return ["\n".join([_root_line(root, branch), *_rows(branch, shared, "")]) for root, branch in sorted(roots.items())]


def _root_line(root: str, branch: _Branch) -> str:
    nodes = sorted({path.numa_node for path in _all_paths(branch)} - {-1})
    numa = f"  NUMA {', '.join(str(node) for node in nodes)}" if nodes else ""
    return f"root complex {root}{numa}" if root else "root complex unknown"


def _rows(branch: _Branch, shared: dict[str, list[int]], indent: str) -> Iterable[str]:
    """Yield the lines below a branch: switches first, then cards."""
    items: list[tuple[str, _Branch | None]] = [
        (_switch_line(child, shared), child) for child in branch.branches.values()
    ]
    items += [(_card_line(card, path, state), None) for card, path, state in branch.leaves]
    for position, (line, child) in enumerate(items):
        last = position == len(items) - 1
        yield f"{indent}{'└─' if last else '├─'} {line}"
        if child is not None:
            yield from _rows(child, shared, indent + ("   " if last else "│  "))


def _switch_line(branch: _Branch, shared: dict[str, list[int]]) -> str:
    hop = branch.hop
    assert hop is not None  # only roots have none
    users = shared.get(hop.address)
    noun = f"shared by cards {', '.join(str(user) for user in users)}" if users else "of one card"
    return f"bridge {hop.address}  {_state(hop)}  {noun}"


def _card_line(card: Card, path: CardPath, state: str) -> str:
    lost = f"  {card.fault.value.upper()}" if card.fault else ""
    return f"card {card.identity.index}  {card.identity.name}  {path.address}  {state}{lost}"


def _state(hop: LinkHop) -> str:
    """Return negotiated and maximum link of a bridge. It does not sleep: less than its maximum is a finding."""
    if hop.virtual:
        return "virtual link (says nothing about the wire)"
    now = f"gen{hop.current_generation or '?'} x{hop.current_width or '?'}"
    most = f"gen{hop.max_generation} x{hop.max_width}"
    return now if now == most else f"{now} of {most}  BELOW ITS MAXIMUM"


def _own_state(path: CardPath, readings: Mapping[str, float]) -> str:
    """Return negotiated and maximum link of a card, and why they differ where that is no fault."""
    link = card_link(path, readings)
    if link is None:
        return "link unknown"
    now = f"gen{link.generation or '?'} x{link.width or '?'}"
    most = f"gen{link.max_generation} x{link.max_width}"
    if now == most:
        return now
    if 0 < link.width < link.max_width:
        return f"{now} of {most}  NARROW"
    return f"{now} of {most} (the generation falls at idle)"


def _narrowest(cards: Sequence[Card], topology: Topology) -> str:
    """Return the hop that limits each card, where the tree is known."""
    paths = {path.uuid: path for path in topology.paths}
    lines = []
    for card in cards:
        path = paths.get(card.identity.uuid)
        hops = [hop for hop in path.hops if not math.isnan(hop_bytes_per_second(hop))] if path else []
        if hops:
            least = min(hops, key=hop_bytes_per_second)
            place = "its own link" if path and least.address == path.address else f"bridge {least.address}"
            lines.append(f"  card {card.identity.index}: {hop_words(least)} ({place})")
    return "\n".join(["Narrowest hop to the root complex:", *lines]) if lines else ""


def _nvlink(cards: Sequence[Card]) -> str:
    lines = []
    for card in cards:
        facts = card.nvlink
        if facts.links:
            rate = facts.bytes_per_second_per_direction
            speed = "" if math.isnan(rate) else f", {rate / 1e9:.0f} GB/s each way"
            peers = ", ".join(sorted({_peer(cards, peer) for peer in facts.peers})) or "none"
            version = f" {facts.version}" if facts.version else ""
            lines.append(
                f"  card {card.identity.index}: NVLink{version}, {facts.active} of {facts.links} links up{speed}, "
                f"to {peers}"
            )
    return "\n".join(["NVLink:", *lines]) if lines else "NVLink: none"


def _peer(cards: Sequence[Card], peer: str) -> str:
    index = _indices(cards).get(peer)
    return peer if index is None else f"card {index}"


def _matrix(cards: Sequence[Card], topology: Topology) -> str:
    """Return the peer matrix: way between two cards, and whether the driver says they can talk directly."""
    if not topology.p2p:
        return ""
    cells: dict[tuple[str, str], str] = {}
    for pair in topology.p2p:
        cell = f"{pair.path} {_P2P_SHORT.get(pair.p2p, '?')}"
        cells[pair.uuid, pair.peer_uuid] = cells[pair.peer_uuid, pair.uuid] = cell
    width = max(len(cell) for cell in cells.values()) + 2
    rows = ["      " + "".join(str(card.identity.index).ljust(width) for card in cards).rstrip()]
    for one in cards:
        row = "".join(
            ("-" if one is other else cells.get((one.identity.uuid, other.identity.uuid), "?")).ljust(width)
            for other in cards
        )
        rows.append(f"  {one.identity.index:<4}{row}".rstrip())
    used = {pair.path for pair in topology.p2p}
    legend = ", ".join(f"{name} {meaning}" for name, meaning in _PATHS if any(path.startswith(name) for path in used))
    reasons = sorted({pair.p2p for pair in topology.p2p} - {"ok"})
    why = f"\n  Reasons given: {', '.join(reasons)}." if reasons else ""
    if topology.flat:
        why += "\n  The ways are those of the tree seen from here, which is not the machine's."
    return "\n".join(
        [
            "Peer access as the driver says it (a claim, not a measurement; ok = cards talk directly):",
            *rows,
            f"  {legend}.{why}" if legend else why.strip("\n"),
        ]
    ).rstrip()


def _foreign(topology: Topology) -> str:
    """Return the NVIDIA cards that the nvidia driver does not hold."""
    lines = [
        f"  {gpu.address}  {gpu.driver}  x{gpu.current_width or '?'} of x{gpu.max_width or '?'}"
        for gpu in topology.pci_gpus
        if gpu.driver != "nvidia"
    ]
    return "\n".join(["Cards that NVML does not serve:", *lines]) if lines else ""


def _card_document(card: Card, path: CardPath | None, readings: Mapping[str, float]) -> dict[str, object]:
    hops = path.hops if path else ()
    link = card_link(path, readings)
    known = [hop for hop in hops if not math.isnan(hop_bytes_per_second(hop))]
    least = min(known, key=hop_bytes_per_second) if known else None
    return {
        "gpu": card.identity.index,
        "uuid": card.identity.uuid,
        "name": card.identity.name,
        "pci_address": path.address if path else card.identity.pci_address,
        "fault": card.fault.value if card.fault else None,
        "root": (path.root if path else "") or None,
        "numa_node": path.numa_node if path and path.numa_node >= 0 else None,
        "link": None
        if link is None
        else {
            "generation": link.generation or None,
            "width": link.width or None,
            "max_generation": link.max_generation,
            "max_width": link.max_width,
        },
        "hops": [_hop_document(hop) for hop in hops],
        "narrowest_hop": least.address if least else None,
        "ceiling_bytes_per_second": hop_bytes_per_second(least) if least else None,
        "nvlink": {
            "links": card.nvlink.links,
            "active": card.nvlink.active,
            "version": card.nvlink.version or None,
            "peers": list(card.nvlink.peers),
        },
    }


def _hop_document(hop: LinkHop) -> dict[str, object]:
    return {
        "address": hop.address,
        "upstream": hop.upstream or None,
        "generation": hop.current_generation or None,
        "width": hop.current_width or None,
        "max_generation": hop.max_generation or None,
        "max_width": hop.max_width or None,
        "virtual": hop.virtual,
    }


def _indices(cards: Sequence[Card]) -> dict[str, int]:
    return {card.identity.uuid: card.identity.index for card in cards}


def _all_paths(branch: _Branch) -> Iterable[CardPath]:
    yield from (path for _, path, _ in branch.leaves)
    for child in branch.branches.values():
        yield from _all_paths(child)
