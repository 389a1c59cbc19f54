"""Cards that the kernel driver lists although NVML cannot open them: who they are, and whose fault it is.

Source: /proc/driver/nvidia/gpus/<PCI address>/information, readable by everyone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpumon.hardware.nvidia.nvlink import NO_NVLINK
from gpumon.hardware.nvidia.probe import NO_CAPABILITIES
from gpumon.hardware.sysfs.pci import driver as bound_driver
from gpumon.hardware.sysfs.pci import sysfs_address
from gpumon.model.card import Card, CardIdentity
from gpumon.model.fault import Fault

_GPUS = "driver/nvidia/gpus"
_UUID = re.compile(r"^GPU-[0-9a-fA-F-]+$")


def kernel_cards(procfs_root: Path) -> tuple[CardIdentity, ...]:
    """Return the cards that the kernel driver is bound to, by PCI address. Empty without the driver."""
    try:
        folders = sorted((procfs_root / _GPUS).iterdir())
    except OSError:
        return ()
    return tuple(_identity(folder) for folder in folders)


def _identity(folder: Path) -> CardIdentity:
    address = sysfs_address(folder.name)
    try:
        text = (folder / "information").read_text("utf-8", "replace")
    except OSError:
        text = ""
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    uuid, minor = values.get("GPU UUID", ""), values.get("Device Minor", "")
    return CardIdentity(
        # A card that fell off the bus before anyone asked prints question marks here: its place is all that is known.
        uuid=uuid if _UUID.match(uuid) else f"unknown-{address}",
        index=-1,
        name=values.get("Model", "") or "unknown",
        pci_address=address,
        architecture="",
        minor=int(minor) if minor.isdecimal() else -1,
        numa_node=-1,
    )


def absent_cards(
    present: Sequence[Card],
    known: Mapping[str, Card],
    refusals: Mapping[int, Fault],
    procfs_root: Path,
    sysfs_root: Path,
) -> tuple[Card, ...]:
    """Return the cards that ought to be there and cannot be used, each with its fault.

    Args:
        present: cards that were probed.
        known: cards seen by this process earlier, by UUID. One that was handed to a guest since (vfio-pci) is left out:
            it is not lost.
        refusals: NVML index -> why no handle was given. A refused permission is not about a lost card: containers see
            the places of cards that belong to others.
    """
    uuids = {card.identity.uuid for card in present}
    addresses = {card.identity.pci_address for card in present}
    broken = {index: fault for index, fault in refusals.items() if fault is not Fault.NO_PERMISSION}
    missing = {
        uuid: card
        for uuid, card in known.items()
        if uuid not in uuids and bound_driver(sysfs_root, card.identity.pci_address) != "vfio-pci"
    }
    remembered = {card.identity.pci_address for card in missing.values()}
    strangers = [
        identity
        for identity in (kernel_cards(procfs_root) if broken else ())
        if identity.pci_address not in addresses | remembered
    ]
    faults = list(broken.values())
    why = faults[0] if len(set(faults)) == 1 and faults[0] is not Fault.UNKNOWN else Fault.LOST
    return (
        *(unusable(card.identity, why, card) for card in missing.values()),
        *(unusable(identity, why) for identity in strangers),
    )


def unusable(identity: CardIdentity, why: Fault, before: Card | None = None) -> Card:
    """Return a card that cannot be used, with what is known of it from an earlier time."""
    return Card(
        identity=identity,
        capabilities=before.capabilities if before else NO_CAPABILITIES,
        nvlink=before.nvlink if before else NO_NVLINK,
        fault=why,
    )
