"""Which cards a text means: CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES, a Slurm list, a device id of the kubelet.

The rules are the CUDA programming guide's for environment variables: the list is read from the left and ends at the
first entry that names nothing; a UUID may be shortened as long as it is unique. An integer is a place in the list of
cards by index; CUDA may count them in another order (fastest first), so a UUID is better evidence than a number, and
the driver's process list is better than both. Letter case counts, as in CUDA. A number within a slice notation
(`0:3`) is a MIG instance of that board when the board has such a slice, else unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpumon.model.card import Card

_NONE = frozenset({"none", "void", "NoDevFiles"})
_REPLICA = re.compile(r"(?P<id>.+?)::[0-9]{1,4}")
_DEVICE_NODE = re.compile(
    r"nvidia(?P<minor>[0-9]{1,4})(?:/(?:gi(?P<gi>[0-9]{1,4})(?:/ci(?P<ci>[0-9]{1,4}))?|vgpu[0-9]{1,4}))?"
)
_SLICE = re.compile(r"(?P<board>[0-9]{1,4})[:.](?P<gi>[0-9]{1,4})(?:[:.](?P<ci>[0-9]{1,4}))?")


class Device(NamedTuple):
    """A card, or one slice of it. A tuple, because it is hashed and compared for every process and card."""

    uuid: str
    mig_uuid: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list selects. `known` is False when an entry could not be resolved: the set may then be larger."""

    devices: tuple[Device, ...]
    known: bool = True


def visible(text: str | None, cards: Sequence[Card]) -> Selection:
    """Return the devices that a device-selection variable leaves visible, in its order, each once.

    Args:
        text: the variable's value; None when it is not set, which means all.
    """
    everything = tuple(Device(card.identity.uuid) for card in cards)
    if text is None or text.strip() == "all":
        return Selection(everything)
    chosen: list[Device] = []
    if text.strip() in _NONE:
        return Selection(())
    for entry in text.split(","):
        word = entry.strip()
        if word.startswith("-") or not word:
            break  # CUDA stops at the first entry that is no device
        device = _entry(word, cards)
        if device is None:
            return Selection(tuple(chosen), known=False)
        if device not in chosen:
            chosen.append(device)
    return Selection(tuple(chosen))


def _entry(word: str, cards: Sequence[Card]) -> Device | None:
    if word.isascii() and word.isdigit():
        return _by_index(int(word), cards) if len(word) <= 4 else None
    if match := _SLICE.fullmatch(word):
        return _slice(cards, match["gi"], match["ci"], index=int(match["board"]))
    return by_uuid(word, cards)


def _by_index(index: int, cards: Sequence[Card]) -> Device | None:
    return next((Device(card.identity.uuid) for card in cards if card.identity.index == index), None)


def by_uuid(text: str, cards: Sequence[Card]) -> Device | None:
    """Return the one card or slice whose UUID begins with the text; None when there is none or more than one.

    A whole UUID wins over those that only begin with it. The prefix GPU- or MIG- must be there.
    """
    if not text.startswith(("GPU-", "MIG-")):
        return None
    found: list[Device] = []
    for card in cards:
        uuids = [(card.identity.uuid, "")] + [(card.identity.uuid, one.mig_uuid) for one in card.mig_slices]
        for uuid, mig_uuid in uuids:
            name = mig_uuid or uuid
            if name == text:
                return Device(uuid, mig_uuid)
            if name.startswith(text):
                found.append(Device(uuid, mig_uuid))
    return found[0] if len(found) == 1 else None


def by_kubelet_id(text: str, cards: Sequence[Card]) -> Device | None:
    """Return the device that a kubelet's device id names; None for a form or a device that is not known.

    Forms: a UUID; a UUID with a replica's number (`::3`, time slicing); a device node (`nvidia0`, `nvidia0/gi7`,
    `nvidia1/vgpu2`), whose number is the minor.
    """
    replica = _REPLICA.fullmatch(text)
    word = replica["id"] if replica else text
    if match := _DEVICE_NODE.fullmatch(word):
        minor = int(match["minor"])
        if match["gi"]:
            return _slice(cards, match["gi"], match["ci"], minor=minor)
        return next((Device(card.identity.uuid) for card in cards if card.identity.minor == minor), None)
    device = by_uuid(word, cards)
    return device if device is not None and word in (device.uuid, device.mig_uuid) else None


def by_minor(cards: Sequence[Card]) -> dict[int, Card]:
    """Return the cards by N of /dev/nvidiaN."""
    return {card.identity.minor: card for card in cards if card.identity.minor >= 0}


def _slice(
    cards: Sequence[Card], gi: str, ci: str | None, *, index: int | None = None, minor: int | None = None
) -> Device | None:
    for card in cards:
        if index is not None and card.identity.index != index:
            continue
        if minor is not None and card.identity.minor != minor:
            continue
        found = [
            one
            for one in card.mig_slices
            if one.gpu_instance == int(gi) and (ci is None or one.compute_instance == int(ci))
        ]
        if len(found) == 1:
            return Device(card.identity.uuid, found[0].mig_uuid)
    return None
