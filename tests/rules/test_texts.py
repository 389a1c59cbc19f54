"""The words of the alerts as a reader gets them: whole sentences, numbers where there are any, no leftovers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rules.rendering import rendered
from tests.rules.test_files import ALERTS

pytestmark = pytest.mark.tools

LEFTOVERS = ("<no value>", "error expanding", "error executing", "{{", "}}", " ()", " []", "（）", "%!", "NaN", "  ")


@pytest.mark.parametrize("with_numbers", [True, False])
def test_texts_have_no_leftovers(promtool: str, tmp_path: Path, with_numbers: bool) -> None:
    """Neither a missing label nor a missing figure leaves a trace in a text."""
    alerts = rendered(promtool, tmp_path, with_numbers=with_numbers)
    assert len(alerts) == len(ALERTS)
    for labels, texts in alerts:
        for name, text in texts.items():
            assert not [mark for mark in LEFTOVERS if mark in text], (labels["alertname"], name, text)
            assert text == text.strip() != ""
            if name != "runbook_url":
                assert bool(re.search("[\u4e00-\u9fff]", text)) == name.endswith("_zh"), (name, text)


def test_the_cost_is_told_in_numbers(promtool: str, tmp_path: Path) -> None:
    """A slow job's tenant reads what it costs and how many cards would do."""
    alerts = {labels["alertname"]: texts for labels, texts in rendered(promtool, tmp_path, with_numbers=True)}
    bound = alerts["GpumonJobCommunicationBound"]
    assert "About 41 % of each step waits for transfers. 4 of them would be as fast." in bound["description"]
    assert "每步约有 41 % 的时间在等传输。用 4 张卡就一样快。" in bound["description_zh"]
    assert "It has 8 cards." in alerts["GpumonJobAddGpuSlowdown"]["description"]
    assert "Xid 79" in alerts["GpumonGpuLost"]["description"]
