"""What the operator should know of the node: heat, links, slots, shared uplinks, tenants on one card.

Evidence may name cards and jobs here: the customer never reads it. Each function looks at all jobs of the node.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import gigabytes, percent
from gpumon.analysis.findings import signals
from gpumon.analysis.findings.detector import Detector, Found
from gpumon.analysis.findings.exchange import ON
from gpumon.analysis.findings.subject import CardFacts, NodeSubject, Subject
from gpumon.analysis.strategy import WORKS
from gpumon.model.text import counted

HOT = 0.2  # of the time with one of the driver's thermal reasons
THERMAL = ("sw_thermal", "hw_thermal")
FULL_UPLINK = 0.7  # of what the shared link attains, mean over 15 s: collectives have pauses
TAKES_PART = 0.15  # of the shared link's traffic: a job below it is not what fills it
EXCHANGE_BYTES_PER_SECOND = 500e6  # over PCIe, each way: far above launches and copies of a card that works alone
# The driver takes seconds to give a killed process's memory back, tens of seconds with many cards.
STUCK_S = 120.0
MOST_NAMED = 4


def _named(cards: list[CardFacts]) -> str:
    names = ", ".join(str(facts.gpu) for facts in cards[:MOST_NAMED])
    return f"card {names}" if len(cards) <= MOST_NAMED else f"card {names} and {len(cards) - MOST_NAMED} more"


def _cards(node: NodeSubject) -> list[CardFacts]:
    """Return each card once, though several jobs may be on it."""
    return list({facts.seen.uuid: facts for subject in node.jobs for facts in subject.cards}.values())


def _pcie_exchange(subject: Subject) -> float:
    """Return the mean over the job's cards of the lesser direction: what goes both ways."""
    rates = [min(facts.seen.pcie.rx, facts.seen.pcie.tx) for facts in subject.cards if facts.seen.pcie.known]
    return sum(rates) / len(rates) if rates else math.nan


def cards_hot(node: NodeSubject, edge: float) -> Found | None:
    """Cards at work are slowed by heat."""
    hot = [
        (facts, max(facts.seen.throttled.get(reason, 0.0) for reason in THERMAL))
        for facts in _cards(node)
        if max(facts.seen.throttled.get(reason, 0.0) for reason in THERMAL) >= HOT * edge
    ]
    if not hot:
        return None
    return Found(
        tuple(
            f"card {facts.gpu}: {facts.seen.temperature:.0f} degrees C, slowed by heat {percent(share)} of the time"
            for facts, share in hot[:MOST_NAMED]
        )
    )


def link_narrow(node: NodeSubject, edge: float) -> Found | None:
    """A card's own link, under load, or a bridge above it, is below what both ends can do."""
    found = []
    for facts in _cards(node):
        generation, generation_max, width, width_max = facts.link
        if facts.downtrained:
            found.append(
                f"card {facts.gpu} runs at generation {generation} x{width}; card and slot can do generation "
                f"{generation_max} x{width_max}"
            )
        for hop in facts.path.hops[1:] if facts.path is not None else ():
            if not hop.virtual and 0 < hop.current_width < hop.max_width:
                found.append(
                    f"the bridge {hop.address} above card {facts.gpu} runs at x{hop.current_width} of x{hop.max_width}"
                )
    return Found(tuple(found[:MOST_NAMED])) if found else None


def chipset_slot(node: NodeSubject, edge: float) -> Found | None:
    """A card hangs below a narrow bridge that is at its full width: a port of the chipset, not of the CPU."""
    found = []
    for facts in _cards(node):
        hops = facts.path.hops if facts.path is not None else ()
        own = hops[0] if hops else None
        for hop in hops[1:]:
            narrow = 0 < hop.max_width <= CHIPSET_LANES and own is not None and hop.max_width < own.max_width
            if narrow and not hop.virtual:
                found.append(
                    f"card {facts.gpu} (x{own.max_width if own else 0}) lies below bridge {hop.address}, which has "
                    f"x{hop.max_width} in all"
                )
                break
    return Found(tuple(found[:MOST_NAMED])) if found else None


CHIPSET_LANES = 8  # DMI 3 has 4 lanes, DMI 4 up to 8; AMD's chipsets hang on 4


