"""Recorded telemetry is judged as its labels say, by time; a smoke test."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

from benchmarks.accuracy_traces import Agreement, agreements, weighted


@cache
def found(folder: Path) -> tuple[Agreement, ...]:
    """Return the agreement with every label that was stated or derived."""
    return tuple(agreements(folder))


def test_agreement_by_time(shared_dir: Path) -> None:
    """At least 95 % of the labelled time is called by the label's class."""
    assert weighted(list(found(shared_dir / "traces"))) >= 0.95


def test_every_checkpoint_has_its_culprit(shared_dir: Path) -> None:
    """The card whose rank writes the checkpoint is named in each of them, and no label holds communication."""
    waits = [one for one in found(shared_dir / "traces") if one.culprit]
    assert len(waits) >= 30
    assert all(one.culprit_found for one in waits)
    assert not any("communication" in one.label for one in found(shared_dir / "traces"))


def test_the_step_of_the_steady_run(shared_dir: Path) -> None:
    """The step of the H100 run at 10 Hz is within 3 % of 467 ms."""
    (steady,) = (one for one in found(shared_dir / "traces") if "save1000" in one.file)
    assert math.isclose(steady.said_step_s, steady.step_s, rel_tol=0.03)
