"""Which cards the job uses: too few of those it has, some of them for nothing, unequal ones, or one that is taken."""

from __future__ import annotations

import math

from gpumon.analysis.case import percent
from gpumon.analysis.findings import signals
from gpumon.analysis.findings.detector import Detector, Found
from gpumon.analysis.findings.subject import Subject
from gpumon.analysis.strategy import SYNCHRONOUS, WORKS

WORKING = 0.3  # of the time with a kernel: the job is at it
RESTING = 0.02  # below: rounding and a clock's housekeeping
NEIGHBOUR_BYTES = 0.5e9  # a process that holds less is a context and does nothing


def _visible(subject: Subject) -> int:
    """Return how many cards CUDA_VISIBLE_DEVICES leaves the job; -1 where it is not set."""
    value = subject.layout.visible_devices
    return -1 if value is None else len({entry for entry in value.split(",") if entry.strip()})


def one_card_used(subject: Subject, edge: float) -> Found | None:
    """One card works, and others were given to the job and have no process."""
    if subject.size != 1 or not subject.given or 0 < _visible(subject) < subject.job.allocated:
        return None
    busy = 1.0 - subject.cards[0].seen.gap
    if not busy >= WORKING * edge:
        return None
    return Found(
        (
            f"the job was given {subject.job.allocated} cards; card {subject.cards[0].gpu} has its only process and is "
            f"busy {percent(busy)} of the time, {_without(len(subject.given))}",
        ),
        (1.0, float(1 + len(subject.given))),
    )


def visible_devices_narrow(subject: Subject, edge: float) -> Found | None:
    """The variable names fewer cards than the job was given, and the others have no process."""
    visible = _visible(subject)
    if visible < 1 or visible >= subject.job.allocated or not subject.given:
        return None
    return Found(
        (
            f"CUDA_VISIBLE_DEVICES names {visible} of the {subject.job.allocated} cards the job was given; "
            f"{_without(len(subject.given))} of it",
        )
    )


def cards_idle(subject: Subject, edge: float) -> Found | None:
    """Some of its cards run nothing while the others work."""
    busy = {facts.gpu: 1.0 - facts.seen.gap for facts in subject.cards}
    resting = [gpu for gpu, share in busy.items() if share < RESTING / edge]
    working = [gpu for gpu, share in busy.items() if share >= WORKING * edge]
    if not resting or not working or subject.seconds < 30.0 * edge:
        return None
    names = ", ".join(str(gpu) for gpu in sorted(resting))
    return Found(
        (
            f"card {names} ran nothing for {subject.seconds:.0f} s while {_others(len(working))} busy "
            f"{percent(sum(busy[gpu] for gpu in working) / len(working))} of the time",
        )
    )


def _others(number: int) -> str:
    return "another was" if number == 1 else f"{number} others were"


def _without(number: int) -> str:
    return "1 has no process" if number == 1 else f"{number} have no process"


def mixed_cards(subject: Subject, edge: float) -> Found | None:
    """Cards of several products take part in one computation."""
    names: dict[str, int] = {}
    for facts in subject.cards:
        names[facts.card.identity.name] = names.get(facts.card.identity.name, 0) + 1
    if len(names) < 2 or subject.strategy.strategy not in SYNCHRONOUS:
        return None
    return Found((" and ".join(f"{count} x {name}" for name, count in names.items()) + " work on the same steps",))


def two_jobs_one_card(subject: Subject, edge: float) -> Found | None:
    """Another job of the same owner has a process on one of its cards, and both are at work."""
    sharing = [
        other
        for other in subject.neighbours
        if (other.tenant == subject.job.tenant if subject.tenants_known else True)
        and other.gpu_job != subject.job.gpu_job
    ]
    if subject.tenants_known and subject.job.tenant == "unassigned":
        return None
    held = {card.uuid: card.memory_bytes for card in subject.job.cards if card.used}
    for other in sharing:
        for card in other.cards:
            mine = held.get(card.uuid, math.nan)
            if mine >= NEIGHBOUR_BYTES and card.memory_bytes >= NEIGHBOUR_BYTES and card.used:
                facts = next((facts for facts in subject.cards if facts.seen.uuid == card.uuid), None)
                if facts is None or not 1.0 - facts.seen.gap >= WORKS * edge:
                    continue
                return Found(
                    (
                        f"on card {facts.gpu} this job holds {mine / 1e9:.1f} GB and job {other.gpu_job} "
                        f"{card.memory_bytes / 1e9:.1f} GB; it is busy {percent(1.0 - facts.seen.gap)} of the time",
                    )
                )
    return None


DETECTORS: tuple[Detector[Subject], ...] = (
    Detector(
        "one_card_used",
        (signals.ALLOCATION, signals.PROCESS_LIST, signals.UTILIZATION),
        one_card_used,
        looks=3,
        any_class=True,
    ),
    Detector(
        "visible_devices_narrow",
        (signals.ENVIRONMENT, signals.ALLOCATION, signals.PROCESS_LIST),
        visible_devices_narrow,
        looks=3,
        any_class=True,
    ),
    Detector("cards_idle", (signals.PROCESS_LIST, signals.UTILIZATION), cards_idle, looks=4, any_class=True),
    Detector("mixed_cards", (signals.STRATEGY,), mixed_cards),
    Detector(
        "two_jobs_one_card", (signals.PROCESS_LIST, signals.UTILIZATION), two_jobs_one_card, looks=3, any_class=True
    ),
)
