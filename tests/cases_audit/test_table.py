"""docs/cases.md names a test for every report of the kinds it covers, and each test it names exists."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import PROJECT

KINDS = "VAL CTR UNSUP LOST MIG PROC CGRP ATTR LABEL SLOW LEAK SCHED HTTP LIFE".split()
TABLE = (PROJECT / "docs/cases.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\d+) \| ([A-Z]+) \| (.+?) \| (.+) \|$", TABLE, re.MULTILINE)


def test_every_report_of_these_kinds_has_its_row(shared_dir: Path) -> None:
    """Each number and kind of the list of reports stands in the table once, in order."""
    reports = re.findall(r"^### (\d+) · ([A-Z]+) ·", (shared_dir / "cases/REPORTS.md").read_text("utf-8"), re.MULTILINE)
    wanted = [(number, kind) for number, kind in reports if kind in KINDS]
    assert [(number, kind) for number, kind, _, _ in ROWS] == wanted


def test_every_test_of_the_table_exists() -> None:
    """A row names a test that is there, or says why there is none."""
    for number, _, _, shown in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", shown)
        assert named or "not applicable" in shown or "as 21" in shown, number
        for file, function in named:
            assert f"def {function}(" in (PROJECT / file).read_text("utf-8"), (file, function)
