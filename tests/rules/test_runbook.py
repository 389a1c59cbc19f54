"""Every link of an alert leads to a heading, in both languages, and every heading belongs to an alert or a finding."""

from __future__ import annotations

import re

import pytest

from gpumon.model.findings import FINDINGS_BY_NAME
from tests.rules.test_files import ALERTS
from tests.rules.unit import PROJECT


@pytest.mark.parametrize("file", ["runbook.md", "runbook.zh.md"])
def test_links_and_headings_are_in_step(file: str) -> None:
    """Anchors of runbook_url exist; no heading is left over."""
    text = (PROJECT / "docs" / file).read_text("utf-8")
    headings = re.findall(r"^### (\w+)$", text, re.MULTILINE)
    assert len(headings) == len(set(headings))
    anchors = {heading.lower() for heading in headings}
    for rule in ALERTS:
        path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert path == "runbook.md"
        assert anchor in anchors
    assert set(headings) == {rule["alert"] for rule in ALERTS} | set(FINDINGS_BY_NAME)
