"""The job's cards themselves: memory at the brim, memory that one card keeps, a lowered power limit."""

from __future__ import annotations

from itertools import pairwise

from gpumon.analysis.case import percent
from gpumon.analysis.findings import gains, signals
from gpumon.analysis.findings.detector import Detector, Found
from gpumon.analysis.findings.subject import Subject
from gpumon.analysis.strategy import SHARDED
from gpumon.model.text import counted

BRIM = 0.97  # of the card's memory; pools take 0.90, and what is left below the brim serves the allocator
# One card's surplus over the others. A rank's context on card 0 is 0.4 to 2 GB for each other rank (published lists).
SURPLUS = 0.2  # of the card's memory
CONTEXT_BYTES = 0.5e9
LIMITS_THE_BATCH = 0.7  # of the memory in use on the fullest card
EVEN_MEMORY = frozenset({"ddp", "zero1", "zero2", "tp", *SHARDED})  # every card holds the same
LOWERED = 0.9  # of the default limit
AT_LIMIT = 0.88  # of the limit that is drawn
HELD = 0.2  # of the time with the driver's power reason
# Speed kept at a share of the default limit, matrix products: 300 of 600 W 0.55, 500 of 600 W 0.87 (RTX PRO 6000
# sweep). Other work loses less.
SPEED_KEPT = ((0.5, 0.55), (0.833, 0.87), (1.0, 1.0))


def memory_nearly_full(subject: Subject, edge: float) -> Found | None:
    """A training has next to no device memory left."""
    if subject.serving or not subject.strategy.strategy or (subject.size > 1 and not subject.layout.framework):
        return None
    fullest = max(subject.cards, key=lambda facts: facts.memory_share)
    brim = BRIM if edge == 1.0 else BRIM - 0.01
    if fullest.memory_share < brim:
        return None
    free = (fullest.memory_total - fullest.seen.memory_used) / 1e9
    return Found((f"card {fullest.gpu} uses {percent(fullest.memory_share)} of its memory; {free:.1f} GB are free",))


def memory_imbalance(subject: Subject, edge: float) -> Found | None:
    """One card of equals holds much more, and is nearly full."""
    if subject.size < 2 or subject.strategy.strategy not in EVEN_MEMORY:
        return None
    ordered = sorted(subject.cards, key=lambda facts: facts.seen.memory_used)
    fullest, usual = ordered[-1], ordered[(len(ordered) - 1) // 2]
    more = fullest.seen.memory_used - usual.seen.memory_used
    if more < max(SURPLUS * fullest.memory_total, CONTEXT_BYTES * subject.size) * edge:
        return None
    if fullest.memory_share < LIMITS_THE_BATCH * edge:
        return None
    return Found(
        (
            f"card {fullest.gpu} holds {fullest.seen.memory_used / 1e9:.1f} GB, {more / 1e9:.1f} GB more than the "
            f"others' {usual.seen.memory_used / 1e9:.1f} GB",
        )
    )


def _speed_kept(share: float) -> float:
    """Return the share of full speed at a share of the default power limit, between published points."""
    if share <= SPEED_KEPT[0][0]:
        return SPEED_KEPT[0][1] * share / SPEED_KEPT[0][0]
    for (x0, y0), (x1, y1) in pairwise(SPEED_KEPT):
        if share <= x1:
            return y0 + (y1 - y0) * (share - x0) / (x1 - x0)
    return 1.0


def power_limited(subject: Subject, edge: float) -> Found | None:
    """The limit is lowered, and the cards are held by it."""
    held = [
        facts
        for facts in subject.cards
        if facts.seen.power_limit <= LOWERED * facts.seen.power_default
        and (
            facts.seen.throttled.get("sw_power_cap", 0.0) >= HELD * edge
            or facts.seen.power.high_quarter >= AT_LIMIT * edge * facts.seen.power_limit
        )
    ]
    if not held:
        return None
    lowest = min(held, key=lambda facts: facts.seen.power_limit / facts.seen.power_default)
    share = lowest.seen.power_limit / lowest.seen.power_default
    return Found(
        (
            f"card {lowest.gpu} is limited to {lowest.seen.power_limit:.0f} W of {lowest.seen.power_default:.0f} W and "
            f"draws {lowest.seen.power.high_quarter:.0f} W; {len(held)} of {counted(subject.size, 'card')} held so",
        ),
        (1.0, round(gains.speed_up(1.0 - _speed_kept(share)), 2)),
    )


DETECTORS: tuple[Detector[Subject], ...] = (
    Detector("memory_nearly_full", (signals.MEMORY, signals.COMMAND_LINE), memory_nearly_full, looks=3, any_class=True),
    Detector("memory_imbalance", (signals.MEMORY, signals.STRATEGY), memory_imbalance, looks=3),
    Detector("power_limited", (signals.POWER, signals.POWER_LIMIT), power_limited, looks=3, any_class=True),
)
