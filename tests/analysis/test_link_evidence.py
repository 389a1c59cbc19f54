"""For how long a link is busy, from slots that may be longer than what moves in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpumon.analysis.evidence import LinkEvidence, link_evidence
from gpumon.analysis.windows import RX, SLOT_ROWS, T0, T1, TX
from gpumon.model.job import Layout
from gpumon.model.samples import Floats
from gpumon.model.verdict import JobClass
from tests.analysis.scripted import Phase, Script, judged

CEILING = 63e9
RATE = 28e9  # of an all-reduce over eight RTX 5090


def bursts(step_s: float, burst_s: float, slot_s: float, seconds: float = 40.0) -> Floats:
    """Return slots without holes over a link that moves at one rate for the last part of each step, shape (5, n)."""
    edges = np.arange(round(seconds / slot_s) + 1) * slot_s
    whole, part = np.divmod(edges, step_s)
    moved = RATE * (whole * burst_s + np.maximum(0.0, part - (step_s - burst_s)))
    slots = np.full((SLOT_ROWS, edges.size - 1), np.nan)
    slots[T0], slots[T1] = edges[:-1], edges[1:]
    slots[RX] = slots[TX] = np.diff(moved)
    return slots


def seen(slots: Floats) -> LinkEvidence:
    """Return what 40 s of slots show."""
    return link_evidence(slots, CEILING, 0.85 * CEILING, 40.0)


@pytest.mark.parametrize(("step_s", "burst_s"), [(1.7, 0.03), (0.53, 0.033), (0.21, 0.03), (0.098, 0.011)])
@pytest.mark.parametrize("slot_s", [0.05, 0.125])
def test_bursts_shorter_than_slots_leave_the_rate_open(step_s: float, burst_s: float, slot_s: float) -> None:
    """What a slot shows of a short burst is a mean of it and of the quiet beside it, and no rate of the link."""
    busy = seen(bursts(step_s, burst_s, slot_s)).busy
    assert busy[0] <= burst_s / step_s <= busy[1]


def test_bursts_of_several_slots_show_the_rate() -> None:
    """Where bursts and pauses outlast slots the share of time is known within a tenth."""
    link = seen(bursts(1.0, 0.4, 0.05))
    assert link.busy == (pytest.approx(0.4, abs=0.05), pytest.approx(0.4, abs=0.05))
    assert link.usual_busy == pytest.approx(0.4, abs=0.02)


def test_what_is_known_to_a_factor_is_nearer_to_the_lower_end() -> None:
    """A share of time between 0.04 and 1, even in the logarithm, is 0.3 on average."""
    link = replace(seen(bursts(1.0, 0.4, 0.05)), busy=(0.04, 1.0))
    assert link.usual_busy == pytest.approx(0.3, abs=0.01)


def test_a_card_that_its_host_holds_for_half_of_the_time_and_its_peer_that_waits() -> None:
    """Of two cards one is held by its host and the other waits for it: both are the host's, and no twins."""
    steps = Phase(0.6, 450.0, memory=0.4)
    saving = Script((steps, Phase(3.4, 90.0, kernel=0.0, memory=0.0)))
    waiting = Script((steps, Phase(3.4, 170.0, memory=0.02)))
    layout = Layout(framework="pytorch", launcher="torchrun", asked="ddp", world_size=2, ranks_here=2)
    verdict = judged([saving, waiting], layout=layout)
    assert verdict.job_class is JobClass.HOST
    assert verdict.confidence >= 0.8
