"""Deadlines on an absolute grid: lateness never shifts them, and what was passed over is counted."""

from __future__ import annotations


def next_deadline(due_s: float, period_s: float, now_s: float) -> tuple[float, int]:
    """Return the next deadline on the grid through due_s that lies ahead, and how many were passed over."""
    following_s = due_s + period_s
    if following_s > now_s:
        return following_s, 0
    late = int((now_s - following_s) / period_s) + 1
    return following_s + late * period_s, late
