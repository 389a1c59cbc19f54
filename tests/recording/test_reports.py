"""What jobs said of themselves is part of a recording; where they work is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpumon.model.report import Report, ReportSource
from gpumon.recording import Writer, read
from tests.recording.ticks import ticks


def _fail(text: str) -> None:
    raise AssertionError(text)


def test_reports_come_back(tmp_path: Path) -> None:
    """The ticks in which something was heard hold it again, the others nothing."""
    said = Report(12.5, ReportSource.SOCKET, pid=4711, samples_per_second=812.5, tokens_per_second=0.0, step=7.0)
    writer = Writer(tmp_path / "r")
    for number, tick in enumerate(ticks(10)):
        writer.write(replace(tick, reports=(said,) if number == 4 else ()))
    writer.close()
    assert [tick.reports for tick in read([tmp_path / "r"], _fail)] == [(said,) if n == 4 else () for n in range(10)]


def test_working_folders_stay_out(tmp_path: Path) -> None:
    """The folder of a process is text a tenant chose."""
    writer = Writer(tmp_path / "r")
    for tick in ticks(3):
        processes = tuple(replace(process, folder="/home/ada/secret") for process in tick.processes.processes)
        assert processes
        writer.write(replace(tick, processes=replace(tick.processes, processes=processes)))
    writer.close()
    for tick in read([tmp_path / "r"], _fail):
        assert {process.folder for process in tick.processes.processes} == {""}
