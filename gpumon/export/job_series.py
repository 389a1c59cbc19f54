"""Series of one job. An ended job keeps its counters and job_info for five minutes, whoever scrapes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from gpumon.export.family import Families
from gpumon.model.job import Job
from gpumon.model.text import shown_text
from gpumon.model.verdict import TIME_STATES, Finding, JobClass, Verdict
from gpumon.model.view import JobView

ENDED_SHOWN_S = 300.0  # CONTRACT: long enough for the slowest usual scrape interval
MAX_FINDINGS = 5  # worst first; what is left of the budget of 55 series a job when all else is there

_SEVERITY_RANK = {"critical": 0, "warning": 1, "info": 2}
_LINKS = ("pcie", "nvlink", "uplink")


def is_shown(view: JobView, mono_s: float) -> bool:
    """Return whether the job still has series at this time."""
    return math.isnan(view.ended_s) or mono_s - view.ended_s <= ENDED_SHOWN_S


def add_job(out: Families, view: JobView, gpu_indices: Mapping[str, str], dropped: Counter[str]) -> None:
    """Add the series of one job.

    Args:
        gpu_indices: label `gpu` by card UUID.
        dropped: counts series left out, by reason.
    """
    job = view.job
    key = (job.gpu_job, job.tenant)
    names = (job.container, job.pod, job.namespace, job.slurm_job_id, job.user)
    out.add("job_info", (*key, job.kind.value, *map(shown_text, names)), 1.0)
    for job_class in JobClass:
        seconds = view.class_seconds_total.get(job_class.value, 0.0)
        out.add("job_bottleneck_seconds_total", (*key, job_class.value), seconds)
    if view.time_seconds_total:
        for state in TIME_STATES:
            out.add("job_time_seconds_total", (*key, state), view.time_seconds_total.get(state, 0.0))
    out.add("job_energy_joules_total", key, view.energy_joules_total)
    if math.isnan(view.ended_s):
        _add_running(out, key, view, gpu_indices)
        _add_verdict(out, key, view.verdict)
        _add_findings(out, key, view.verdict.findings, dropped)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings by severity; equal ones keep their order."""
    return sorted(findings, key=lambda finding: _SEVERITY_RANK.get(finding.severity, len(_SEVERITY_RANK)))


def _add_running(out: Families, key: tuple[str, str], view: JobView, gpu_indices: Mapping[str, str]) -> None:
    job = view.job
    layout = _layout(job, view.verdict)
    if any(layout):
        out.add("job_layout_info", (*key, *map(shown_text, layout)), 1.0)
    stragglers = {straggler.uuid for straggler in view.verdict.stragglers}
    for card in job.cards:
        out.add("job_gpu_info", (*key, gpu_indices.get(card.uuid, ""), card.uuid, card.mig_uuid), 1.0)
    uuids = tuple(dict.fromkeys(card.uuid for card in job.cards))  # two slices of one board are one card
    for uuid in uuids:
        out.add("job_straggler", (*key, gpu_indices.get(uuid, ""), uuid), float(uuid in stragglers))
    out.add("job_gpus", key, float(len(uuids)))
    out.add("job_gpus_allocated", key, float(job.allocated) if job.allocated >= 0 else math.nan)
    out.add("job_gpus_lost", key, float(view.gpus_lost))
    out.add("job_processes", key, float(len(job.processes)))
    out.add("job_start_time_seconds", key, round(job.start_wall_s, 3))
    out.add("job_gpu_utilization_ratio", key, view.utilization_ratio)
    out.add("job_power_watts", key, view.power_watts)
    out.add("job_gpu_memory_bytes", key, view.memory_bytes)
    for link in _LINKS:
        out.add("job_link_saturation_ratio", (*key, link), view.link_saturation.get(link, math.nan))


def _layout(job: Job, verdict: Verdict) -> tuple[str, str, str, str]:
    """Return framework, launcher, strategy and group; the strategy seen at work goes before the one asked for."""
    layout = job.layout
    return layout.framework, layout.launcher, verdict.strategy or layout.asked, layout.group


def _add_verdict(out: Families, key: tuple[str, str], verdict: Verdict) -> None:
    for job_class in JobClass:
        out.add("job_bottleneck", (*key, job_class.value), float(job_class is verdict.job_class))
    if verdict.detail:
        out.add("job_bottleneck_detail_info", (*key, verdict.job_class.value, verdict.detail), 1.0)
    out.add("job_bottleneck_confidence_ratio", key, verdict.confidence)
    if verdict.time_split is not None:
        for state in TIME_STATES:
            out.add("job_time_ratio", (*key, state), getattr(verdict.time_split, state))
    out.add("job_step_seconds", key, verdict.step_seconds)
    scaling = verdict.scaling
    if scaling is not None:
        out.add("job_scaling_efficiency_ratio", (*key, scaling.evidence), scaling.efficiency)
        out.add("job_recommended_gpus", key, scaling.recommended_gpus or math.nan)
        out.add("job_add_gpu_slowdown", key, float(scaling.slowdown))


def _add_findings(out: Families, key: tuple[str, str], findings: tuple[Finding, ...], dropped: Counter[str]) -> None:
    ranked = worst_first(findings)
    for finding in ranked[:MAX_FINDINGS]:
        out.add("job_finding", (*key, finding.finding, finding.severity, finding.audience), 1.0)
    if len(ranked) > MAX_FINDINGS:
        dropped["findings"] += len(ranked) - MAX_FINDINGS
