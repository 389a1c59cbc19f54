"""The case a cause judges, and its answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gpumon.analysis.evidence import CardEvidence, JobEvidence
from gpumon.analysis.time_split import Split
from gpumon.analysis.waiting import Waiting
from gpumon.model.job import Job
from gpumon.model.verdict import JobClass


@dataclass(frozen=True, slots=True)
class Case:
    """Everything known of one job over its window."""

    job: Job
    evidence: JobEvidence
    split: Split | None
    waiting: Waiting = field(default_factory=Waiting)
    still_s: float = 0.0  # how long nothing has moved: power flat, links quiet, no host progress
    step_s: float = math.nan

    @property
    def cards(self) -> tuple[CardEvidence, ...]:
        """Return the cards that answered and that the job uses."""
        return self.evidence.working

    def host(self, name: str) -> float:
        """Return the mean of one host rate over the window, NaN where not readable."""
        return self.evidence.host.get(name, math.nan)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One cause's answer: how well what was seen fits it, 0 to 1, and why."""

    job_class: JobClass
    detail: str
    weight: float
    evidence: tuple[str, ...] = ()
    against: str = ""  # what would prove it wrong
    # Idle, hung and throttled are judged before the time split; the others name the detail of the class it gives.
    decisive: bool = False


# A throttled job is one whose card time is for more than half slowed, an idle one whose cards have nothing to do for
# more than half. Near a half that is a matter of taste, and the confidence says so.
DOUBTFUL = 0.42
SHARE_SCALE = 0.11  # a share this far from a half leaves 0.37 of the doubt


def confidence_of(share: float) -> float:
    """Return the confidence that a share of the card time is more than half."""
    doubt = 0.5 * math.exp(-abs(share - 0.5) / SHARE_SCALE)
    return 1.0 - doubt if share >= 0.5 else doubt


# A clock that lost this much says by itself that the card is slowed; one that lost nothing leaves the doubt whether the
# limit costs anything.
CLOCK_LOST = 0.2
LOST_NOTHING = 0.1


def doubt_of_clock(clock_ratio: float) -> float:
    """Return the doubt that a card under a limit is slowed by it, from its SM clock over the highest one."""
    lost = 0.0 if math.isnan(clock_ratio) else max(0.0, 0.95 - clock_ratio)
    return LOST_NOTHING * max(0.0, 1.0 - lost / CLOCK_LOST)


def percent(ratio: float) -> str:
    """Return a ratio as people read it."""
    return f"{100 * ratio:.0f} %"


def gigabytes(bytes_per_second: float) -> str:
    """Return a rate in GB/s with sensible digits, MB/s below 0.1."""
    if bytes_per_second < 1e8:
        return f"{bytes_per_second / 1e6:.0f} MB/s"
    return f"{bytes_per_second / 1e9:.1f} GB/s"


def mean_of(cards: tuple[CardEvidence, ...], name: str) -> float:
    """Return the mean of one figure over the cards that have it; NaN when none has."""
    values = [value for value in (getattr(card, name) for card in cards) if not math.isnan(value)]
    return sum(values) / len(values) if values else math.nan
