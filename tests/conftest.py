"""Fixtures and options that every area uses."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from _pytest.runner import runtestprotocol

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


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Give a test that runs in real time a second try, and say so: on two cores another process may hold it up.

    What is wrong fails twice. Tests in simulated time are not retried.
    """
    if item.get_closest_marker("realtime") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        sys.stderr.write(f"\n{item.nodeid} failed in real time and is tried once more\n")
        item._initrequest()  # type: ignore[attr-defined]  # fresh fixtures, as for a test that never ran
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


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
