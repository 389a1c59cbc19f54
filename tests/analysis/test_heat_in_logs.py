"""A log without clock event reasons: heat shows by temperature, power below the limit and a clock that has fallen."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gpumon.model.settings import Settings
from gpumon.model.verdict import JobClass
from gpumon.pipeline import initial_state, step
from gpumon.recording import read
from gpumon.recording.logs.rows import Row, to_ticks


def classes(rows: list[Row]) -> set[tuple[JobClass, str]]:
    """Return class and detail of each tick's verdict after half a minute."""
    state, seen = initial_state(), set()
    for tick in to_ticks(rows):
        state = step(state, tick, Settings())
        if tick.mono_s > 30.0 and state.view is not None:
            seen |= {(job.verdict.job_class, job.verdict.detail or "") for job in state.view.jobs}
    return seen


def burn(watts: float, celsius: float, megahertz: float, seconds: int, first_s: int = 0) -> list[Row]:
    """Return rows of a card limited to 600 W."""
    values = {
        "power_watts": watts,
        "power_limit_watts": 600.0,
        "temperature_gpu_celsius": celsius,
        "sm_clock_hertz": megahertz * 1e6,
    }
    return [Row(float(first_s + t), 0, values) for t in range(seconds)]


def test_hot_and_slower_than_before() -> None:
    """Hot, 20 % below its limit and 15 % below the clock it had: throttled by heat."""
    found = classes([*burn(590, 75, 2000, 10), *burn(480, 85, 1700, 110, 10)])
    assert (JobClass.THROTTLED, "thermal") in found


@pytest.mark.parametrize(
    ("watts", "celsius", "megahertz"),
    [
        (480, 85, 1990),  # hot, with its clock: a job that needs less power
        (595, 85, 1700),  # hot and at its limit: the limit holds it
        (480, 76, 1700),  # cool: something else holds it
        (90, 84, 900),  # resting on a hot day
    ],
)
def test_near_twins(watts: float, celsius: float, megahertz: float) -> None:
    """One sign less is no heat."""
    found = classes([*burn(590, 75, 2000, 10), *burn(watts, celsius, megahertz, 110, 10)])
    assert not {detail for _, detail in found} & {"thermal"}


@pytest.mark.parametrize(("hot", "thermal"), [(True, True), (False, False)])
def test_recorded_server_card(shared_dir: Path, tmp_path: Path, hot: bool, thermal: bool) -> None:
    """The recorded Server card is held by heat at 550 and 600 W and by its limit alone below."""
    with (shared_dir / "traces/pro6000_powerlimit_sweep.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["card"] == "pro6000_server"]
    chosen = [row for row in rows if (int(row["power_limit_w"]) >= 550) is hot]
    part = tmp_path / "part.csv"
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(chosen)
    state = initial_state()
    for tick in read([part], print):
        state = step(state, tick, Settings())
    (intervals,) = state.intervals.values()
    seconds = sum(one.t1 - one.t0 for one in intervals if one.detail == "thermal")
    assert (seconds > 0.5 * intervals[-1].t1) is thermal
