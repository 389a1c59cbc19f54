"""How long an answer stands: a finding holds after several looks in a row have found it, and goes slowly.

Looks are ten seconds apart. A detector that misses three looks in a row has changed its mind; while the verdict is
being settled anew nobody asks, and what held goes on holding for a minute. Where a signal a finding needs is gone,
the finding is gone at once: it would rest on nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpumon.analysis.findings.detector import HELD_EDGE, Detector, Found, Kind
from gpumon.model.findings import CATALOGUE, FINDINGS_BY_NAME
from gpumon.model.verdict import Finding

MISSES = 3
KEPT_UNASKED_S = 60.0

_ORDER = {row.finding: number for number, row in enumerate(CATALOGUE)}
_SEVERITY = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class Holding:
    """One finding's standing."""

    answer: Found
    found: int = 1  # looks in a row
    missed: int = 0  # looks in a row, since it was last found
    found_s: float = math.nan  # when it was last found
    holds: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """What stands of one job, or of the node."""

    by_name: Mapping[str, Holding] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def settle(
    held: Held,
    detectors: tuple[Detector[Kind], ...],
    ask: Callable[[Detector[Kind], float], Found | None],
    *,
    there: Callable[[Detector[Kind]], bool],
    askable: Callable[[Detector[Kind]], bool],
    now_s: float,
) -> Held:
    """Return what stands after one look.

    Args:
        ask: puts the question to one detector, given the edge of its thresholds.
        there: whether the signals it needs were there.
        askable: whether it is asked now; False while the verdict is being settled.
    """
    standing: dict[str, Holding] = {}
    for detector in detectors:
        before = held.by_name.get(detector.finding)
        if not there(detector):
            continue
        if not askable(detector):
            if before is not None and before.holds and now_s - before.found_s < KEPT_UNASKED_S:
                standing[detector.finding] = before
            continue
        answer = ask(detector, HELD_EDGE if before is not None and before.holds else 1.0)
        after = _after(before, answer, detector.looks, now_s)
        if after is not None:
            standing[detector.finding] = after
    return Held(standing, _told(standing))


def _after(before: Holding | None, answer: Found | None, looks: int, now_s: float) -> Holding | None:
    if answer is None:
        if before is None or not before.holds or before.missed + 1 >= MISSES:
            return None
        return Holding(before.answer, before.found, before.missed + 1, before.found_s, holds=True)
    found = 1 if before is None else before.found + 1
    holds = found >= looks or (before is not None and before.holds)
    return Holding(answer, found, 0, now_s, holds)


def _told(standing: Mapping[str, Holding]) -> tuple[Finding, ...]:
    """Return the findings that hold, the gravest first, then in the catalogue's order."""
    found = [
        FINDINGS_BY_NAME[name].found(holding.answer.evidence, holding.answer.gain)
        for name, holding in standing.items()
        if holding.holds
    ]
    return tuple(sorted(found, key=lambda finding: (_SEVERITY[finding.severity], _ORDER[finding.finding])))
