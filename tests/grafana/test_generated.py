"""What is committed is what the generator gives."""

from __future__ import annotations

import pytest

from grafana.generate import PROJECT, files

GENERATED = files()


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_committed_files_are_the_generated_ones(name: str) -> None:
    """`python -m grafana.generate` changes nothing."""
    assert (PROJECT / name).read_text("utf-8") == GENERATED[name], "run: python -m grafana.generate"
