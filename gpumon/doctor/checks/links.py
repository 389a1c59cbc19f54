"""Link width and speed, what lies above the cards, link errors, and what stands between cards that talk directly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpumon.doctor.examination import Examination
from gpumon.doctor.rates import CardLink, card_link, hop_bytes_per_second, hop_words, link_words, whole
from gpumon.doctor.result import Result, passed, warned
from gpumon.hardware.standing import in_virtual_machine
from gpumon.model.card import Card
from gpumon.model.topology import CardPath, LinkHop, P2p

# "A rate above a few per minute deserves a warning": DCGM's health watch has a per-minute limit for replays too.
_CORRECTABLE_PER_MINUTE = 3.0
_NARROW_REMEDY = (
    "Reseat the card and its riser, try another slot, and look for bifurcation or a speed limit in the BIOS."
)


def link_state(examination: Examination) -> tuple[Result, ...]:
    """Each card's own link runs at the width and can reach the generation that card and slot allow.

    Links that are fine and alike share a line.
    """
    fine: dict[str, list[str]] = {}
    findings: list[Result] = []
    for card, path in _cards_with_paths(examination):
        link = card_link(path, examination.readings.get(card.identity.uuid, {}))
        if card.fault is not None or link is None:
            continue
        finding = _link_finding(examination, card, path, link)
        if finding:
            findings.append(warned("link", finding, _NARROW_REMEDY))
        else:
            fine.setdefault(_link_words(link), []).append(str(card.identity.index))
    return (
        *findings,
        *(
            passed("link", f"{'Card' if len(cards) == 1 else 'Cards'} {', '.join(cards)}: {words}.")
            for words, cards in fine.items()
        ),
    )


def tree(examination: Examination) -> tuple[Result, ...]:
    """The way above each card is as wide as the card's own link, and who shares it is known."""
    topology, facts = examination.topology, examination.facts
    if not examination.cards:
        return ()
    if topology.flat:
        if facts.standing == "container" and not in_virtual_machine(facts):
            return (
                warned(
                    "pci tree",
                    "The host's PCI tree is not visible: uplinks that cards share cannot be known.",
                    "Give the container a readable /sys, or mount the host's and set GPUMON_SYSFS_ROOT.",
                ),
            )
        return (passed("pci tree", "Flat or made by a hypervisor: uplinks that cards share cannot be known."),)
    results = [
        warned(
            "pci tree",
            f"Card {card.identity.index} sits behind {hop.address}, {hop_words(hop)}: less than its own link.",
            "It is behind a chipset or a narrow switch: move it to a slot of the CPU, or leave it out of jobs in "
            "which cards talk.",
        )
        for card, path in _cards_with_paths(examination)
        for hop in _narrower_above(path)
    ]
    results += [
        warned(
            "pci tree",
            f"The link of {hop.address} runs at gen{hop.current_generation} x{hop.current_width}, it can do "
            f"gen{hop.max_generation} x{hop.max_width}.",
            "A switch's link does not sleep as a card's does. Look again under load, then at the BIOS, the cable and "
            "the backplane.",
        )
        for hop in {hop.address: hop for path in topology.paths for hop in path.hops[1:]}.values()
        if _below_maximum(hop)
    ]
    for uplink in topology.uplinks:
        cards = _numbers(examination, uplink.uuids)
        results.append(passed("pci tree", f"Cards {cards} share {uplink.address}: {hop_words(uplink.hop)}."))
    if not results:
        results.append(passed("pci tree", "No card shares a link with another, none sits behind a narrower one."))
    return tuple(results)


def errors(examination: Examination) -> tuple[Result, ...]:
    """No link repeats packets all the time, and none has had an uncorrected error since boot."""
    minutes = (examination.wall_s - examination.facts.boot_wall_s) / 60
    bad = [
        warned(
            "link errors",
            f"{address}: {_errors(counts)} since boot.",
            "A marginal riser, slot or cable: reseat it; until then the link may lose width, speed, or the card.",
        )
        for address, counts in examination.aer.items()
        if _is_bad(counts, minutes)
    ]
    if bad or not examination.aer:
        return tuple(bad)
    return (passed("link errors", f"None to speak of at {len(examination.aer)} link ends since boot."),)


def access_control(examination: Examination) -> tuple[Result, ...]:
    """Bridges let cards talk directly instead of sending every packet through the root complex."""
    topology = examination.topology
    if len(examination.cards) < 2 or topology.flat:
        return ()
    if topology.acs_enabled is None:
        return (
            warned(
                "acs",
                "Whether PCI access control redirects traffic between cards is readable by root only.",
                "Run `gpumon doctor` once as root.",
            ),
        )
    if topology.acs_enabled:
        return (
            warned(
                "acs",
                "PCI access control (ACS) redirects traffic between cards through the root complex: direct transfers "
                "are slow and may hang.",
                "On a host that runs no guests, switch ACS off in the BIOS, or clear it on the bridges with setpci at "
                "every boot (NCCL's troubleshooting page shows how). A host that lends cards to guests needs it.",
            ),
        )
    return (passed("acs", "Access control does not redirect traffic between cards."),)


