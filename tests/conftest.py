"""Fixtures that every area uses."""

from __future__ import annotations

from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder beside the project with case files and recorded telemetry; fails where it is missing."""
    shared = PROJECT.parent / "shared"
    assert shared.is_dir(), f"{shared} is missing: the case files and traces lie there"
    return shared
