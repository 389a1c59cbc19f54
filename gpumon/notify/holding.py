"""From conditions that come and go to alerts that begin once and end once. Pure: time is the tick's.

A condition is told when it was seen for its share of its window, and over when it has been absent for `CLEAR_S` in all
since it last reached that share. So neither a verdict that wavers nor a few ticks without one repeat an alert, and an
alert that was told before a restart needs ten minutes of absence to end, not a full window to be told anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpumon.notify.alerts import CLEAR_S, HOLDS, Hold
from gpumon.notify.condition import Condition

_PARTS = 20  # of a window: how finely the past is kept


@dataclass(frozen=True, slots=True)
class Held:
    """What is remembered of one condition."""

    condition: Condition
    seen_s: tuple[float, ...] = (0.0,)  # seconds seen in each part of the window, oldest first
    part_s: float = 0.0  # length of the newest part so far
    firing: bool = False
    absent_s: float = 0.0  # of a firing one, since it last had its share

    @property
    def lasts(self) -> bool:
        """Whether it still has its share. One that fires without it is on its way out, too late to be told first."""
        return self.firing and self.absent_s == 0.0


@dataclass(frozen=True, slots=True)
class Change:
    """What began and what ended at one tick."""

    began: tuple[Condition, ...] = ()
    ended: tuple[Condition, ...] = ()


Holding = Mapping[str, Held]


def restored(firing: Iterable[Condition]) -> Holding:
    """Return the memory after a restart: what was firing still is."""
    return {condition.key: Held(condition, firing=True) for condition in firing if condition.alert in HOLDS}


def observe(holding: Holding, conditions: Iterable[Condition], span_s: float) -> tuple[Holding, Change]:
    """Return the memory after one more tick, and what changed.

    Args:
        conditions: those that hold now.
        span_s: time since the last tick.
    """
    now = {condition.key: condition for condition in conditions}
    after: dict[str, Held] = {}
    began, ended = [], []
    for key in (*holding, *(key for key in now if key not in holding)):
        before = holding.get(key) or Held(now[key])
        held = _advanced(before, now.get(key), span_s)
        if held.firing and not before.firing:
            began.append(held.condition)
        if before.firing and not held.firing:
            ended.append(held.condition)
        elif held.firing or any(held.seen_s):
            after[key] = held
    return after, Change(tuple(began), tuple(ended))


def _advanced(held: Held, condition: Condition | None, span_s: float) -> Held:
    hold = HOLDS[held.condition.alert]
    seen_s, part_s = _shifted(held.seen_s, held.part_s + span_s, hold)
    if condition is not None:
        seen_s = (*seen_s[:-1], seen_s[-1] + span_s)
    enough = sum(seen_s) >= hold.share * hold.window_s
    absent_s = 0.0 if enough else held.absent_s + (span_s if condition is None else 0.0)
    return replace(
        held,
        condition=condition or held.condition,
        seen_s=seen_s,
        part_s=part_s,
        firing=enough or (held.firing and absent_s < CLEAR_S),
        absent_s=absent_s,
    )


def _shifted(seen_s: tuple[float, ...], part_s: float, hold: Hold) -> tuple[tuple[float, ...], float]:
    length_s = hold.window_s / _PARTS
    while part_s > length_s:
        seen_s, part_s = (*seen_s, 0.0)[-_PARTS:], part_s - length_s
    return seen_s, part_s
