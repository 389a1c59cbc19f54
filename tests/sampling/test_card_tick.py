"""Closing a card's second: what is in it, what is too old for it, and what waits for the next."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.hardware.reader import GpmSample, Rings, SlowSample
from gpumon.model.card import PowerKind
from gpumon.model.fault import Fault
from gpumon.model.samples import Series
from gpumon.sampling.card_log import CardLog
from gpumon.sampling.card_tick import close_card
from tests.sampling.scripted import card

NAN = float("nan")


def log_at(now_s: float) -> CardLog:
    """Return the log of a card that answered just now."""
    log = CardLog(last_good_s=now_s)
    log.quick = (SlowSample({"power_watts": 100.0, "utilization_ratio": 0.5}, {}, frozenset({"idle"})), now_s)
    return log


def test_samples_after_the_end_wait_for_the_next_tick() -> None:
    """A slot that ends after the tick is in the next one, and in no other."""
    log = log_at(1.0)
    log.pcie += [(0.8, 0.9, 1.0, 2.0, NAN), (0.9, 1.02, 3.0, 4.0, NAN)]
    first = close_card(card(), log, 1.0, 1.05)
    second = close_card(card(), log, 2.0, 2.0)
    assert first.pcie.rx_bytes.tolist() == [1.0]
    assert second.pcie.rx_bytes.tolist() == [3.0]
    assert log.pcie == []


def test_quick_readings_stand_for_two_and_a_half_seconds() -> None:
    """A reading that was not renewed is left out after 2.5 s, never carried on."""
    log = log_at(10.0)
    log.last_good_s = 13.0  # other reads go on
    assert close_card(card(), log, 12.0, 12.0).readings["power_watts"] == 100.0
    later = close_card(card(), log, 13.0, 13.0)
    assert later.up
    assert later.readings == {}
    assert later.throttle_reasons == frozenset()


def test_rare_readings_stand_until_two_reads_failed() -> None:
    """A limit read every 15 s stands for 32 s."""
    log = log_at(40.0)
    log.rare = (SlowSample({"power_limit_watts": 450.0}, {}), 10.0)
    assert "power_limit_watts" in close_card(card(), log, 40.0, 40.0).readings
    log.last_good_s = 43.0
    assert "power_limit_watts" not in close_card(card(), log, 43.0, 43.0).readings


@pytest.mark.parametrize(
    ("calling_since_s", "last_good_s", "fault", "expected"),
    [
        (NAN, 9.0, None, None),
        (7.0, 7.0, None, Fault.TIMEOUT),
        (8.0, 8.0, None, None),
        (NAN, 7.0, None, Fault.STALE),
        (NAN, NAN, None, Fault.NO_DATA),
        (NAN, 9.9, Fault.LOST, Fault.LOST),
    ],
)
def test_why_a_card_is_not_up(
    calling_since_s: float, last_good_s: float, fault: Fault | None, expected: Fault | None
) -> None:
    """A hung call, a long silence, a first second without an answer and a lost card are told apart."""
    log = CardLog(calling_since_s=calling_since_s, last_good_s=last_good_s, fault=fault)
    tick = close_card(card(), log, 10.0, 10.0)
    assert (tick.up, tick.fault) == (expected is None, expected)


def test_a_card_that_is_not_up_shows_nothing() -> None:
    """Readings of a lost card are withheld, and its log is emptied all the same."""
    log = log_at(9.0)
    log.pcie.append((8.0, 8.1, 1.0, 1.0, NAN))
    log.fault = Fault.LOST
    tick = close_card(card(), log, 10.0, 10.0)
    assert tick.readings == {}
    assert len(tick.pcie.t0_s) == 0
    assert log.pcie == []


def test_power_comes_from_the_source_the_card_was_probed_for() -> None:
    """Instantaneous power comes with the slots, ring power from the ring, and the scalar where there is neither."""
    ring = Rings(power=Series(np.array([0.1, 0.2]), np.array([10.0, 20.0])))
    powers = {}
    for kind in (PowerKind.INSTANT, PowerKind.RING, PowerKind.AVERAGE):
        log = log_at(1.0)
        log.pcie.append((0.8, 0.9, 1.0, 2.0, 250.0))
        if kind is PowerKind.RING:
            log.rings.append(ring)
        powers[kind] = close_card(card(power=kind), log, 1.0, 1.0).power.value.tolist()
    assert powers == {PowerKind.INSTANT: [250.0], PowerKind.RING: [10.0, 20.0], PowerKind.AVERAGE: [100.0]}


def test_several_drains_of_a_ring_are_one_series() -> None:
    """Two drains within a tick are joined in their order."""
    log = log_at(1.0)
    for at_s in (0.2, 0.7):
        log.rings.append(Rings(utilization=Series(np.array([at_s]), np.array([at_s]))))
    assert close_card(card(), log, 1.0, 1.0).utilization.t_s.tolist() == [0.2, 0.7]


def test_gpm_ratios_are_weighted_by_time() -> None:
    """The second's mean of a GPM ratio weighs each sample by what it covers; missing ones do not count."""
    log = log_at(1.0)
    for t0_s, t1_s, value in ((0.0, 0.1, 1.0), (0.1, 0.4, 0.2), (0.4, 0.9, NAN)):
        log.gpm.append(GpmSample(t0_s, t1_s, 0.0, 0.0, 0.0, 0.0, {"sm_active_ratio": value}))
    assert close_card(card(), log, 1.0, 1.0).readings["sm_active_ratio"] == pytest.approx(0.4)


def test_a_log_that_nobody_empties_is_bounded() -> None:
    """Without ticks the newest 2500 rows are kept."""
    log = CardLog()
    log.pcie += [(float(n), n + 0.1, 0.0, 0.0, NAN) for n in range(4000)]
    log.bound()
    assert (len(log.pcie), log.pcie[-1][0]) == (2500, 3999.0)
