"""The cards a job waits for, as they are named: which, why, and what it costs.

A name is a claim about one card, so it needs the same finding in two judgements in a row. Not so where a card's host
was late over a long window: gaps are counted, not read off levels that may be learned anew, and the next judgement
would look at nearly the same seconds again. The cause is what can be shown of that card: its host, heat, limit, clock,
link, a neighbour; else it is unknown (silicon differs).
"""

from __future__ import annotations

import math

from gpumon.analysis.case import mean_of
from gpumon.analysis.causes import throttled_thermal
from gpumon.analysis.evidence import CardEvidence
from gpumon.analysis.waiting import Waiting, seen_for_long
from gpumon.model.verdict import Straggler

HEAT = 0.2  # of the window under thermal reasons
LOWER = 0.95  # of the other cards' limit or clock


def cause_of(card: CardEvidence, others: tuple[CardEvidence, ...], *, by_host: bool, by_link: bool) -> str:
    """Return why a card is waited for; values of `Straggler.cause`."""
    if by_host:
        return "host"
    if by_link:
        return "link"
    if throttled_thermal.share(card) >= HEAT:
        return "thermal"
    braked = card.throttled.get("hw_power_brake", 0.0) >= HEAT
    capped = card.throttled.get("sw_power_cap", 0.0) >= HEAT
    if braked or (capped and card.power_limit <= LOWER * mean_of(others, "power_limit")):
        return "power"
    if card.shared and not all(other.shared for other in others):
        return "neighbour"
    if card.sm_clock_ratio <= LOWER * mean_of(others, "sm_clock_ratio"):
        return "clock"
    return "unknown"


def named(cards: tuple[CardEvidence, ...], waiting: Waiting, before: Waiting) -> tuple[Straggler, ...]:
    """Return the stragglers of this judgement that the one before found as well, or that were late for long."""
    late_for_long = waiting.by_host and seen_for_long(cards)
    culprits = waiting.culprits if late_for_long else waiting.culprits & before.culprits
    found = []
    for card in cards:
        if card.uuid not in culprits:
            continue
        others = tuple(other for other in cards if other.uuid not in waiting.culprits)
        cause = cause_of(card, others, by_host=waiting.by_host, by_link=waiting.by_link)
        cost = waiting.cost_ratio if not math.isnan(waiting.cost_ratio) else 0.0
        found.append(Straggler(card.uuid, card.gpu, cause, cost))
    return tuple(found)
