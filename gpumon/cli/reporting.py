"""What `report` and `replay` share: ticks to a finished report, and the report to where it should go."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from gpumon.model.errors import GpumonError
from gpumon.model.past import NOTHING, Past
from gpumon.model.samples import Tick
from gpumon.model.settings import Settings
from gpumon.pipeline import initial_state, step
from gpumon.recording import read
from gpumon.ui import report_html, report_text
from gpumon.ui.report import FinishedReport, ReportCollector


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add --format, --gpu-job, --compare and --out."""
    parser.add_argument("--format", choices=("text", "json", "html"), default="text", help="default text")
    parser.add_argument("--gpu-job", metavar="ID", help="this job alone")
    parser.add_argument("--compare", metavar="FILE", help="a recording of the same work before, to compare with")
    parser.add_argument("--out", metavar="FILE", help="write there instead of standard output")


def warn(sentence: str) -> None:
    """Tell the person about something that was left out."""
    print(f"gpumon: {sentence}", file=sys.stderr)


def judged(
    ticks: Iterable[Tick], settings: Settings, progress: Callable[[Tick], None] = lambda _: None, past: Past = NOTHING
) -> FinishedReport | None:
    """Return the report of a run of ticks, None when there was none."""
    state, collector = initial_state(), ReportCollector()
    for tick in ticks:
        state = step(state, tick, settings, past)
        if state.view is not None:
            collector.add(state.view, state.intervals)
        progress(tick)
    return collector.finish()


def deliver_nothing(args: argparse.Namespace) -> int:
    """Say that there was nothing to judge: an empty report for programs, a sentence for people."""
    if args.format == "json":
        sys.stdout.write('{"schema":1,"node":null,"gpus":[],"jobs":[]}\n')
    else:
        warn("no samples, so no report")
    return 0


def deliver(finished: FinishedReport, args: argparse.Namespace, settings: Settings) -> int:
    """Write the report as asked and return 0: what it found is in it, not in the exit code of a watch that worked."""
    if args.gpu_job is not None:
        finished = _of_job(finished, args.gpu_job)
    before = judged(read([args.compare], warn), settings) if args.compare else None
    if args.format == "json":
        written = finished.report.json().decode() + "\n"
    elif args.format == "html":
        written = report_html.html(finished, before)
    else:
        written = report_text.text(finished, before)
    if args.out is None:
        sys.stdout.write(written)
    else:
        try:
            Path(args.out).write_text(written, "utf-8")
        except OSError as error:
            raise GpumonError(f"--out {args.out}: cannot be written: {error.strerror or error}") from None
    return 0


def _of_job(finished: FinishedReport, gpu_job: str) -> FinishedReport:
    """Return the report narrowed to one job and its cards. Raises GpumonError when it was not seen."""
    report = finished.report
    jobs = tuple(job for job in report.jobs if job.gpu_job == gpu_job)
    if not jobs:
        seen = ", ".join(job.gpu_job for job in report.jobs) or "none"
        raise GpumonError(f"--gpu-job {gpu_job}: no such job was seen; seen: {seen}")
    cards = tuple(card for card in report.gpus if card.gpu in jobs[0].gpus)
    return dataclasses.replace(finished, report=msgspec.structs.replace(report, jobs=jobs, gpus=cards))
