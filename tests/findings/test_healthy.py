"""No finding and no alarming verdict where nothing is wrong. `make soak` sets TRANSITIONS=2000; the suite tries 200."""

from __future__ import annotations

import math
import os

import pytest

from benchmarks.accuracy_changes import STANDS_S, longest_stand
from gpumon.hardware.simulated.transitions import DAY_SECONDS, DAY_TRANSITIONS, healthy_day
from gpumon.model.verdict import JobClass
from tests.findings.watched import watch

DAYS = math.ceil(int(os.environ.get("TRANSITIONS", "200")) / DAY_TRANSITIONS)


@pytest.mark.parametrize("seed", range(DAYS))
def test_healthy_transitions_have_no_finding(seed: int) -> None:
    """Jobs end, start on the same or fewer cards, save, evaluate, pause: nothing is told, no class alarms for long."""
    told, said = set(), []
    for moment in watch(healthy_day(seed), DAY_SECONDS, seed):
        told |= {(round(moment.tick.mono_s), name) for name in moment.told()}
        said.append((moment.tick.mono_s, {name: one.job_class for name, one in moment.meaning.verdicts.items()}))
    assert not told
    longest_s, name = longest_stand(said)
    assert longest_s < STANDS_S, f"{name} stood for {longest_s:.0f} s"
    assert name != JobClass.HUNG.value


def test_independent_jobs_have_no_finding() -> None:
    """Eight trainings of one card each on eight cards are left alone."""
    told = {name for moment in watch("rtx5090-x8-independent", 120) for name in moment.told()}
    assert not told
