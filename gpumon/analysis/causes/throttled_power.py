"""Throttled by a power limit: somebody set the limit at least a tenth below the card's default, and it binds.

Looks like: enforced limit at most 0.9 of the default, the software power cap active for most of the time, power at the
limit while it works, the SM clock below its highest.
Confused with: a card at its default limit (the cap is normal under full load), a lowered limit that the job never
reaches because it waits for something else.
Source: RTX PRO 6000 sweep: 300 of 600 W leaves 55 % of the speed, 500 W 87 %; nvml.h reason 0x4.
"""

from __future__ import annotations

from gpumon.analysis.case import Case, Suspicion, percent
from gpumon.analysis.evidence import CardEvidence
from gpumon.model.verdict import JobClass

LOWERED = 0.9  # of the default limit: CONTRACT
BINDS = 0.5  # of the window under the cap
AT_LIMIT = 0.9  # of the limit, while it works


def _binds(card: CardEvidence) -> bool:
    if not card.power_limit <= LOWERED * card.power_default:
        return False
    capped = card.throttled.get("sw_power_cap", 0.0)
    return capped >= BINDS and card.power.high_quarter >= AT_LIMIT * card.power_limit


def judge(case: Case) -> Suspicion | None:
    """Return the suspicion where a lowered limit binds on most cards, or on the one the others wait for."""
    held = [card for card in case.cards if _binds(card)]
    waited_for = any(card.uuid in case.waiting.culprits for card in held)
    if not held or (2 * len(held) < len(case.cards) and not waited_for):
        return None
    worst = min(held, key=lambda card: card.power_limit / card.power_default)
    capped = worst.throttled.get("sw_power_cap", 0.0)
    return Suspicion(
        JobClass.THROTTLED,
        "power",
        min(0.95, 0.6 + 0.35 * capped),
        (
            f"card {worst.gpu} is limited to {worst.power_limit:.0f} W; its default is {worst.power_default:.0f} W",
            f"it draws {worst.power.high_quarter:.0f} W at work and the limit held it {percent(capped)} of the time",
            f"{len(held)} of the job's {len(case.cards)} cards are held so",
        ),
        "the same speed with the limit back at its default",
        decisive=True,
    )
