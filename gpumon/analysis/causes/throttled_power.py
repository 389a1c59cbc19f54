"""Throttled by a power limit: somebody set the limit at least a tenth below the card's default, and it binds.

Looks like: enforced limit at most 0.9 of the default, the software power cap active for most of the time, power at the
limit while it works, the SM clock below its highest.
Confused with: a card at its default limit (the cap is normal under full load), a lowered limit that the job never
reaches because it waits for something else.
Source: RTX PRO 6000 sweep: 300 of 600 W leaves 55 % of the speed, 500 W 87 %; nvml.h reason 0x4.
"""

from __future__ import annotations

import math

from gpumon.analysis.case import DOUBTFUL, Case, Suspicion, confidence_of, doubt_of_clock, percent
from gpumon.analysis.evidence import CardEvidence
from gpumon.model.text import counted
from gpumon.model.verdict import JobClass

LOWERED = 0.9  # of the default limit: CONTRACT
BINDS = 0.2  # of the window under the cap, on one card
AT_LIMIT = 0.9  # of the limit, while it works


def _share(card: CardEvidence) -> float:
    """Return the share of the window in which a lowered limit held the card."""
    if not card.power_limit <= LOWERED * card.power_default:
        return 0.0
    if not card.power.high_quarter >= AT_LIMIT * card.power_limit:
        return 0.0
    capped = card.throttled.get("sw_power_cap", 0.0)
    return capped if capped >= BINDS else 0.0


def cannot_tell(case: Case) -> bool:
    """Return True where the cap holds most of the card time and no limit can be read: a lowered one would decide."""
    unread = [card for card in case.cards if math.isnan(card.power_limit) or math.isnan(card.power_default)]
    return sum(card.throttled.get("sw_power_cap", 0.0) for card in unread) >= DOUBTFUL * len(case.cards)


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where a lowered limit holds most of the card time, or the card the others wait for."""
    held = [card for card in case.cards if _share(card) > 0.0]
    if not held:
        return None
    mostly = sum(_share(card) for card in held) / len(case.cards)
    waited_for = any(card.uuid in case.waiting.culprits for card in held)
    if mostly < DOUBTFUL and not waited_for:
        return None
    worst = min(held, key=lambda card: card.power_limit / card.power_default)
    draws = f"it draws {worst.power.high_quarter:.0f} W at work"
    return Suspicion(
        JobClass.THROTTLED,
        "power",
        confidence_of(mostly) - doubt_of_clock(worst.sm_clock_ratio) if mostly >= DOUBTFUL else 0.85,
        (
            f"card {worst.gpu} is limited to {worst.power_limit:.0f} W; its default is {worst.power_default:.0f} W",
            f"{draws} and the limit held it {percent(_share(worst))} of the time",
            f"{len(held)} of the job's {counted(len(case.cards), 'card')} held so",
        ),
        "the same speed with the limit back at its default",
        decisive=mostly >= DOUBTFUL,
    )
