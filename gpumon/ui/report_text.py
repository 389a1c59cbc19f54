"""A report for the terminal: the answer first, then each job with its reasons and what to do, then the cards."""

from __future__ import annotations

import textwrap

from gpumon.ui import phrases
from gpumon.ui.compare import Change, changes
from gpumon.ui.report import FinishedReport, Report
from gpumon.ui.state_json import GpuState, JobState

WIDTH = 100
_BAR = 40
# One letter for each share of time, so that the bar needs no colour.
_LETTERS = {
    "compute": "#",
    "overlap": "+",
    "memory": "m",
    "communication": "=",
    "peer_wait": "~",
    "host_wait": "h",
    "idle": ".",
}
_SHOWN_INTERVALS = 12


def text(finished: FinishedReport, before: FinishedReport | None = None) -> str:
    """Return the report as plain text, at most 100 columns wide.

    Args:
        before: an earlier report of the same work, to compare with.
    """
    report = finished.report
    lines = [phrases.title(report), ""]
    if report.node.simulated:
        lines += ["*** SIMULATED NODE: these cards and jobs do not exist. Every figure is computed. ***", ""]
    lines += [phrases.answer(report)]
    if before is not None:
        lines += _comparison(before.report, report)
    for job in phrases.by_urgency(report):
        lines += ["", *_job(job, report.gpus)]
    if report.node.findings:
        lines += ["", "The node"]
        for finding in report.node.findings:
            lines += _item(f"{finding.title}: {finding.advice}", "  - ")
    if report.gpus:
        lines += ["", *_cards(report.gpus)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _job(job: JobState, gpus: tuple[GpuState, ...]) -> list[str]:
    mark = "[!!]" if phrases.in_trouble(job) else "[ok]" if job.job_class != "unknown" else "[ ?]"
    lines = _item(f"GPU {phrases.ranges(job.gpus) or '?'}: {phrases.headline(job, gpus)}.", f"{mark} ")
    lines += _item(f"{phrases.verdict(job)}. Tenant {job.tenant}. {phrases.names(job)}", "     ")
    if job.time_ratio:
        told = ", ".join(
            f"{_LETTERS[state]} {name} {phrases.percent(share)}" for state, name, share in phrases.shares(job)
        )
        lines += ["", f"     [{_bar(job)}]", *_item(told, "     ")]
    lines += _list("Why", [*job.evidence, *phrases.worth(job)]) + _list("What to do", phrases.advice(job))
    if job.against:
        lines += _item(f"Would prove it wrong: {job.against}", "     ")
    figures = ", ".join(f"{name} {value}" for name, value in phrases.figures(job))
    lines += ["", *_item(figures, "     ")] if figures else []
    intervals = job.intervals if isinstance(job.intervals, tuple) else ()
    if len(intervals) > 1:
        shown = [phrases.interval(found) for found in intervals[:_SHOWN_INTERVALS]]
        if len(intervals) > _SHOWN_INTERVALS:
            shown.append(f"... and {len(intervals) - _SHOWN_INTERVALS} more (all of them in --format json)")
        lines += _list("Over time", shown)
    return lines


def _bar(job: JobState) -> str:
    """Return the time split as letters; rounding goes to the largest share."""
    shares = phrases.shares(job)
    widths = {state: round(share * _BAR) for state, _, share in shares}
    largest = max(shares, key=lambda row: row[2])[0]
    widths[largest] += _BAR - sum(widths.values())
    return "".join(_LETTERS[state] * width for state, width in widths.items())


def _cards(gpus: tuple[GpuState, ...]) -> list[str]:
    lines = ["GPU  name                      in GB/s  out GB/s       of  fullest    W/limit   GiB/all     °C"]
    for gpu in gpus:
        name = phrases.one_line(gpu.name).removeprefix("NVIDIA ").removeprefix("GeForce ")[:24]
        if not gpu.up:
            lines.append(f"{gpu.gpu:>3}  {name:<24}  no answer ({gpu.fault or 'unknown'})")
            continue
        link = gpu.pcie
        full = max(link.rx.saturation_ratio, link.tx.saturation_ratio)
        power = f"{phrases.figure(gpu.power_watts)}/{phrases.figure(gpu.power_limit_watts)}"
        gib = 2.0**30
        memory = f"{phrases.figure(gpu.memory_used_bytes, gib)}/{phrases.figure(gpu.memory_total_bytes, gib)}"
        lines.append(
            f"{gpu.gpu:>3}  {name:<24}  {phrases.figure(link.rx.bytes_per_second, 1e9, 1):>7}"
            f"  {phrases.figure(link.tx.bytes_per_second, 1e9, 1):>8}"
            f"  {phrases.figure(link.attainable_bytes_per_second, 1e9, 1):>7}"
            f"  {phrases.percent(full):>7}  {power:>9}  {memory:>8}  {phrases.figure(gpu.temperature_celsius):>5}"
            f"{'  narrow link' if link.downtrained else ''}"
        )
    return lines


def _comparison(before: Report, after: Report) -> list[str]:
    found = changes(before, after)
    if not found:
        return ["", "Compared: no job of the earlier recording is found again."]
    return ["", "Compared with the earlier recording", *(line for change in found for line in _change(change))]


def _change(change: Change) -> list[str]:
    was = phrases.class_name(change.before.job_class, change.before.detail)
    now = phrases.class_name(change.after.job_class, change.after.detail)
    kept = f"still {now}" if was == now else f"{now} instead of {was}"
    return _item(f"GPU {phrases.ranges(change.after.gpus) or '?'}: {change.sentence()} It is {kept}.", "  - ")


def _list(name: str, sentences: list[str]) -> list[str]:
    if not sentences:
        return []
    return ["", f"     {name}", *(line for sentence in sentences for line in _item(sentence, "     - "))]


def _item(sentence: str, start: str) -> list[str]:
    return textwrap.wrap(
        phrases.one_line_of_ours(sentence),
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
    )
