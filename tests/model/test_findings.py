"""The catalogue of findings is closed, complete in both languages, and fit for labels and mails."""

from __future__ import annotations

import re

import pytest

from gpumon.model.findings import CATALOGUE, CUSTOMER, FINDINGS_BY_NAME, OPERATOR, FindingKind
from gpumon.model.findings_zh import CHINESE
from gpumon.model.verdict import JobClass

EVERY = pytest.mark.parametrize("row", CATALOGUE, ids=lambda row: row.finding)


def test_names_are_unique() -> None:
    """Each name stands once, and every one has a Chinese text."""
    assert len(FINDINGS_BY_NAME) == len(CATALOGUE)
    assert set(CHINESE) == set(FINDINGS_BY_NAME)


@EVERY
def test_rows_are_complete(row: FindingKind) -> None:
    """A row's name is a label value, its severity and audience are known, and no text is empty or holds a mark."""
    assert re.fullmatch("[a-z0-9_]+", row.finding)
    assert row.severity in {"info", "warning", "critical"}
    assert row.audience in {CUSTOMER, OPERATOR}
    assert row.explains in {"", *(job_class.value for job_class in JobClass)}
    for text in (row.title, row.advice, row.check, *row.chinese):
        assert text.strip() == text != ""
        assert "{{" not in text and "\n" not in text
    assert row.advice.endswith((".", "?")) and row.check.endswith(".") and not row.title.endswith(".")


@EVERY
def test_texts_are_in_their_language(row: FindingKind) -> None:
    """English texts have no Chinese signs, and each Chinese text has some."""
    chinese = re.compile("[\u4e00-\u9fff]")
    assert not any(chinese.search(text) for text in (row.title, row.advice, row.check))
    assert all(chinese.search(text) for text in row.chinese)


def test_found_carries_the_row() -> None:
    """A finding that holds has the row's words and the detector's evidence."""
    found = FINDINGS_BY_NAME["tp_over_pcie"].found(("2.1 GB/s each way on 8 cards",), (1.5, 3.0))
    assert (found.severity, found.audience) == ("warning", "customer")
    assert found.title_zh.startswith("在 PCIe 上") and found.gain == (1.5, 3.0)
