"""No finding where nothing is wrong. `make soak` sets TRANSITIONS=2000; the suite tries 200."""

from __future__ import annotations

import math
import os

import pytest

from tests.findings.days import SECONDS, TRANSITIONS_A_DAY, day
from tests.findings.watched import watch

DAYS = math.ceil(int(os.environ.get("TRANSITIONS", "200")) / TRANSITIONS_A_DAY)


@pytest.mark.parametrize("seed", range(DAYS))
def test_healthy_transitions_have_no_finding(seed: int) -> None:
    """Jobs end, start on the same or fewer cards, save, evaluate and pause: at no second is anything told."""
    told = {(round(moment.tick.mono_s), name) for moment in watch(day(seed), SECONDS, seed) for name in moment.told()}
    assert not told


def test_independent_jobs_have_no_finding() -> None:
    """Eight trainings of one card each on eight cards are left alone."""
    told = {name for moment in watch("rtx5090-x8-independent", 120) for name in moment.told()}
    assert not told
