"""The sampler's allowance: it stretches periods when over, comes back when under, and never below the plain period."""

from __future__ import annotations

import pytest

from gpumon.model.settings import SamplingSettings
from gpumon.sampling.budget import Budget


def spend(budget: Budget, seconds: int, driver_ratio: float, cpu_ratio: float = 0.0, start_s: float = 0.0) -> None:
    """Account for so many seconds in which calls cost these shares, thinned out by the stretch."""
    driver_s = cpu_s = 0.0
    for number in range(seconds):
        budget.account(start_s + number, driver_s, cpu_s)
        driver_s += driver_ratio / budget.stretch
        cpu_s += cpu_ratio / budget.stretch


def test_nothing_is_stretched_within_the_allowance() -> None:
    """At 4 % of driver time against 5 % allowed, periods stay as they are."""
    budget = Budget(SamplingSettings(), 0, windows_overlap=True)
    spend(budget, 60, 0.04)
    assert budget.stretch == 1.0


@pytest.mark.parametrize(("driver", "cpu", "stretch"), [(0.10, 0.0, 2.04), (0.0, 0.06, 2.04), (0.20, 0.06, 4.08)])
def test_the_tighter_allowance_decides(driver: float, cpu: float, stretch: float) -> None:
    """Twice the driver time, or twice the CPU time, doubles the periods; the worse of both counts."""
    budget = Budget(SamplingSettings(), 0, windows_overlap=True)
    spend(budget, 300, driver, cpu)
    assert budget.stretch == pytest.approx(stretch, rel=0.03)


def test_the_stretch_goes_back_when_calls_get_cheap() -> None:
    """After an expensive spell periods return to the plain ones."""
    budget = Budget(SamplingSettings(), 0, windows_overlap=True)
    spend(budget, 100, 0.15)
    assert budget.stretch > 2.0
    spend(budget, 100, 0.01, start_s=100.0)
    assert budget.stretch == 1.0


def test_the_first_reads_of_all_cards_are_no_sign() -> None:
    """The burst of reads at the beginning does not stretch anything."""
    budget = Budget(SamplingSettings(), 0, windows_overlap=True)
    budget.account(0.0, 0.0, 0.0)
    for number in range(1, 20):
        budget.account(float(number), 0.3 + 0.01 * number, 0.2 + 0.001 * number)
    assert budget.stretch == 1.0


def test_queueing_windows_share_a_quarter_second_a_second() -> None:
    """The cycle of a card grows with the number of cards that queue; overlapping cards keep the short one."""
    settings = SamplingSettings()
    assert Budget(settings, 8, windows_overlap=True).window_cycle_s() == pytest.approx(0.095)
    assert Budget(settings, 8, windows_overlap=False).window_cycle_s() == pytest.approx(8 * 0.04 / 0.25)
    assert Budget(settings, 1, windows_overlap=False).window_cycle_s() == pytest.approx(0.16)
