"""What the daemon says of a card or job that cannot be judged."""

from __future__ import annotations

import structlog
from structlog.testing import capture_logs

from gpumon.app.daemon import MOST_ERRORS, Daemon


def told(errors: list[Exception]) -> list[str]:
    """Return the subjects of what is logged while job after job meets these errors."""
    daemon = Daemon.__new__(Daemon)  # one that watches nothing
    daemon._log, daemon._unjudged = structlog.get_logger(), set()
    with capture_logs() as lines:
        for number, error in enumerate(errors):
            try:
                raise error
            except Exception:  # noqa: BLE001 (as the edge does that calls it)
                daemon._tell_unjudged(f"session:{number}")
    assert all(line["exc_info"] for line in lines)
    return [line["subject"] for line in lines]


def test_each_kind_of_error_is_told_once() -> None:
    """The same error in every second fills no log; another one is told as well."""
    assert told([ZeroDivisionError()] * 3 + [KeyError("a")] + [ZeroDivisionError()]) == ["session:0", "session:3"]


def test_errors_that_differ_each_time_are_bounded() -> None:
    """An error that names a figure of its own each time is told so often and no more."""
    assert len(told([ValueError(number) for number in range(3 * MOST_ERRORS)])) == MOST_ERRORS
