"""The rhythm of an exchange: its beat from slots that lie apart, and what counts as a pause."""

from __future__ import annotations

import math
import random

import numpy as np

from gpumon.analysis import beat
from gpumon.analysis.evidence import LinkEvidence
from gpumon.analysis.shape import _rhythm
from gpumon.analysis.windows import RX, SLOT_ROWS, T0, T1, TX
from gpumon.model.samples import Floats

RATE = 10e9
SECONDS = 40.0


def _slots(step_s: float, duty: float, *, length_s: float, spacing_s: float, seed: int = 1) -> Floats:
    """Return looks at a link that is busy for the first part of every step."""
    rng = random.Random(seed)
    begins, now_s = [], rng.uniform(0.0, spacing_s)
    while now_s < SECONDS:
        begins.append(now_s)
        now_s += max(length_s, rng.uniform(0.8, 1.2) * spacing_s) if spacing_s > length_s else length_s
    t0 = np.array(begins)
    busy = np.array([_busy_s(begin, begin + length_s, step_s, duty) for begin in begins])
    rows = np.full((SLOT_ROWS, t0.size), np.nan)
    rows[T0], rows[T1] = t0, t0 + length_s
    rows[RX] = rows[TX] = RATE * busy * np.array([rng.uniform(0.9, 1.1) for _ in begins])
    return rows


def _busy_s(begin_s: float, end_s: float, step_s: float, duty: float) -> float:
    def until(t_s: float) -> float:
        whole, part = divmod(t_s, step_s)
        return whole * duty * step_s + min(part, duty * step_s)

    return until(end_s) - until(begin_s)


def test_beat_of_a_tenth_of_a_second() -> None:
    """Windows of 20 ms every 47 ms of two cards find a step of 116 ms, which a grid of 40 ms does not show."""
    cards = [_slots(0.116, 0.6, length_s=0.02, spacing_s=0.047, seed=seed) for seed in (1, 2)]
    assert math.isclose(beat.of_slots(cards), 0.116, rel_tol=0.01)


def test_beat_of_steps_longer_than_a_second() -> None:
    """A step of 1.3 s is found as well."""
    assert math.isclose(beat.of_slots([_slots(1.3, 0.6, length_s=0.02, spacing_s=0.047)]), 1.3, rel_tol=0.01)


def test_slots_that_touch_are_believed_where_each_is_busy_or_quiet() -> None:
    """Counters read every 50 ms do not give the image of a step of 80 ms for it, and find one of 0.4 s."""
    short, long = (
        [_slots(step_s, 0.5, length_s=0.05, spacing_s=0.05, seed=seed) for seed in range(4)] for step_s in (0.08, 0.43)
    )
    assert math.isnan(beat.of_slots(short))
    assert math.isclose(beat.of_slots(long), 0.43, rel_tol=0.01)


def test_no_beat_of_what_is_steady_or_hardly_seen() -> None:
    """A link that is always busy, one that is quiet, and one looked at for two seconds have none."""
    assert math.isnan(beat.of_slots([_slots(0.5, 1.0, length_s=0.02, spacing_s=0.047)]))
    assert math.isnan(beat.of_slots([_slots(0.5, 0.0, length_s=0.02, spacing_s=0.047)]))
    assert math.isnan(beat.of_slots([_slots(0.5, 0.5, length_s=0.02, spacing_s=0.047)[:, :40]]))
    assert math.isnan(beat.of_slots([]))


def test_a_pause_has_a_quiet_slot_in_it() -> None:
    """Half a second of work and half a second of nothing pause for half a second; a late look alone is no pause."""
    link = LinkEvidence(plateau=RATE, slots=800)
    seen = _rhythm([link], {"a": _slots(1.0, 0.5, length_s=0.02, spacing_s=0.047)})
    assert math.isclose(seen.quiet_run_s, 0.5, abs_tol=0.06)
    assert math.isclose(seen.window_s, 0.02)
    late = np.delete(_slots(1.0, 1.0, length_s=0.05, spacing_s=0.05), np.arange(10, 700, 7), axis=1)
    assert _rhythm([link], {"a": late}).quiet_run_s == 0.0