def uplink_contention(node: NodeSubject, edge: float) -> Found | None:
    """Jobs of several tenants fill a link that their cards share."""
    for uplink, saturation in node.uplinks:
        if not saturation >= FULL_UPLINK * edge:
            continue
        traffic: dict[str, float] = {}
        tenants: dict[str, str] = {}
        for subject in node.jobs:
            below = [facts for facts in subject.cards if facts.seen.uuid in uplink.uuids and facts.seen.pcie.known]
            if below:
                traffic[subject.job.gpu_job] = sum(facts.seen.pcie.rate for facts in below)
                tenants[subject.job.gpu_job] = subject.job.tenant
        total = sum(traffic.values())
        part = {job: rate for job, rate in traffic.items() if rate >= TAKES_PART * edge * total}
        if len({tenants[job] for job in part}) < 2:
            continue
        said = ", ".join(f"{job} ({tenants[job]}) {gigabytes(rate)}" for job, rate in sorted(part.items()))
        above = f"the link {uplink.address} above {counted(len(uplink.uuids), 'card')}"
        return Found((f"{above} is {percent(saturation)} full: {said}",))
    return None


def two_tenants_one_card(node: NodeSubject, edge: float) -> Found | None:
    """Processes of two tenants are on one card, and it works."""
    found = [
        f"card {facts.gpu} has processes of {' and '.join(sorted(tenants))}"
        for facts in _cards(node)
        if len(tenants := node.tenants.get(facts.seen.uuid, frozenset()) - {"unassigned"}) > 1
        and 1.0 - facts.seen.gap >= WORKS * edge
    ]
    return Found(tuple(found[:MOST_NAMED])) if found else None


def nvlink_unused(node: NodeSubject, edge: float) -> Found | None:
    """A job exchanges over PCIe between cards whose NVLink carries nothing."""
    for subject in node.jobs:
        links = [facts.seen.nvlink for facts in subject.cards]
        if subject.size < 2 or not subject.nvlink or any(link is None or not link.quiet for link in links):
            continue
        rate = _pcie_exchange(subject)
        switched_off = dict(subject.layout.nccl).get("NCCL_P2P_DISABLE", "").lower() in ON
        if switched_off or not rate >= EXCHANGE_BYTES_PER_SECOND * edge:
            continue
        active = sum(facts.card.nvlink.active for facts in subject.cards)
        return Found(
            (
                f"job {subject.job.gpu_job}: {active} NVLinks of its {subject.size} cards are active and quiet, while "
                f"{gigabytes(rate)} a card cross PCIe each way",
            )
        )
    return None


def acs_redirects(node: NodeSubject, edge: float) -> Found | None:
    """Peer access is promised and used, and access control or the IOMMU sends it through the root."""
    topology = node.topology
    if node.virtualization not in ("none", "") or not (topology.acs_enabled or topology.iommu == "translated"):
        return None
    for subject in node.jobs:
        over_pcie = [pair for pair in subject.pairs if not pair.path.startswith("NV")]
        allowed = over_pcie and all(pair.p2p == "ok" for pair in over_pcie)
        rate = _pcie_exchange(subject)
        if not allowed or subject.size < 2 or not rate >= EXCHANGE_BYTES_PER_SECOND * edge:
            continue
        what = "access control (ACS) is on above the cards" if topology.acs_enabled else "the IOMMU translates"
        return Found(
            (
                f"{what}; job {subject.job.gpu_job} moves {gigabytes(rate)} a card each way between {subject.size} "
                "cards that the driver lets talk directly",
            )
        )
    return None


def process_stuck(node: NodeSubject, edge: float) -> Found | None:
    """Every process of a job on its cards is dead or cannot be killed, for longer than an exit takes."""
    evidence = []
    for subject in node.jobs:
        job = subject.job
        if not subject.stuck_s >= STUCK_S:
            continue
        held = sum(card.memory_bytes for card in job.cards if not math.isnan(card.memory_bytes))
        evidence.append(
            f"job {job.gpu_job}: {counted(len(job.processes), 'process')} dead or unkillable for "
            f"{subject.stuck_s:.0f} s, holding {held / 1e9:.1f} GB"
        )
    return Found(tuple(evidence)) if evidence else None


DETECTORS: tuple[Detector[NodeSubject], ...] = (
    Detector("cards_hot", (signals.CLOCK_REASONS,), cards_hot, any_class=True),
    Detector("link_narrow", (signals.LINK_STATE,), link_narrow, looks=3, any_class=True),
    Detector("chipset_slot", (signals.PCI_TREE,), chipset_slot, any_class=True),
    Detector("uplink_contention", (signals.PCI_TREE, signals.PCIE, signals.TENANTS), uplink_contention, any_class=True),
    Detector("two_tenants_one_card", (signals.PROCESS_LIST, signals.TENANTS), two_tenants_one_card, any_class=True),
    Detector("process_stuck", (signals.PROCESS_LIST,), process_stuck, any_class=True),
    Detector("nvlink_unused", (signals.NVLINK, signals.PCIE), nvlink_unused, any_class=True),
    Detector(
        "acs_redirects", (signals.ACCESS_CONTROL, signals.PEER_ACCESS, signals.PCIE), acs_redirects, any_class=True
    ),
)
