"""A report as one HTML file that can be sent to a customer: no script, nothing loaded, the look of the live page."""

from __future__ import annotations

from html import escape

from gpumon.ui import phrases
from gpumon.ui.charts import classes_chart, links_chart, shares_chart
from gpumon.ui.compare import changes
from gpumon.ui.report import FinishedReport, Report
from gpumon.ui.state_json import GpuState, JobState
from gpumon.ui.style import packaged, policy_hash, style_sheet


def html(finished: FinishedReport, before: FinishedReport | None = None) -> str:
    """Return the report as a whole HTML document.

    Args:
        before: an earlier report of the same work, to compare with.
    """
    report = finished.report
    style = style_sheet() + packaged("report.css")
    parts = []
    if report.node.simulated:
        sentence = "SIMULATED NODE: these cards and jobs do not exist. Every figure is computed."
        parts.append(f'<p class="notice simulated">{sentence}</p>')
    parts.append(f"<h1>{escape(phrases.answer(report))}</h1>")
    if before is not None:
        parts.append(_comparison(before.report, report))
    if report.jobs:
        parts.append("<h2>Jobs</h2>")
        parts += [_job(job, finished) for job in phrases.by_urgency(report)]
    if report.node.findings:
        items = "".join(f"<li>{escape(f'{row.title}: {row.advice}')}</li>" for row in report.node.findings)
        parts.append(f"<h2>The node</h2><ul>{items}</ul>")
    if report.gpus:
        parts.append(_cards(report.gpus))
    policy = f"default-src 'none'; style-src {policy_hash(style)}; base-uri 'none'; form-action 'none'"
    title = escape(phrases.title(report))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>gpumon report: {title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<header><p class="brand"><b>gpumon</b> report</p>'
        f'<ul class="facts"><li><bdi>{title}</bdi></li></ul></header>\n'
        f"<main>{''.join(parts)}</main>\n</body>\n</html>\n"
    )


def _job(job: JobState, finished: FinishedReport) -> str:
    shown = "hung" if job.gpus_lost else job.job_class
    intervals = job.intervals if isinstance(job.intervals, tuple) else ()
    body = [
        _advice(job),
        _listed("Why gpumon says so", [*job.evidence, *phrases.worth(job)], job.against),
        _over_time(job, finished),
    ]
    if len(intervals) > 1:
        strip = classes_chart(intervals, max(finished.report.span_seconds, intervals[-1].t1))
        body.append(f'<div class="wide"><h4>Verdict over time</h4>{strip}{_intervals(job)}</div>')
    figures = "".join(f"<span>{escape(name)} <b>{escape(value)}</b></span> " for name, value in phrases.figures(job))
    body.append(f'<p class="figures">{figures}</p>')
    return (
        f'<details class="job c-{shown}" open><summary><div class="line">{_chip(job)}'
        f"<b>GPU {escape(phrases.ranges(job.gpus) or '?')}</b>"
        f'<span class="who">tenant {escape(job.tenant)}</span>'
        f'<span class="aside">{escape(phrases.percent(job.confidence))} sure</span></div>'
        f"<h3>{escape(phrases.headline(job, finished.report.gpus))}</h3>"
        f'<div class="who"><bdi>{escape(phrases.names(job))}</bdi></div>{_split(job)}</summary>'
        f'<div class="body">{"".join(body)}</div></details>'
    )


def _chip(job: JobState) -> str:
    name = "no answer" if job.gpus_lost else phrases.class_name(job.job_class, job.detail)
    shown = "hung" if job.gpus_lost else job.job_class
    light = " light" if shown in {"memory", "hung", "idle"} else ""
    return f'<span class="chip c-{shown}{light}">{escape(name)}</span> '


def _split(job: JobState) -> str:
    shares = phrases.shares(job)
    if not shares:
        return '<p class="quiet">Where the time went cannot be told apart well enough to say.</p>'
    pieces, x = [], 0.0
    for state, _, share in shares:
        pieces.append(f'<rect class="s-{state}" x="{1000 * x:.1f}" y="0" width="{1000 * share:.1f}" height="22"/>')
        x += share
    said = ", ".join(f"{name} {phrases.percent(share)}" for _, name, share in shares)
    legend = "".join(
        f'<li class="s-{state}">{escape(name)} <b>{phrases.percent(share)}</b></li>' for state, name, share in shares
    )
    return (
        f'<svg class="split" viewBox="0 0 1000 22" preserveAspectRatio="none" role="img" '
        f'aria-label="Where the time went: {escape(said)}">{"".join(pieces)}</svg><ul class="legend">{legend}</ul>'
    )


def _advice(job: JobState) -> str:
    lines = phrases.advice(job)
    if not lines:
        return ""
    first, *others = lines
    more = "".join(f"<p>{escape(line)}</p>" for line in others)
    return f'<div class="advice"><h4>What to do</h4><p class="lead">{escape(first)}</p>{more}</div>'


def _listed(name: str, sentences: list[str], against: str | None) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    wrong = f'<p class="quiet">Would prove it wrong: {escape(against)}</p>' if against else ""
    return f"<div><h4>{name}</h4><ul>{items}</ul>{wrong}</div>" if items else "<div></div>"


def _over_time(job: JobState, finished: FinishedReport) -> str:
    charts = finished.charts
    if len(charts.t_s) < 3:
        return "<div></div>"
    links = [charts.links[gpu] for gpu in job.gpus if gpu in charts.links]
    return (
        f"<div><h4>Where the time went</h4>{shares_chart(charts.t_s, charts.shares[job.gpu_job])}"
        f"<h4>Its cards' links: in (line), out (dashes), full at the top</h4>{links_chart(charts.t_s, links)}</div>"
    )


def _intervals(job: JobState) -> str:
    found = job.intervals if isinstance(job.intervals, tuple) else ()
    return f'<p class="quiet">{escape("; ".join(map(phrases.interval, found[:20])))}</p>'


def _cards(gpus: tuple[GpuState, ...]) -> str:
    head = "GPU|card|in GB/s|out GB/s|can carry|fullest|power W|limit W|memory GiB|of|°C".split("|")
    rows = []
    for gpu in gpus:
        link, gib = gpu.pcie, 2.0**30
        cells = [
            str(gpu.gpu),
            phrases.one_line(gpu.name) + ("" if gpu.up else f", no answer ({gpu.fault or 'unknown'})"),
            phrases.figure(link.rx.bytes_per_second, 1e9, 1),
            phrases.figure(link.tx.bytes_per_second, 1e9, 1),
            phrases.figure(link.attainable_bytes_per_second, 1e9, 1),
            phrases.percent(max(link.rx.saturation_ratio, link.tx.saturation_ratio)),
            phrases.figure(gpu.power_watts),
            phrases.figure(gpu.power_limit_watts),
            phrases.figure(gpu.memory_used_bytes, gib, 1),
            phrases.figure(gpu.memory_total_bytes, gib, 1),
            phrases.figure(gpu.temperature_celsius),
        ]
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    return (
        "<h2>Cards at the end of the watch</h2>"
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _comparison(before: Report, after: Report) -> str:
    found = changes(before, after)
    if not found:
        return '<p class="quiet">No job of the earlier recording is found again.</p>'
    rows = []
    for change in found:
        rows.append(
            f"<h3>GPU {escape(phrases.ranges(change.after.gpus) or '?')}: {escape(change.sentence())}</h3>"
            f"<p>Before: {_chip(change.before)}</p>{_split(change.before)}"
            f"<p>After: {_chip(change.after)}</p>{_split(change.after)}"
        )
    return f"<h2>Before and after</h2>{''.join(rows)}"
