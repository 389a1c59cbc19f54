"""The server under attack, in real time and in its own process."""

from __future__ import annotations

import pytest

from benchmarks.scrape import measure, quantile


@pytest.mark.realtime
def test_scrapes_go_on_under_attack() -> None:
    """With 100 silent connections, slow headers, half-open ones and 1 GB requests, scrapes stay fast, memory flat."""
    result = measure(seconds=2.0)
    assert result.series >= 950
    assert quantile(result.attacked, 0.99) < 0.1
    assert result.memory_attacked - result.memory_before < 10 * 2**20
    assert result.threads_after <= result.threads_before
