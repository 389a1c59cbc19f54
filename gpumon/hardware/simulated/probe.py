"""What probing a simulated card finds: identity, capabilities, NVLink."""

from __future__ import annotations

import uuid

from gpumon.hardware.simulated.fabric import nvlink_joins
from gpumon.hardware.simulated.scenario import NodePlan
from gpumon.hardware.simulated.tree import pci_address, slot_numa
from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, NvLinkFacts, PowerKind
from gpumon.model.fault import Fault

# The byte counters (fields 197, 198) came with driver 555, GPM with 520, the instantaneous power field with 525.
_COUNTERS_SINCE, _GPM_SINCE, _INSTANT_SINCE = 555, 520, 525


def card_uuid(node: NodePlan, seed: int, index: int) -> str:
    """Return a UUID that is the same in every run of the same node and seed."""
    name = f"{node.hostname}/{node.slots[index].card.name}/{seed}/{index}"
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, name)}"


def driver_branch(node: NodePlan) -> int:
    """Return the first number of the driver version."""
    return int(node.driver.split(".", maxsplit=1)[0])


def counter_bits(node: NodePlan, index: int) -> int:
    """Return the width of the PCIe byte counters under this node's driver; 0 without them."""
    bits = node.slots[index].card.abilities.counter_bits
    return bits if driver_branch(node) >= _COUNTERS_SINCE else 0


def probed(node: NodePlan, seed: int, index: int) -> Card:
    """Return one card as probed."""
    slot = node.slots[index]
    spec, abilities, branch = slot.card, slot.card.abilities, driver_branch(node)
    present = {
        "pcie_counter": counter_bits(node, index) > 0,
        "pcie_window": True,
        "gpm": abilities.gpm and branch >= _GPM_SINCE,
        "nvlink": spec.nvlink is not None,
        "energy": True,
        "process_util": True,
        "power_instant": abilities.power_instant and branch >= _INSTANT_SINCE,
        "ecc": abilities.ecc == "enabled",
        "mig": False,
    }
    features = frozenset(name for name, has in present.items() if has)
    if "gpm" in features:
        source = LinkSource.GPM
    else:
        source = LinkSource.COUNTER if "pcie_counter" in features else LinkSource.WINDOW
    capabilities = Capabilities(
        features=features,
        pcie_source=source,
        nvlink_source=LinkSource.FIELD if "nvlink" in features else LinkSource.NONE,
        power_kind=PowerKind.RING,
        counter_bits=counter_bits(node, index),
        missing=tuple((name, Fault.NOT_SUPPORTED) for name, has in present.items() if not has),
    )
    identity = CardIdentity(
        uuid=card_uuid(node, seed, index),
        index=index,
        name=spec.name,
        pci_address=pci_address(node, index),
        architecture=spec.architecture,
        minor=index,
        numa_node=slot_numa(slot, node),
    )
    return Card(identity, capabilities, _nvlink(node, seed, index))


def _nvlink(node: NodePlan, seed: int, index: int) -> NvLinkFacts:
    link = node.slots[index].card.nvlink
    if link is None:
        return NvLinkFacts(0, 0, "", float("nan"), ())
    if link.switched:
        active = link.links if node.host.nvlink_works else 0
        return NvLinkFacts(link.links, active, link.version, link.bytes_per_second, ("switch",) * active)
    neighbour = index ^ 1
    joined = neighbour < len(node.slots) and nvlink_joins(
        node.slots, (min(index, neighbour), max(index, neighbour)), node.host
    )
    active = link.links if joined else 0
    peers = (card_uuid(node, seed, neighbour),) * active
    return NvLinkFacts(link.links, active, link.version, link.bytes_per_second, peers)
