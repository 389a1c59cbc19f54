"""The doctor's answer as text and JSON."""

from __future__ import annotations

import json
import math

from gpumon.doctor.agreement import Agreement, CounterFacts, PowerFacts, Ratio
from gpumon.doctor.checks import run_checks
from gpumon.doctor.measure import CallCost, CardCosts, Overlap
from gpumon.doctor.report import Measurements, document, text
from gpumon.doctor.result import passed, warned

from .conftest import make_examination

MEASURED = Measurements(
    costs=(
        CardCosts(
            "NVIDIA GeForce RTX 4090",
            0,
            (
                CallCost("counters", "FieldValues", 50, 0.0003, 0.00045),
                CallCost("gpm", "GpmSampleGet", 0, math.nan, math.nan, "not_supported"),
            ),
        ),
    ),
    overlap=(Overlap("all cards", 8, 0.0205, 0.164, "queue"),),
    agreement=Agreement(
        ratios=(Ratio(0, "counter rx", "window rx", math.nan, 2, "not enough traffic to compare"),),
        counters=(CounterFacts(0, 32, 3, 4241659510),),
        power=(PowerFacts(0, 0.02, 0.02, 1.0, (("ring", 250.25),)),),
    ),
)


def test_checks_stand_in_columns_with_their_remedy() -> None:
    """Level, check and sentence are aligned; the remedy stands below."""
    results = (passed("driver", "Answers."), warned("acs", "On.", "Switch it off."))
    lines = text(make_examination(), results, None).splitlines()
    assert lines[4:7] == ["PASS  driver  Answers.", "WARN  acs     On.", "              -> Switch it off."]
    assert lines[-1] == "0 failed, 1 to look at, 1 fine."


def test_no_line_is_wider_than_a_terminal() -> None:
    """Sentences are wrapped at words."""
    results = (passed("capabilities", "word " * 80),)
    assert max(map(len, text(make_examination(), results, None).splitlines())) <= 110


def test_tables_of_measurements() -> None:
    """Times carry a fitting unit, missing ones a dash, failures their reason."""
    answer = text(make_examination(), (), MEASURED)
    assert "  counters  300.0 us       450.0 us  50  FieldValues\n" in answer
    assert "  gpm       not_supported  -         -   GpmSampleGet\n" in answer
    assert "  all cards        8        20.5 ms  164.0 ms  they queue in the driver\n" in answer
    assert "  0     counter rx / window rx  -      2  not enough traffic to compare\n" in answer
    assert "4,241,659,510" in answer
    assert "ring 250.2 W" in answer


def test_document_is_valid_json() -> None:
    """NaN becomes null, tuples become lists, remedies of good results are null."""
    examination = make_examination()
    answer = document(examination, run_checks(examination), MEASURED)
    again = json.loads(json.dumps(answer, allow_nan=False))
    assert again["measured"]["costs"][0]["costs"][1]["median_s"] is None
    assert again["measured"]["overlap"][0]["verdict"] == "queue"
    assert again["checks"][0] == {"check": "platform", "level": "PASS", "sentence": "Linux 6.8.0.", "remedy": None}


def test_document_without_measurements() -> None:
    """A node without a usable card has no measurements, not empty ones."""
    assert "measured" not in document(make_examination(), (), None)
