"""Where the job's behaviour changes, so that the window of evidence never spans two of them.

Once a second each job leaves a mark: four figures of all its cards. A change is a stretch of newest marks that all lie
away from the mean of the marks before, on the same side, by more than the figure's normal wandering. A step of a few
seconds goes up and down within the stretch and is no change; a checkpoint of fifteen seconds is one.

Where the new work itself goes up and down with steps of some seconds, no stretch lies on one side. There a regime that
was steady ends when the mean of a longer stretch has moved by more than its wandering, and most marks with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpumon.model.samples import Floats

# Figures of a mark and how far each must move to count, in its own unit (all are shares).
FIGURES = ("utilization", "least_utilization", "power", "link")
MOVES = (0.2, 0.25, 0.1, 0.1)
SLOWLY = 0.04  # of the distance, each mark
STRETCH_S = 5.0  # a regime that lasts less is part of its neighbour
MIXED_MARKS = 8  # of a stretch that may go back and forth
MIXED_OFF = 5  # of them at least lie off, on the side to which the mean has moved
MIXED_SPREAD = 1.2  # times the old regime's wandering that the mean must move by
FINE_PACE = 3  # marks in a stretch of STRETCH_S: with fewer, marks are means over many steps already
KEEP_S = 60.0
KEEP_MARKS = 12


@dataclass(frozen=True, slots=True)
class Marks:
    """One job's marks, oldest first: (time, shape (4,))."""

    marks: tuple[tuple[float, Floats], ...] = ()
    began_s: float = math.nan  # when the present regime began
    from_s: float = math.nan  # evidence is taken from here: one mark later, since the first one may hold both regimes
    away: int = 0  # newest marks that lie off the usual ones, less those between that do not
    usual: tuple[float, ...] = ()  # slow mean of the regime's figures


def pace_s(past: Marks) -> float:
    """Return the mean time between marks, seconds: 1 when gpumon samples, up to 30 in a log of another tool."""
    if len(past.marks) < 2:
        return 1.0
    return (past.marks[-1][0] - past.marks[0][0]) / (len(past.marks) - 1)


def stretch_length(past: Marks) -> int:
    """Return how many marks make a stretch: five seconds of them, and one where they are further apart."""
    return max(1, math.ceil(STRETCH_S / max(pace_s(past), 1e-3) - 1e-6))


def extend(past: Marks, now_s: float, figures: Floats) -> tuple[Marks, bool]:
    """Return the marks with one more, and whether a new regime was found to have begun."""
    marks = (*past.marks, (now_s, figures))
    first = 0
    while len(marks) - first > KEEP_MARKS and marks[first][0] < now_s - KEEP_S:
        first += 1
    marks = marks[first:]
    if math.isnan(past.from_s):
        return Marks(marks, now_s, now_s, 0, tuple(figures.tolist())), False
    usual, off = _usual(past.usual, figures.tolist())
    grown = Marks(marks, past.began_s, past.from_s, past.away + 1 if off else max(0, past.away - 1), usual)
    # The full test is only worth its cost after a stretch of marks that are off.
    found = _new_regime(grown) if grown.away >= stretch_length(grown) else None
    if found is None:
        return grown, False
    return Marks(marks, *found, 0, tuple(figures.tolist())), True


def _usual(usual: tuple[float, ...], figures: list[float]) -> tuple[tuple[float, ...], bool]:
    """Return the slow mean with one more mark, and whether the mark is off: half a move away in any figure."""
    off = False
    moved = []
    for known, seen, move in zip(usual, figures, MOVES, strict=True):
        if math.isnan(seen) or math.isnan(known):
            moved.append(seen if math.isnan(known) else known)
            continue
        off = off or abs(seen - known) > 0.5 * move
        moved.append(known + SLOWLY * (seen - known))
    return tuple(moved), off


def _new_regime(past: Marks) -> tuple[float, float] | None:
    """Return the last old and the first new mark's time; None when the newest marks belong to the present regime."""
    present = [(t, v) for t, v in past.marks if t >= past.from_s]
    length = stretch_length(past)
    if len(present) < 2 * length:
        return None
    mixed = length >= FINE_PACE and len(present) >= 2 * MIXED_MARKS and _moved(past, MIXED_MARKS)
    if not mixed and not _moved(past, length):
        return None
    values = np.stack([v for _, v in present])
    first = _all_off(values, length)
    if first is None and mixed:
        first = _mostly_off(values)
    if first is None:
        return None
    return present[first - 1][0], present[first][0] if length > 1 else present[first - 1][0]


def _moved(past: Marks, length: int) -> bool:
    """Return True where the mean of the newest marks has left the usual one in any figure: a look before the test."""
    mean = sum((v for _, v in past.marks[-length:]), np.zeros(len(FIGURES))) / length
    return any(
        abs(seen - known) > 0.5 * move for seen, known, move in zip(mean.tolist(), past.usual, MOVES, strict=True)
    )


def _all_off(values: Floats, length: int) -> int | None:
    """Return the place of the first mark of a stretch that lies off as a whole; values are of shape (n, 4)."""
    mean, spread, known = _regime(values[:-length])
    with np.errstate(invalid="ignore"):
        away = values[-length:] - mean
        edge = _edge(spread)
        same_side = (away > edge).all(axis=0) | (away < -edge).all(axis=0)
        far = np.abs(away.mean(axis=0)) >= np.maximum(MOVES, 2.0 * spread)
    return len(values) - length if (same_side & far & known).any() else None


def _mostly_off(values: Floats) -> int | None:
    """Return the place of the first mark that is off, where a longer stretch has moved as a whole and in most marks."""
    mean, spread, known = _regime(values[:-MIXED_MARKS])
    with np.errstate(invalid="ignore"):
        away = values[-MIXED_MARKS:] - mean
        moved = away.mean(axis=0)
        off = np.sign(moved) * away > _edge(spread)
        far = np.abs(moved) >= np.maximum(MOVES, MIXED_SPREAD * spread)
    changed = far & known & (off.sum(axis=0) >= MIXED_OFF)
    if not changed.any():
        return None
    return len(values) - MIXED_MARKS + int(off[:, changed].any(axis=1).argmax())


def _edge(spread: Floats) -> Floats:
    """Return how far a mark must lie from the old mean to be off."""
    edge: Floats = np.maximum(0.6 * np.array(MOVES), 1.5 * spread)
    return edge


def _regime(before: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, wandering and presence of each figure in the present regime, shape (4,) each."""
    seen = ~np.isnan(before)
    count = seen.sum(axis=0)
    mean = np.where(seen, before, 0.0).sum(axis=0) / np.maximum(count, 1)
    spread = np.sqrt(np.where(seen, (before - mean) ** 2, 0.0).sum(axis=0) / np.maximum(count, 1))
    return mean, spread, count > 0


def figures_of(utilization: list[float], power: list[float], link: list[float]) -> Floats:
    """Return one mark from the cards' newest figures; NaN where no card tells."""

    def mean(values: list[float]) -> float:
        known = [value for value in values if not math.isnan(value)]
        return sum(known) / len(known) if known else math.nan

    known = [value for value in utilization if not math.isnan(value)]
    return np.array([mean(utilization), min(known, default=math.nan), mean(power), mean(link)])
