"""What each kind of sample says of each period a job's work might have.

The kinds are witnesses: power, link, NVLink, and the driver's rings of utilization and memory-controller activity,
which are sampled in the same moments and so count as one. Every lag after which one of them looks like itself is a
candidate for all of them, and so are its parts: what is sampled too seldom shows a multiple.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpumon.analysis.common_signal import Common, halved, newest
from gpumon.analysis.folding import explained
from gpumon.analysis.likeness import lags

POWER, RINGS = "power", "rings"
WITNESS = {"power": POWER, "link": "link", "nvlink": "nvlink", "utilization": RINGS, "memory_controller": RINGS}
PARTS = (2, 3, 4, 5, 6)  # of a candidate that are tried
WORTH_PARTS = 0.3  # least share a candidate explains somewhere: parts of what nobody sees are not tried
SAME = 0.006  # two candidates closer than this are one
FEWEST_MEASUREMENTS = 2.0  # in a period: with fewer there is nothing to tell it by
FEWEST_CYCLES = 3.5  # in the signal
# A short period repeats often enough in half a minute, and heat changes it within a whole one; a long one needs no
# sample of every 20 ms.
SHORT_S, MIDDLE_S = 0.6, 6.0
SHORT_WINDOW_S, MIDDLE_WINDOW_S = 30.0, 40.0
FINE_S = 0.03


@dataclass(frozen=True, slots=True)
class Witness:
    """One witness: how often it measures, and the share of its movement that each candidate explains."""

    refresh_s: float
    shares: Mapping[float, float] = field(default_factory=dict)  # by candidate, seconds

    @property
    def best(self) -> float:
        """Return the share its best candidate explains."""
        return max(self.shares.values(), default=0.0)

    @property
    def best_s(self) -> float:
        """Return the candidate it likes best."""
        return max(self.shares, key=lambda period_s: self.shares[period_s])


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of sample, ready to be folded at any period."""

    signal: Common
    short: Common  # for short periods
    middle: Common
    long: Common

    def sees(self, period_s: float) -> bool:
        """Return True for a period that the signal has enough measurements and cycles of."""
        enough = period_s >= FEWEST_MEASUREMENTS * self.signal.refresh_s
        return enough and period_s * FEWEST_CYCLES <= self.signal.seconds

    def share(self, period_s: float) -> float:
        """Return the share of the signal that a period explains."""
        if period_s < SHORT_S:
            return explained(self.short, period_s)
        return explained(self.middle if period_s < MIDDLE_S else self.long, period_s)


def _kind(signal: Common) -> _Kind:
    long = halved(signal) if signal.even and signal.pace_s < FINE_S else signal
    return _Kind(signal, newest(signal, SHORT_WINDOW_S), newest(long, MIDDLE_WINDOW_S), long)


def hear(signals: Mapping[str, Common], beats: Sequence[float] = ()) -> dict[str, Witness]:
    """Return what each witness says, by its name; those that see no candidate are left out.

    Args:
        signals: the common signal of each kind of sample; keys are those of WITNESS.
        beats: further candidates.
    """
    kinds = {name: _kind(signal) for name, signal in signals.items()}
    shares: dict[str, dict[float, float]] = {WITNESS[name]: {} for name in kinds}

    def ask(candidates: list[float]) -> list[float]:
        """Let every kind that sees a candidate answer, and return those that explain something."""
        worth = []
        for period_s in candidates:
            most = 0.0
            for name, kind in kinds.items():
                if kind.sees(period_s):
                    share = kind.share(period_s)
                    known = shares[WITNESS[name]]
                    known[period_s] = max(share, known.get(period_s, share))
                    most = max(most, share)
            if most >= WORTH_PARTS:
                worth.append(period_s)
        return worth

    whole = _apart([lag for signal in signals.values() for lag in lags(signal)] + list(beats), [])
    worth = ask(whole)
    ask(_apart([period_s / part for period_s in _bases(worth) for part in PARTS], whole))
    refresh = {
        witness: max(signal.refresh_s for name, signal in signals.items() if WITNESS[name] == witness)
        for witness in shares
    }
    return {witness: Witness(refresh[witness], known) for witness, known in shares.items() if known}


def _bases(candidates: list[float]) -> list[float]:
    """Return the candidates, shortest first, that are no multiples of a shorter one: their parts are its parts."""
    bases: list[float] = []
    for period_s in candidates:
        ratios = [period_s / base for base in bases]
        if not any(abs(ratio - round(ratio)) <= SAME * ratio for ratio in ratios):
            bases.append(period_s)
    return bases


def _apart(candidates: list[float], known: list[float]) -> list[float]:
    """Return the candidates without those that are nearly the same as another or a known one."""
    kept: list[float] = []
    for period_s in sorted(candidates):
        near = kept[-1:] + [other for other in known if abs(other - period_s) <= SAME * period_s]
        if not any(abs(other - period_s) <= SAME * period_s for other in near):
            kept.append(period_s)
    return kept
