"""Who may say what: a report speaks for the sender's own job and for nobody else's."""

from __future__ import annotations

import dataclasses
import math

import pytest

from gpumon.model.fault import Fault
from gpumon.model.job import Job, JobKind
from gpumon.model.process import Process, ProcessTable
from gpumon.model.report import Report, ReportSource
from gpumon.scaling.reports import Counter, owner, rates

OURS = Job(
    "container:aaaaaaaaaaaa:1", JobKind.CONTAINER, "acme", (), ((100, 5),), ((101, 6),), container="aaaaaaaaaaaa"
)
THEIRS = Job("container:bbbbbbbbbbbb:1", JobKind.CONTAINER, "globex", (), ((200, 5),), container="bbbbbbbbbbbb")
BARE = Job("session:300:9", JobKind.SESSION, "unassigned", (), ((300, 9),), ((301, 9),))
JOBS = (OURS, THEIRS, BARE)


def _process(pid: int, uid: int) -> Process:
    return Process(
        pid, 5, 1, pid, uid, "R", "python", (), Fault.NO_PERMISSION, Fault.NO_PERMISSION, 0.0, 1, frozenset()
    )


TABLE = ProcessTable(processes=tuple(_process(pid, uid) for pid, uid in ((100, 0), (200, 0), (300, 1000))))


def said(source: ReportSource = ReportSource.SOCKET, mono_s: float = 50.0, **fields: object) -> Report:
    """Return a report of ten samples a second."""
    made = Report(mono_s, source, samples_per_second=10.0)
    return dataclasses.replace(made, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("report", "job"),
    [
        (said(pid=100), OURS.gpu_job),
        (said(pid=101), OURS.gpu_job),
        (said(pid=200), THEIRS.gpu_job),
        (said(pid=999), ""),
        (said(pid=0), ""),
        (said(ReportSource.SERVER, pid=200), THEIRS.gpu_job),
        # A tenant's folder speaks for that tenant alone, whatever the name.
        (said(ReportSource.FILE, tenant="acme", container="aaaaaaaaaaaa"), OURS.gpu_job),
        (said(ReportSource.FILE, tenant="acme", container="bbbbbbbbbbbb"), ""),
        (said(ReportSource.FILE, tenant="acme", pid=200), ""),
        (said(ReportSource.FILE, tenant="acme", pid=101), OURS.gpu_job),
        # Outside of one the file must be the process's own user's, and no container's.
        (said(ReportSource.FILE, pid=300, uid=1000), BARE.gpu_job),
        (said(ReportSource.FILE, pid=300, uid=1001), ""),
        (said(ReportSource.FILE, pid=300, uid=-1), ""),
        (said(ReportSource.FILE, pid=100, uid=0), ""),
        (said(ReportSource.FILE, container="aaaaaaaaaaaa", uid=0), ""),
    ],
)
def test_owner(report: Report, job: str) -> None:
    """Each report is given to the one job it may speak for."""
    assert owner(report, JOBS, TABLE) == job


def test_tokens_go_before_samples() -> None:
    """A job that says both is compared by tokens; a report without a number is nothing."""
    found, _ = rates(
        (said(pid=100, tokens_per_second=7.0), said(pid=200, samples_per_second=math.nan)), JOBS, TABLE, {}
    )
    assert [(one.gpu_job, one.rate, one.unit) for one in found] == [(OURS.gpu_job, 7.0, "tokens")]


def test_a_counter_becomes_a_pace() -> None:
    """Steps over the time between two reports; a counter that falls begins anew, one that stands still waits."""
    steps = {"samples_per_second": math.nan, "pid": 100}
    _, counters = rates((said(step=10.0, mono_s=0.0, **steps),), JOBS, TABLE, {})
    assert counters == {OURS.gpu_job: Counter(10.0, 0.0)}
    soon, counters = rates((said(step=11.0, mono_s=2.0, **steps),), JOBS, TABLE, counters)
    assert soon == ()
    found, counters = rates((said(step=30.0, mono_s=10.0, **steps),), JOBS, TABLE, counters)
    assert [(one.rate, one.unit) for one in found] == [(2.0, "steps")]
    fallen, counters = rates((said(step=3.0, mono_s=20.0, **steps),), JOBS, TABLE, counters)
    assert fallen == ()
    assert counters == {OURS.gpu_job: Counter(3.0, 20.0)}


def test_counters_go_with_their_job() -> None:
    """What an ended job has counted is not kept."""
    assert rates((), (THEIRS,), TABLE, {OURS.gpu_job: Counter(1.0, 1.0)})[1] == {}
