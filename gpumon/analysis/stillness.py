"""How long nothing of a job has moved, for the judgement of a hang."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpumon.analysis.causes.hung import card_stands_still
from gpumon.analysis.evidence import JobEvidence

# Disk and network progress that ends a stillness, bytes per second. Logs of a watchdog stay far below.
PROGRESS_BYTES = 1e5


@dataclass(frozen=True, slots=True)
class Stillness:
    """Since when nothing moves; NaN while something does."""

    since_s: float = math.nan

    def seconds(self, now_s: float) -> float:
        """Return for how long nothing has moved."""
        return 0.0 if math.isnan(self.since_s) else now_s - self.since_s


def extend(past: Stillness, seen: JobEvidence, now_s: float) -> Stillness:
    """Return the stillness after one more look at the job."""
    up = [card for card in seen.cards if card.up]
    moved = (
        any(
            seen.host.get(name, math.nan) >= PROGRESS_BYTES
            for name in ("read_bytes_per_second", "write_bytes_per_second", "loopback_bytes_per_second")
        )
        or seen.host.get("relatives_cpus", math.nan) >= 0.2
    )
    if not up or moved or not all(card_stands_still(card) for card in up):
        return Stillness()
    return past if not math.isnan(past.since_s) else Stillness(now_s)
