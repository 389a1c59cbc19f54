"""Both versions of promtool, for tests that run on each."""

from __future__ import annotations

import pytest

from tests.rules import servers


@pytest.fixture(scope="session", params=[servers.installed, servers.newest], ids=["2.42", "newest"])
def promtool(request: pytest.FixtureRequest) -> str:
    """The installed promtool, then the newest."""
    return str(request.param("promtool"))
