"""Report 113: what lasts is a metric, and no condition writes a line at every tick."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import structlog
from structlog.testing import capture_logs

from gpumon.app.log_limit import Limit
from tests.app.test_log import _run
from tests.cases_audit.watched import Watched
from tests.standin.library import Standin

WEEK_S = 7 * 86400


@pytest.mark.tools
def test_unsupported_and_flapping_calls_write_nothing(standin: Standin, watch: Callable[..., Watched]) -> None:
    """Thirty calls refused for good on eight cards and one that fails every other second: no line in five minutes."""
    standin.apply(*(f"card {index} minor {index}" for index in range(8)), "set * GetRemappedRows !3")
    refused = "GetTotalEnergyConsumption GetTotalEccErrors GetPcieReplayCounter GetMPSComputeRunningProcesses".split()
    standin.apply(*(f"set * {name} !3" for name in refused), *(f"set * GetFieldValue:{n} !3" for n in range(138, 164)))
    with capture_logs() as lines:
        watched = watch()
        for number in range(300):
            standin.apply(f"set * GetTemperature {'!999' if number % 2 else '50'}")
            watched.skip()
        page = watched.tick()
    assert lines == []
    assert page.values("node_readings_missing")
    assert (page.value("nvml_errors_total", error="unknown") or 0) > 1000


def test_a_condition_that_flaps_for_a_week() -> None:
    """A condition that changes every second for a week writes under 1000 lines, and they say how many were left out."""
    now_s = 0.0
    limit = Limit(lambda: now_s)
    written, left_out = 0, 0
    for second in range(0, WEEK_S, 2):
        now_s = float(second)
        for text in ("driver gone", "driver opened"):
            try:
                line = limit(None, "warning", {"event": text})
            except structlog.DropEvent:
                continue
            written += 1
            left_out += int(line.get("left_out", 0))
    assert written < 1000
    assert written + left_out > WEEK_S - 7200


def test_a_line_now_and_then_is_never_left_out() -> None:
    """Lines of different kinds, and one each half hour, are all written; debug lines are not counted."""
    now_s = 0.0
    limit = Limit(lambda: now_s)
    for number in range(500):
        now_s += 1800.0
        assert "left_out" not in limit(None, "info", {"event": "now and then"})
        assert limit(None, "error", {"event": f"kind {number}"})
        for _ in range(50):
            assert limit(None, "debug", {"event": "often"})


_RAISING = """
import structlog
from gpumon.app import log
log.configure("info", "json")
for n in range(100):
    try:
        {}["nothing"]
    except KeyError:
        structlog.get_logger().exception("a read failed", gpu=3)
log.drain(2.0)
"""


def test_a_fault_is_told_with_its_place_and_not_endlessly() -> None:
    """A caught fault's line holds what was raised and where, as text in one line; the hundredth is left out."""
    done = _run(_RAISING, capture_output=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert len(lines) == 20
    assert "KeyError: 'nothing'" in lines[0]["exception"]
    assert "line 7" in lines[0]["exception"]
