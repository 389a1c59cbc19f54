"""Calls that hang, fail, or come back."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from gpumon.doctor.checks import run_checks
from gpumon.doctor.examination import answering
from gpumon.doctor.patience import within
from gpumon.doctor.result import Level
from gpumon.model.fault import Fault

from .conftest import make_examination


def test_answer_in_time_is_returned() -> None:
    """A call that comes back gives its answer, None included."""
    assert within(10.0, lambda: 7) == 7
    assert within(10.0, lambda: None) is None


def test_call_that_hangs_is_a_timeout() -> None:
    """A call that does not come back is given up."""
    never = threading.Event()
    assert within(0.01, never.wait) is Fault.TIMEOUT
    never.set()


def test_what_the_call_raises_is_raised() -> None:
    """A bug in the call is not swallowed by its thread."""
    with pytest.raises(ZeroDivisionError):
        within(10.0, lambda: 1 // 0)


def test_card_that_hung_is_a_failure_and_not_measured() -> None:
    """A card whose calls did not come back is named with its remedy, and left out of measuring."""
    examination = replace(make_examination(), silent=frozenset({"GPU-1"}))
    (result,) = (row for row in run_checks(examination) if row.check == "cards")
    assert result.level is Level.FAIL
    assert result.sentence == "Card 1 (0000:12:00.0) cannot be used: timeout."
    assert [card.identity.index for card in answering(examination)] == [0]
