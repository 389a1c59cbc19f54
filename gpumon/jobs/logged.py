"""Cards of another tool's log: nobody's job as a whole, since a log names no process.

The log is what was watched: the job is there from its first sample to its last, on the cards that have worked in it so
far, before that on all. A file may hold one run after the other: a card whose rows end leaves the job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gpumon.model.card import LinkSource
from gpumon.model.samples import CardTick, Tick

# A logger that was late, or a line that was torn, is no end.
ROWS_ENDED_S = 60.0
# Of the limit. A card with a context open and no kernel draws 0.17 of it (H100, recorded); a burn or a training 0.5 up.
DRAWS_RATIO = 0.3
DRAWS_WATTS = 150.0  # without a limit: above what any card is known to draw at rest


def with_rows(tick: Tick) -> frozenset[str]:
    """Return the cards of a log that have a row in this tick; none of a node that is watched."""
    logs = {card.identity.uuid for card in tick.cards if card.capabilities.pcie_source is LinkSource.LOG}
    if not logs:
        return frozenset()
    return frozenset(card.uuid for card in tick.card_ticks if card.uuid in logs and not math.isnan(card.last_sample_s))


def draws(card: CardTick) -> bool:
    """Return True where power is all that is known of a card's work, and says that there is some."""
    if card.processes is not None or card.utilization.value.size or "memory_used_bytes" in card.readings:
        return False
    limit = card.reading("power_limit_watts")
    least = DRAWS_WATTS if math.isnan(limit) else DRAWS_RATIO * limit
    return card.up and card.reading("power_watts") >= least


def worked(before: Mapping[str, float], rows: frozenset[str], busy: frozenset[str], now_s: float) -> dict[str, float]:
    """Return the cards that have worked in the log so far, and when each last had a row."""
    seen = {uuid: now_s if uuid in rows else last_s for uuid, last_s in before.items()}
    seen |= dict.fromkeys(busy & rows, now_s)
    return {uuid: last_s for uuid, last_s in seen.items() if now_s - last_s < ROWS_ENDED_S}
