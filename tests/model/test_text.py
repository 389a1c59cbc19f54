"""Text as outputs may show it."""

from __future__ import annotations

import pytest

from gpumon.model.text import counted


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(1, "card", "1 card"), (8, "card", "8 cards"), (0, "card", "0 cards"), (2, "process", "2 processes")],
)
def test_a_count_and_its_noun_agree(number: int, noun: str, text: str) -> None:
    """One card, several cards, and no "processs"."""
    assert counted(number, noun) == text
