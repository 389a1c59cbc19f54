"""Before and after: what changed between two reports of the same work."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpumon.model.verdict import TIME_STATES
from gpumon.ui.report import Report
from gpumon.ui.state_json import JobState

# Steps vary by a few per cent from run to run; below this nothing is claimed.
SAME_RATIO = 0.03


@dataclass(frozen=True, slots=True)
class Change:
    """One job in both reports."""

    before: JobState
    after: JobState

    def speed_up(self) -> float:
        """Return how many times as fast a step is after the change, NaN when a period is not known.

        True of the work only if a step does the same work in both runs; who compares knows that.
        """
        before, after = self.before.step_seconds, self.after.step_seconds
        return before / after if before > 0 and after > 0 else math.nan

    def sentence(self) -> str:
        """Return the change in one sentence."""
        factor = self.speed_up()
        if not math.isnan(factor) and abs(factor - 1.0) >= SAME_RATIO:
            faster = f"{factor:.2f} times as fast" if factor > 1 else f"slower, {1 / factor:.2f} times as long"
            return (
                f"A step takes {self.after.step_seconds:.3g} s instead of {self.before.step_seconds:.3g} s: {faster}."
            )
        if not math.isnan(factor):
            return f"A step takes {self.after.step_seconds:.3g} s, as before."
        shift = self._largest_shift()
        if shift is None:
            return "Neither the length of a step nor the time split is known in both runs."
        name, old, new = shift
        return f"Time in {name.replace('_', ' ')}: {new:.0%} instead of {old:.0%}. The length of a step is not known."

    def _largest_shift(self) -> tuple[str, float, float] | None:
        before, after = self.before.time_ratio, self.after.time_ratio
        if before is None or after is None:
            return None
        name = max(TIME_STATES, key=lambda state: abs(after[state] - before[state]))
        return name, before[name], after[name]


def changes(before: Report, after: Report) -> tuple[Change, ...]:
    """Return the jobs that both reports have.

    A job is known again by its name, else by its cards, else, where each report has one job, by that.
    """
    left = list(before.jobs)
    found = []
    for job in after.jobs:
        match = next((old for old in left if old.gpu_job == job.gpu_job), None)
        match = match or next((old for old in left if old.gpus == job.gpus), None)
        if match is None and len(before.jobs) == len(after.jobs) == 1:
            match = before.jobs[0]
        if match is not None:
            left.remove(match)
            found.append(Change(match, job))
    return tuple(found)
