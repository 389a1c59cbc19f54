"""Whether a change came true: a finding promised a gain, and the workload's next run is without the finding.

A run keeps the findings that stood for most of it. The next run of the workload on as many cards that lacks one with
an expected gain is compared with it, by what both reported or by the length of their steps. What else was changed
between the two is not known: the seen gain is that of all of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gpumon.model.past import Run
from gpumon.model.verdict import Outcome
from gpumon.scaling.compare import comparable, throughput_of

# A finding takes up to a minute to be told; a run is without it only when it was watched for twice as long.
LEAST_WATCHED_S = 120.0


def came_true(now: Run, known: Iterable[Run]) -> Outcome | None:
    """Return what the change before this run was to bring and what it brought; None where there is nothing to say.

    Args:
        known: runs of any workload, this one among them or not, in any order.
    """
    if now.watched_s < LEAST_WATCHED_S:
        return None
    earlier = [
        one
        for one in known
        if comparable(now, one)
        and one.end_wall_s <= now.begin_wall_s
        and (one.count, one.topology) == (now.count, now.topology)
    ]
    before = max(earlier, key=lambda one: one.end_wall_s, default=None)
    if before is None:
        return None
    standing = {held.finding for held in now.findings}
    gone = [held for held in before.findings if held.gain is not None and held.finding not in standing]
    seen = throughput_of(before, now) if gone else None
    if seen is None or not seen.ratio > 0.0:
        return None
    gains = [held.gain for held in gone if held.gain is not None]
    return Outcome(
        findings=tuple(held.finding for held in gone),
        # Several changes bring at least what the best of them does, and at most all of it one after the other.
        expected=(max(low for low, _ in gains), math.prod(high for _, high in gains)),
        seen=1.0 / seen.ratio,
        uncertainty=seen.uncertainty / seen.ratio,
        evidence=seen.evidence,
        before_wall_s=before.end_wall_s,
    )
