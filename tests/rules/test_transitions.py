"""No transition of a healthy job reaches a customer. `make soak` sets TRANSITIONS=2000; the suite tries 200."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.rules.transitions import SCRAPE_S, SCRAPES, Unit, add_life
from tests.rules.unit import run

pytestmark = pytest.mark.tools

TRANSITIONS = int(os.environ.get("TRANSITIONS", "200"))
BATCH = 100


@pytest.mark.timeout(3600)  # the soak takes a quarter of an hour on two cores
def test_no_healthy_transition_reaches_a_customer(promtool: str, tmp_path: Path) -> None:
    """Start, end, resize, checkpoint, evaluation, lull, restarts and missed scrapes raise no customer's alert."""
    for first in range(0, TRANSITIONS, BATCH):
        unit = Unit(interval_s=SCRAPE_S)
        for seed in range(first, min(first + BATCH, TRANSITIONS)):
            add_life(unit, seed)
        minutes = SCRAPES * SCRAPE_S / 60 - 1
        ever = f'count by (alertname, instance) (max_over_time(ALERTS{{alertstate="firing"}}[{minutes:.0f}m]))'
        unit.value(minutes, ever)
        run(promtool, tmp_path, unit, groups="gpumon_jobs")
