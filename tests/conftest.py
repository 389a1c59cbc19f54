"""Fixtures and options that every area uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

PROJECT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --no-skips: a test that is skipped proves nothing and fails."""
    parser.addoption("--no-skips", action="store_true", help="a skipped test is a failure")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Turn a skip into a failure when --no-skips is given."""
    report = yield
    if report.skipped and item.config.getoption("--no-skips") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """Take back what a command under test did to the process's logging."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder beside the project with case files and recorded telemetry; fails where it is missing."""
    shared = PROJECT.parent / "shared"
    assert shared.is_dir(), f"{shared} is missing: the case files and traces lie there"
    return shared
