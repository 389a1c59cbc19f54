"""Totals that never fall: glitches, resets, gaps, coarse counters."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from gpumon.analysis.rates import Total, advance, slope


def total(*readings: float) -> float:
    state = Total()
    for reading in readings:
        state = advance(state, reading)
    return state.value


@pytest.mark.parametrize(
    ("readings", "grown"),
    [
        ((1e9, 0, 0, 1e9 + 500), 500),  # glitch to zero and back
        ((1e9, 0, 400, 900), 900),  # driver reload
        ((1e9,), 0),  # the first reading charges nothing
        ((1000, 1000, 1000, 41000), 40000),  # moves in steps
        ((100, math.nan, 160), 60),  # a gap the counter saw
        ((1000, 0, 400, 800, 1200, 1600), 1600),  # a reset that grows past the old level by itself
        ((1000, 5, 900, 1010), 1005),  # a reset followed by fast growth is counted
    ],
)
def test_total(readings: tuple[float, ...], grown: float) -> None:
    """A total follows its counter through glitches, reloads, gaps and steps, and never falls."""
    assert math.isclose(total(*readings), grown, abs_tol=1e-9)


def test_total_never_falls_on_the_reported_cases(shared_dir: Path) -> None:
    """The energy case file's glitch is charged half a joule at most, and its driver reload from zero."""
    runs = json.loads((shared_dir / "cases" / "ctr-energy-drop-recover.json").read_text("utf-8"))["runs"]
    charged = {run["name"]: total(*(t["a"]["energy_mj"] / 1e3 for t in run["ticks"] if "a" in t)) for run in runs}
    assert 0.0 <= charged["glitch"] <= 0.5
    assert math.isclose(charged["driver reload"], 900.0)


def test_slope_of_a_coarse_counter(shared_dir: Path) -> None:
    """A counter that moves in steps gives its mean rate over a span, with no zeros, spikes or divisions by zero."""
    ticks = json.loads((shared_dir / "cases" / "ctr-energy-coarse.json").read_text("utf-8"))["ticks"]
    joules = tuple(t["a"]["energy_mj"] / 1e3 for t in ticks)
    times = tuple(0.1 * number for number in range(len(joules)))
    assert 100.0 <= slope(times, joules) <= 135.0
    assert math.isnan(slope((1.0, 1.0), (5.0, 6.0)))
