"""Two levels in samples, the test of exposure, and whether both directions move at once."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.analysis import directions, overlap
from gpumon.analysis.humps import quantile, two_levels
from gpumon.analysis.windows import RX, SLOT_POWER, SLOT_ROWS, T0, T1, TX
from gpumon.model.card import PowerKind
from gpumon.model.samples import Floats

STEP_S, SLOT_S, BUSY_FROM = 0.8, 0.05, 0.65


def rng() -> np.random.Generator:
    """Return the same numbers for each test, whichever ran before."""
    return np.random.default_rng(1)


def slots(seconds: float = 20.0, rx_in_turn: bool = False, slot_s: float = SLOT_S, step_s: float = STEP_S) -> Floats:
    """Full coverage of a link busy in the last third of each step."""
    ends = np.arange(slot_s, seconds, slot_s)
    moments = ends - slot_s + (np.arange(20)[:, np.newaxis] + 0.5) / 20 * slot_s  # shape (20, slots)
    phase = moments % step_s / step_s
    rows = np.full((SLOT_ROWS, ends.size), np.nan)
    rows[T1], rows[T0] = ends, ends - slot_s
    busy = phase >= BUSY_FROM
    tx_busy = (phase >= 0.25) & (phase < 0.6) if rx_in_turn else busy
    rows[RX], rows[TX] = busy.mean(axis=0) * 20e9 * slot_s, tx_busy.mean(axis=0) * 20e9 * slot_s
    return rows


def power(at_work: float, while_busy: float, seconds: float = 20.0, smear_s: float = 0.0) -> Floats:
    stamps = np.arange(0.02, seconds, 0.02)
    phase = stamps % STEP_S / STEP_S
    watts = np.where(phase >= BUSY_FROM, while_busy, at_work) + rng().normal(0.0, 4.0, stamps.size)
    if smear_s:
        width = int(smear_s / 0.02)
        watts = np.convolve(watts, np.ones(width) / width, "same")
    return np.stack((stamps, watts))


def test_two_levels_finds_them() -> None:
    """Two clean levels are told apart with their means and shares."""
    dice = rng()
    humps = two_levels(np.concatenate((dice.normal(100, 5, 600), dice.normal(400, 5, 400))))
    assert humps.two
    assert humps.low == pytest.approx(100, abs=2)
    assert humps.high == pytest.approx(400, abs=2)
    assert humps.share_high == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("values", [rng().normal(300, 20, 1000), rng().uniform(0, 1, 1000), np.full(100, 5.0)])
def test_one_level_is_not_two(values: Floats) -> None:
    """Noise around one level, an even spread, or one constant value are not two levels."""
    assert not two_levels(values).two


def test_too_few_samples_are_no_levels() -> None:
    """A handful of samples is never cut in two."""
    assert not two_levels(np.array([1.0, 1.0, 9.0, 9.0])).two
    assert two_levels(np.empty(0)).samples == 0


def test_quantile_of_sorted_values() -> None:
    """The quantile is the nearest of the sorted values."""
    assert quantile(np.arange(10.0), 0.5) == 5.0
    assert quantile(np.arange(10.0), 1.0) == 9.0


def test_power_that_falls_while_the_link_is_busy() -> None:
    """Exposed communication: power is lower in the busy third, by most of the difference."""
    found = overlap.compare(slots(), power(450.0, 170.0), PowerKind.RING)
    assert found.valid
    assert 200.0 <= found.watts_quiet - found.watts_busy <= 290.0


def test_power_that_stays_while_the_link_is_busy() -> None:
    """Overlapped communication: power is the same in both thirds."""
    found = overlap.compare(slots(), power(450.0, 460.0), PowerKind.RING)
    assert found.valid
    assert abs(found.watts_quiet - found.watts_busy) < 25.0


def test_the_lag_of_the_sensor_is_found() -> None:
    """A reading that comes 0.3 s late is still paired with the right slots."""
    late = power(450.0, 170.0)
    late[0] += 0.3
    found = overlap.compare(slots(), late, PowerKind.RING)
    assert found.lag_s == pytest.approx(0.3, abs=0.08)
    assert found.watts_quiet - found.watts_busy > 200.0


def test_power_read_with_the_slot_is_preferred() -> None:
    """Slots that carry their own power need no ring."""
    with_power = slots()
    with_power[SLOT_POWER] = np.where(with_power[RX] > 0.0, 170.0, 450.0)
    found = overlap.compare(with_power, np.empty((2, 0)), PowerKind.NONE)
    assert found.valid
    assert found.watts_quiet > found.watts_busy


@pytest.mark.parametrize("kind", [PowerKind.AVERAGE, PowerKind.UNKNOWN, PowerKind.NONE])
def test_a_slow_power_reading_proves_nothing(kind: PowerKind) -> None:
    """With power averaged over a second the difference is nearly gone, so nothing is said."""
    assert not overlap.compare(slots(), power(450.0, 170.0, smear_s=1.0), kind).valid


def test_phases_shorter_than_slots_prove_nothing() -> None:
    """Phases of 14 to 26 ms give the wrong sign: slots that mix them are refused."""
    assert not overlap.compare(slots(step_s=0.04), power(450.0, 170.0), PowerKind.RING).valid


def test_a_steady_link_proves_nothing() -> None:
    """Where the link is always busy there is nothing to compare with."""
    steady = slots()
    steady[RX] = steady[TX] = 20e9 * SLOT_S
    assert not overlap.compare(steady, power(450.0, 170.0), PowerKind.RING).valid


def test_collectives_move_both_directions_at_once() -> None:
    """Send and receive in the same instant."""
    assert directions.same_instant(slots()) > 0.95


def test_offload_moves_in_turn() -> None:
    """As much each way, but one after the other."""
    assert directions.same_instant(slots(rx_in_turn=True)) < 0.05


def test_windows_are_paired_with_their_neighbours() -> None:
    """Windows that see one direction at a time still tell, when they follow each other closely."""
    seen = slots(slot_s=0.025)
    odd = np.arange(seen.shape[1]) % 2 == 1
    seen[RX, odd], seen[TX, ~odd] = np.nan, np.nan
    assert directions.same_instant(seen) > 0.8


def test_too_little_traffic_tells_no_direction() -> None:
    """A handful of busy slots is not enough."""
    assert np.isnan(directions.same_instant(slots(seconds=0.3)))
