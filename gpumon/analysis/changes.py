"""Where the job's behaviour changes, so that the window of evidence never spans two of them.

Once a second each job leaves a mark: five figures of all its cards. A change is a stretch of newest marks that all lie
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
FIGURES = ("utilization", "least_utilization", "power", "link", "held")
MOVES = (0.2, 0.25, 0.1, 0.1, 0.3)
# A figure that wanders by a twentieth of its move or less is off sooner: half a move is then ten times its wandering.
# Power drifts by less while a card warms up (leakage: some percent), and boost gives up 5 % of the clock.
STEADY = 10.0  # times the wandering that such a figure must move by
LEAST_MOVE = 0.5  # of a move
STEADY_MARKS = 15  # that must have shown how steady it is
SLOWLY = 0.04  # of the distance, each mark: how fast the usual figures follow
QUICKLY = 1.5  # of the distance in a stretch: the recent ones
# Of a move that lies between the two before the test is worth its cost: after a stretch the recent ones have come five
# sixths of the way, the usual ones a fifth.
LOOK = 0.25
EDGE = 0.6  # of a move: a mark that lies nearer to the old mean is not off
STRETCH_S = 5.0  # a regime that lasts less is part of its neighbour
MIXED_MARKS = 8  # of a stretch that may go back and forth
MIXED_OFF = 5  # of them at least lie off, on the side to which the mean has moved
MIXED_SPREAD = 1.2  # times the old regime's wandering that the mean must move by
FINE_PACE = 3  # marks in a stretch of STRETCH_S: with fewer, marks are means over many steps already
KEEP_S = 60.0
KEEP_MARKS = 12


@dataclass(frozen=True, slots=True)
class Marks:
    """One job's marks, oldest first: (time, shape (5,))."""

    marks: tuple[tuple[float, Floats], ...] = ()
    began_s: float = math.nan  # when the present regime began
    from_s: float = math.nan  # evidence is taken from here: one mark later, since the first one may hold both regimes
    usual: tuple[float, ...] = ()  # mean of the regime's figures, a slow one after some marks
    recent: tuple[float, ...] = ()  # a quick one, of about a stretch
    count: int = 1  # marks in the regime


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
    known = tuple(figures.tolist())
    if math.isnan(past.from_s):
        return Marks(marks, now_s, now_s, known, known), False
    count = past.count + 1
    usual = _nearer(past.usual, known, max(SLOWLY, 1.0 / count))
    recent = _nearer(past.recent, known, min(1.0, QUICKLY / stretch_length(past)))
    grown = Marks(marks, past.began_s, past.from_s, usual, recent, count)
    found = _new_regime(grown) if stirs(grown) else None
    if found is None:
        return grown, False
    values = [value for time_s, value in marks if time_s >= found[1]]
    mean = tuple((sum(values, np.zeros(len(FIGURES))) / len(values)).tolist())
    return Marks(marks, *found, mean, mean, len(values)), True


def stirs(past: Marks) -> bool:
    """Return True where the recent marks lie away from the usual ones: a change may have begun."""
    return any(abs(new - old) > LOOK * move for new, old, move in zip(past.recent, past.usual, MOVES, strict=True))


def _nearer(mean: tuple[float, ...], figures: tuple[float, ...], weight: float) -> tuple[float, ...]:
    """Return a running mean with one more mark; a missing figure leaves it as it is, and a first one begins it."""
    moved = []
    for old, new in zip(mean, figures, strict=True):
        figure = old + weight * (new - old)
        moved.append(figure if not math.isnan(figure) else new if math.isnan(old) else old)
    return tuple(moved)


def _new_regime(past: Marks) -> tuple[float, float] | None:
    """Return the last old and the first new mark's time; None when the newest marks belong to the present regime."""
    # The mark that ends at from_s holds the end of what was before, and would count as wandering.
    present = [(t, v) for t, v in past.marks if t > past.from_s]
    length = stretch_length(past)
    if len(present) < 2 * length:
        return None
    values = np.stack([v for _, v in present])
    first = _all_off(values, length)
    if first is None and length >= FINE_PACE and len(present) >= 2 * MIXED_MARKS:
        first = _mostly_off(values)
    if first is None:
        return None
    return present[first - 1][0], present[first][0] if length > 1 else present[first - 1][0]


def _all_off(values: Floats, length: int) -> int | None:
    """Return the place of the first mark of a stretch that lies off as a whole; values are of shape (n, 5)."""
    mean, spread, known = _regime(values[:-length])
    moves = np.array(MOVES)
    if len(values) - length >= STEADY_MARKS:
        moves = np.minimum(moves, np.maximum(LEAST_MOVE * moves, STEADY * spread))
    with np.errstate(invalid="ignore"):
        away = values[-length:] - mean
        edge = np.maximum(EDGE * moves, 1.5 * spread)
        same_side = (away > edge).all(axis=0) | (away < -edge).all(axis=0)
        far = np.abs(away.mean(axis=0)) >= np.maximum(moves, 2.0 * spread)
    return len(values) - length if (same_side & far & known).any() else None


def _mostly_off(values: Floats) -> int | None:
    """Return where the new work begins, if a longer stretch has moved as a whole and in most marks."""
    mean, spread, known = _regime(values[:-MIXED_MARKS])
    with np.errstate(invalid="ignore"):
        away = values[-MIXED_MARKS:] - mean
        moved = away.mean(axis=0)
        off = np.sign(moved) * away > np.maximum(EDGE * np.array(MOVES), 1.5 * spread)
        far = np.abs(moved) >= np.maximum(MOVES, MIXED_SPREAD * spread)
    changed = far & known & (off.sum(axis=0) >= MIXED_OFF)
    if not changed.any():
        return None
    # One mark of the old work may lie as far off as those of the new. Where the two meet, most marks before lie nearer
    # to the old mean and most after nearer to the new one.
    nearer = (away[:, changed] / moved[changed]).mean(axis=1) - 0.5
    return len(values) - MIXED_MARKS + int(nearer[::-1].cumsum()[::-1].argmax())


def _regime(before: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, wandering and presence of each figure in the present regime, shape (5,) each."""
    seen = ~np.isnan(before)
    count = seen.sum(axis=0)
    mean = np.where(seen, before, 0.0).sum(axis=0) / np.maximum(count, 1)
    spread = np.sqrt(np.where(seen, (before - mean) ** 2, 0.0).sum(axis=0) / np.maximum(count, 1))
    return mean, spread, count > 0


def figures_of(utilization: list[float], power: list[float], link: list[float], held: list[float]) -> Floats:
    """Return one mark from the cards' newest figures; NaN where no card tells.

    Args:
        held: share of the last second for which heat or the brake held the card. Its clock falls then without a change
            of the work, and where the clock hardly shows in power or traffic nothing else tells when that began.
    """

    def mean(values: list[float]) -> float:
        known = [value for value in values if not math.isnan(value)]
        return sum(known) / len(known) if known else math.nan

    known = [value for value in utilization if not math.isnan(value)]
    return np.array([mean(utilization), min(known, default=math.nan), mean(power), mean(link), mean(held)])