def iommu(examination: Examination) -> tuple[Result, ...]:
    """The IOMMU does not translate the cards' addresses."""
    mode = examination.topology.iommu
    if len(examination.cards) < 2 or not mode:
        return ()
    if mode == "translated":
        return (
            warned(
                "iommu",
                "The IOMMU translates the cards' addresses: direct transfers between cards are slow or fail.",
                "Boot with iommu=pt (guests still work), or switch the IOMMU off where none are run.",
            ),
        )
    return (passed("iommu", f"IOMMU: {mode}."),)


def peer_access(examination: Examination) -> tuple[Result, ...]:
    """The driver says the same of every pair of cards; which is a claim and not a measurement."""
    pairs = examination.topology.p2p
    if not pairs:
        return ()
    by_state: dict[str, list[P2p]] = {}
    for pair in pairs:
        by_state.setdefault(pair.p2p, []).append(pair)
    if len(by_state) == 1:
        state = pairs[0].p2p
        if state == "ok":
            return (passed("p2p", "The driver says every pair of cards can talk directly; that is its claim."),)
        return (
            passed(
                "p2p",
                f"The driver says no pair of cards can talk directly ({state}), as usual for GeForce 40 and 50: bytes "
                "between cards cross host memory.",
            ),
        )
    return tuple(
        warned(
            "p2p",
            f"The driver says {state} between {_pairs(examination, odd)}, unlike other pairs.",
            "Use sets of cards whose pairs agree; look for different card models, sockets, MIG, ACS or the IOMMU.",
        )
        for state, odd in by_state.items()
        if state != "ok"
    )


def _link_finding(examination: Examination, card: Card, path: CardPath, link: CardLink) -> str:
    """Return what is wrong with a card's own link, "" when nothing is."""
    name = f"Card {card.identity.index} ({path.address or card.identity.pci_address})"
    if 0 < link.width < link.max_width:
        return f"{name} runs at x{link.width}, card and slot can do x{link.max_width}."
    own_width = next((gpu.max_width for gpu in examination.topology.pci_gpus if gpu.address == path.address), 0)
    if link.max_width < own_width:
        return f"{name} could do x{own_width}, its slot gives x{link.max_width}."
    own_generation = whole(examination.readings.get(card.identity.uuid, {}), "card_generation_max")
    if link.max_generation < own_generation:
        return f"{name} could do gen{own_generation}, slot or BIOS allow gen{link.max_generation}."
    return ""


def _link_words(link: CardLink) -> str:
    """Return what the link can do, and its generation now where that is lower."""
    words = link_words(link.max_generation, link.max_width)
    if 0 < link.generation < link.max_generation:
        return f"{words}, now gen{link.generation} (falls at idle, not a fault)"
    return words


def _cards_with_paths(examination: Examination) -> Iterator[tuple[Card, CardPath]]:
    paths = {path.uuid: path for path in examination.topology.paths}
    for card in examination.cards:
        path = paths.get(card.identity.uuid)
        if path is not None:
            yield card, path


def _narrower_above(path: CardPath) -> Iterator[LinkHop]:
    """Yield the hops above the card's own that carry less than it, at the width they have now."""
    if not path.hops or path.hops[0].virtual:
        return
    own = hop_bytes_per_second(path.hops[0])
    for hop in path.hops[1:]:
        if not hop.virtual and hop_bytes_per_second(hop) < own:
            yield hop


def _below_maximum(hop: LinkHop) -> bool:
    return not hop.virtual and (
        0 < hop.current_width < hop.max_width or 0 < hop.current_generation < hop.max_generation
    )


def _is_bad(counts: Mapping[str, float], minutes: float) -> bool:
    if counts.get("nonfatal", 0.0) or counts.get("fatal", 0.0):
        return True
    return counts.get("correctable", 0.0) > _CORRECTABLE_PER_MINUTE * minutes  # False while the boot time is unknown


def _errors(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{count:.0f} {kind}" for kind, count in counts.items() if count) + " errors"


def _numbers(examination: Examination, uuids: Iterable[str]) -> str:
    index = {card.identity.uuid: card.identity.index for card in examination.cards}
    return ", ".join(str(index.get(uuid, uuid)) for uuid in uuids)


def _pairs(examination: Examination, pairs: Iterable[P2p]) -> str:
    return "; ".join(
        " and ".join(_numbers(examination, (uuid,)) for uuid in (pair.uuid, pair.peer_uuid)) for pair in pairs
    )
