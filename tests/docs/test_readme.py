"""README in English and Chinese: linked both ways, the same commands, both commands for everybody in each."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ENGLISH = (PROJECT / "README.md").read_text("utf-8")
CHINESE = (PROJECT / "README.zh.md").read_text("utf-8")


def test_both_readmes_link_to_each_other() -> None:
    """A reader of either finds the other."""
    assert "(README.zh.md)" in ENGLISH
    assert "(README.md)" in CHINESE


def test_both_readmes_show_the_same_commands() -> None:
    """A command that is shown in one language is shown in the other."""
    shown = [set(re.findall(r"^\| .*?`gpumon ([a-z]+)", text, re.MULTILINE)) for text in (ENGLISH, CHINESE)]
    assert shown[0] == shown[1] != set()
    for text in (ENGLISH, CHINESE):
        assert "make run" in text
        assert "make test" in text
