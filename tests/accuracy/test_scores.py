"""The figures themselves, on outcomes written by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks import accuracy_scores as scores
from benchmarks.accuracy_runs import Outcome
from benchmarks.accuracy_scores import Share

ONE = Outcome(
    seed=0,
    family="exchanging",
    near=False,
    card="NVIDIA GeForce RTX 4090",
    cards=4,
    margin=0.4,
    true_class="compute",
    true_detail="",
    detail_margin=1.0,
    said_class="compute",
    said_detail="",
    confidence=0.9,
    baseline="host",
    split_error=0.05,
    split_stated=True,
    true_culprit=-1,
    true_cause="",
    true_cost=0.0,
    said_culprits=(),
    said_causes=(),
    said_costs=(),
    costs=(),
    optimizer_step_s=0.5,
    micro_step_s=0.25,
    said_step_s=0.5,
)
MISSED = replace(ONE, true_class="host", said_class="unknown")


def test_macro_f1_is_the_mean_over_classes() -> None:
    """Two classes, one always right and one never: a half; the rules' answers are judged in the same way."""
    assert scores.macro_f1([ONE, ONE, MISSED])[0] == pytest.approx(0.5)
    assert scores.macro_f1([ONE, ONE], lambda o: o.baseline)[0] == 0.0


def test_intervals_hold_the_share() -> None:
    """Wilson's interval of 9 in 10 is 0.596 to 0.982; that of nothing is not known."""
    assert Share(9, 10).interval == pytest.approx((0.596, 0.982), abs=0.001)
    assert math.isnan(Share(0, 0).interval[0])


def test_calibration_error_compares_confidence_with_success() -> None:
    """Nine of ten right at a confidence of 0.9 is no error, none right is 0.9; unknown does not count."""
    wrong = replace(ONE, true_class="host")
    assert scores.calibration_error([ONE] * 9 + [wrong]) == pytest.approx(0.0, abs=1e-9)
    assert scores.calibration_error([wrong] * 10 + [MISSED]) == pytest.approx(0.9)


def test_a_multiple_of_the_step_is_wrong() -> None:
    """Optimizer step and micro-step are right within 3 %, twice the step is not."""
    assert scores.step_right(ONE)
    assert scores.step_right(replace(ONE, said_step_s=0.255))
    assert not scores.step_right(replace(ONE, said_step_s=1.0))


def test_stragglers_are_scored_by_their_cost() -> None:
    """A card that costs 15 % must be named, one below 8 % must not; equal clocks leave the cause unknown."""
    slow = replace(ONE, true_culprit=2, true_cause="clock", true_cost=0.2)
    named = replace(slow, said_culprits=(2,), said_causes=("unknown",), said_costs=(0.22,), costs=(0.2,))
    invented = replace(ONE, said_culprits=(1,), said_causes=("host",), said_costs=(0.1,), costs=(0.02,))
    assert scores.straggler_named([slow, named, ONE]) == Share(1, 2)
    assert scores.straggler_invented([named, invented]) == Share(1, 2)
    assert scores.straggler_caused([slow, named]) == Share(1, 1)
    assert scores.straggler_cost_error([slow, named]) == pytest.approx(0.02)


def test_tables_are_markdown() -> None:
    """Every row has as many cells as the head."""
    slow = replace(ONE, true_culprit=2, true_cause="clock", true_cost=0.2, true_detail="input")
    for table in (
        scores.criteria([ONE, MISSED, slow]),
        scores.class_table([ONE, MISSED]),
        scores.confusion([ONE, MISSED], "Taken for"),
        scores.detail_table([slow]),
        scores.calibration_table([ONE]),
        scores.card_table([ONE], [ONE]),
        scores.signal_table([("all", [ONE])]),
        scores.straggler_table([slow]),
    ):
        assert table.rows
        assert all(len(row) == len(table.head) for row in table.rows)
