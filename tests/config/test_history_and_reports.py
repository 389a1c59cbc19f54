"""Settings of the history and of reports: defaults, units, and what is refused."""

from __future__ import annotations

import pytest

from gpumon.config import load
from gpumon.model.errors import ConfigError
from gpumon.model.settings import HistorySettings, ReportSettings


def test_defaults() -> None:
    """The history is kept, and nobody is listened to."""
    config = load(None, {})
    assert config.history == HistorySettings(folder="", retention_s=180 * 86400.0, most_bytes=64 * 2**20)
    assert config.report == ReportSettings()
    assert not config.report.wanted


def test_units() -> None:
    """Days become seconds, MiB become bytes."""
    config = load(None, {"GPUMON_HISTORY_RETENTION_DAYS": "7", "GPUMON_HISTORY_MAX_SIZE_MIB": "2"})
    assert config.history == HistorySettings(folder="", retention_s=604_800.0, most_bytes=2_097_152)


def test_switched_off_and_on() -> None:
    """No history where it is not wanted; each way of reporting by its own setting."""
    config = load(None, {"GPUMON_HISTORY_ENABLED": "false", "GPUMON_REPORT_SERVERS": "true"})
    assert config.history is None
    assert config.report == ReportSettings(servers=True)
    assert config.report.wanted


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GPUMON_HISTORY_RETENTION_DAYS", "0"),
        ("GPUMON_HISTORY_MAX_SIZE_MIB", "9999"),
        ("GPUMON_HISTORY_ENABLED", "maybe"),
        ("GPUMON_REPORT_SERVERS", "vllm"),
    ],
)
def test_what_is_refused(variable: str, value: str) -> None:
    """A value out of range is told with its place and what is allowed."""
    with pytest.raises(ConfigError, match=variable):
        load(None, {variable: value})
