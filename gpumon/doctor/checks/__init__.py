"""The checks of `gpumon doctor` in the order a person should mend things: a new one is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable

from gpumon.doctor.checks.cards import capabilities, performance_monitors, usable
from gpumon.doctor.checks.driver import bindings, device_files, driver, foreign_drivers, old_pynvml
from gpumon.doctor.checks.host import clock, config, process_visibility, shared_memory, sliced_cards
from gpumon.doctor.checks.links import access_control, errors, iommu, link_state, peer_access, tree
from gpumon.doctor.checks.standing import platform, standing
from gpumon.doctor.examination import Examination
from gpumon.doctor.result import Level, Result

CHECKS: tuple[Callable[[Examination], tuple[Result, ...]], ...] = (
    platform,
    standing,
    driver,
    bindings,
    old_pynvml,
    device_files,
    foreign_drivers,
    usable,
    capabilities,
    performance_monitors,
    process_visibility,
    sliced_cards,
    link_state,
    tree,
    errors,
    access_control,
    iommu,
    peer_access,
    shared_memory,
    clock,
    config,
)


def run_checks(examination: Examination) -> tuple[Result, ...]:
    """Return the results of all checks. A check that has nothing to look at returns none."""
    return tuple(result for check in CHECKS for result in check(examination))


def worst(results: tuple[Result, ...]) -> Level:
    """Return the worst level, PASS without results."""
    for level in (Level.FAIL, Level.WARN):
        if any(result.level is level for result in results):
            return level
    return Level.PASS
