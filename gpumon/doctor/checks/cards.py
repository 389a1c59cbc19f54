"""Which cards can be used, and what each of them can tell."""

from __future__ import annotations

from gpumon.doctor.examination import Examination
from gpumon.doctor.result import Result, failed, passed, warned
from gpumon.model.card import Card, LinkSource
from gpumon.model.fault import Fault

_REMEDIES = {
    Fault.LOST: "It fell off the bus (Xid 79): drain the node, power it down, reseat the card and its cable.",
    Fault.RESET_REQUIRED: "Stop its users and reset it: nvidia-smi --gpu-reset -i INDEX; if that fails, reboot.",
    Fault.NO_PERMISSION: "Its device file is closed to this user or container: see permissions.",
    Fault.TIMEOUT: "A call hangs in the driver: read `dmesg`; a card in this state needs a reboot.",
}
_SOURCES = {
    LinkSource.GPM: "all of it, by the card's performance monitors",
    LinkSource.COUNTER: "all of it, by byte counters",
    LinkSource.WINDOW: "samples of 20 ms, one direction at a time",
    LinkSource.FIELD: "all of it, by cumulative counters",
    LinkSource.LOG: "as somebody else's log tells",
    LinkSource.NONE: "nothing",
}
_WHY = {
    Fault.NOT_SUPPORTED: "card or driver have none",
    Fault.NO_PERMISSION: "not permitted to this user",
    Fault.NO_DATA: "switched off or empty",
    Fault.REJECTED: "values that cannot be true",
}


def usable(examination: Examination) -> tuple[Result, ...]:
    """Every card the driver lists answers."""
    if examination.fault is not None:
        return ()
    if not examination.cards:
        return (
            failed(
                "cards",
                "The driver lists no cards.",
                "Check `lspci -d 10de:` and, in a container or VM, which cards it was given.",
            ),
        )
    faults = {card: Fault.TIMEOUT for card in examination.cards if card.identity.uuid in examination.silent}
    faults |= {card: card.fault for card in examination.cards if card.fault is not None}
    if not faults:
        return (passed("cards", f"All {len(examination.cards)} answer."),)
    return tuple(
        failed(
            "cards",
            f"Card {_name(card)} cannot be used: {fault.value}.",
            _REMEDIES.get(fault, "Read `dmesg | grep -i nvrm` for its address."),
        )
        for card, fault in faults.items()
    )


def capabilities(examination: Examination) -> tuple[Result, ...]:
    """What gpumon can see of each card; cards that can do the same share a line."""
    alike: dict[str, list[Card]] = {}
    for card in examination.cards:
        if card.fault is None:
            alike.setdefault(_ability(card), []).append(card)
    return tuple(_judged(ability, cards) for ability, cards in alike.items())


def performance_monitors(examination: Examination) -> tuple[Result, ...]:
    """Cards that have performance monitors (GPM) answer them to this user."""
    refused = [card for card in examination.cards if dict(card.capabilities.missing).get("gpm") is Fault.NO_PERMISSION]
    if refused:
        return (
            warned(
                "gpm",
                f"The driver keeps the performance monitors of {_cards(refused)} from user {examination.user_id}.",
                "Load the module with NVreg_RestrictProfilingToAdminUsers=0, or run gpumon as root.",
            ),
        )
    able = [card for card in examination.cards if "gpm" in card.capabilities.features]
    if not able:
        return ()
    restricted = {True: "does", False: "does not", None: "does not say whether it does"}
    return (
        passed(
            "gpm",
            f"The performance monitors of {_cards(able)} answer to user {examination.user_id}; the driver "
            f"{restricted[examination.profiling_restricted]} restrict profiling to administrators.",
        ),
    )


def _judged(ability: str, cards: list[Card]) -> Result:
    sentence = f"{_cards(cards).capitalize()} ({cards[0].identity.name}): {ability}"
    source = cards[0].capabilities.pcie_source
    if source is LinkSource.NONE:
        return warned(
            "capabilities",
            sentence,
            "Without link traffic gpumon cannot tell waiting for the link from other waiting; verdicts stay unsure.",
        )
    if source is LinkSource.WINDOW:
        return warned(
            "capabilities",
            sentence,
            "A driver of branch 555 or newer may bring byte counters; until then rates carry an interval.",
        )
    return passed("capabilities", sentence)


def _ability(card: Card) -> str:
    able = card.capabilities
    missing: dict[str, list[str]] = {}
    for feature, why in able.missing:
        missing.setdefault(_WHY.get(why, why.value), []).append(feature)
    parts = [
        f"link traffic: {_SOURCES[able.pcie_source]}",
        f"power: {able.power_kind.value}",
        f"has {', '.join(sorted(able.features)) or 'nothing'}",
    ]
    if card.nvlink.links:
        parts.append(f"NVLink {card.nvlink.active} of {card.nvlink.links} links up")
    parts += [f"lacks {', '.join(features)} ({why})" for why, features in missing.items()]
    return "; ".join(parts) + "."


def _cards(cards: list[Card]) -> str:
    numbers = ", ".join(str(card.identity.index) for card in cards)
    return f"{'card' if len(cards) == 1 else 'cards'} {numbers}"


def _name(card: Card) -> str:
    return f"{card.identity.index} ({card.identity.pci_address or card.identity.uuid})"
