"""What jobs say of their own throughput, given to the job that may say it.

A sender speaks for the job its process belongs to and for no other. A file in a tenant's folder speaks for that
tenant's jobs alone; a file outside of one speaks for a process of the file's own owner, outside containers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpumon.model.job import Job
from gpumon.model.process import ProcessTable
from gpumon.model.report import Report, ReportSource

# A counter of steps must move on for this long before its pace is believed.
LEAST_STEPS_S = 5.0
SAMPLES, TOKENS, STEPS = "samples", "tokens", "steps"


@dataclass(frozen=True, slots=True)
class Counter:
    """The step counter of one sender: where it stood, and when."""

    step: float
    mono_s: float


@dataclass(frozen=True, slots=True)
class Said:
    """One rate that a job reported."""

    gpu_job: str
    rate: float  # per second
    unit: str


def owner(report: Report, jobs: Sequence[Job], table: ProcessTable) -> str:
    """Return the job that a report speaks for, "" for none."""
    if report.source is ReportSource.FILE:
        return _owner_of_file(report, jobs, table)
    return next((job.gpu_job for job in jobs if _has(job, report.pid)), "")


def _owner_of_file(report: Report, jobs: Sequence[Job], table: ProcessTable) -> str:
    if report.tenant:
        for job in jobs:
            named = job.container and job.container == report.container
            if job.tenant == report.tenant and (named or _has(job, report.pid)):
                return job.gpu_job
        return ""
    owners = {process.pid: process.uid for process in table.processes}
    if report.uid < 0 or owners.get(report.pid, -2) != report.uid:
        return ""
    return next((job.gpu_job for job in jobs if not job.container and _has(job, report.pid)), "")


def _has(job: Job, pid: int) -> bool:
    return pid > 0 and any(pid == known for known, _ in (*job.processes, *job.relatives))


def rates(
    reports: Sequence[Report], jobs: Sequence[Job], table: ProcessTable, counters: Mapping[str, Counter]
) -> tuple[tuple[Said, ...], dict[str, Counter]]:
    """Return the rates that were said, and the step counters by job as they stand now.

    Ranks of one job each say their own; what one rank says is the job's figure, not a part of it (docs/reporting.md),
    so the newest counts.
    """
    said: dict[str, Said] = {}
    standing = {job.gpu_job: counters[job.gpu_job] for job in jobs if job.gpu_job in counters}
    for report in reports:
        name = owner(report, jobs, table)
        if not name:
            continue
        if report.tokens_per_second > 0.0:
            said[name] = Said(name, report.tokens_per_second, TOKENS)
        elif report.samples_per_second > 0.0:
            said[name] = Said(name, report.samples_per_second, SAMPLES)
        elif not math.isnan(report.step):
            before = standing.get(name)
            if before is None or report.step < before.step:
                standing[name] = Counter(report.step, report.mono_s)
            elif report.step > before.step and report.mono_s - before.mono_s >= LEAST_STEPS_S:
                pace = (report.step - before.step) / (report.mono_s - before.mono_s)
                said[name] = Said(name, pace, STEPS)
                standing[name] = Counter(report.step, report.mono_s)
    return tuple(said.values()), standing
