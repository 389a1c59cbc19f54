"""Sentences and figures that the text and the HTML report share, in English."""

from __future__ import annotations

import math
import re

from gpumon.model.findings import FINDINGS_BY_NAME
from gpumon.model.text import shown_text
from gpumon.model.verdict import TIME_STATES, Outcome
from gpumon.ui import words
from gpumon.ui.report import Report
from gpumon.ui.state_json import GpuState, IntervalState, JobState, OutcomeState

# Marks that turn the direction of what follows: in a terminal or a list they would move gpumon's own words.
_TURNING = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_MEASURED = {"reported": "By what it reports", "period": "By the length of its steps"}
_LINKS = {"pcie": "PCIe", "nvlink": "NVLink", "uplink": "shared link"}


def one_line(text: str) -> str:
    """Return foreign text as one printable line that cannot disturb what stands around it."""
    return " ".join(_TURNING.sub("\N{REPLACEMENT CHARACTER}", shown_text(text)).split())


def percent(ratio: float) -> str:
    """Return "48 %", or a dash."""
    return "–" if math.isnan(ratio) else f"{100 * ratio:.0f} %"


def figure(value: float, scale: float = 1.0, digits: int = 0) -> str:
    """Return a scaled number, or a dash."""
    return "–" if math.isnan(value) else f"{value / scale:.{digits}f}"


def duration(seconds: float) -> str:
    """Return "41 s", "12 min" or "3.5 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def ranges(numbers: tuple[int, ...]) -> str:
    """Return "0-3, 5" for 0, 1, 2, 3, 5."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def title(report: Report) -> str:
    """Return node, cards and length of the watch."""
    kinds = {gpu.name: sum(other.name == gpu.name for other in report.gpus) for gpu in report.gpus}
    cards = ", ".join(f"{count}x {one_line(name) or 'card'}" for name, count in kinds.items()) or "no cards"
    # A log of another tool does not say where it was written.
    host = f"{one_line(report.node.hostname)}: " if report.node.hostname else ""
    return f"{host}{cards}, watched for {duration(report.span_seconds)}"


def by_urgency(report: Report) -> list[JobState]:
    """Return the jobs, those in trouble first."""
    return sorted(report.jobs, key=urgency)


def urgency(job: JobState) -> tuple[bool, int, tuple[int, ...]]:
    """Return what sorts jobs by how much they ask for attention."""
    return job.gpus_lost == 0, words.URGENCY.index(job.job_class), job.gpus


def in_trouble(job: JobState) -> bool:
    """Return whether the job asks for attention."""
    return job.job_class in words.IN_TROUBLE or job.gpus_lost > 0


def headline(job: JobState, gpus: tuple[GpuState, ...]) -> str:
    """Return what is wrong with the job, or that nothing is."""
    if job.gpus_lost:
        lost = tuple(gpu.gpu for gpu in gpus if not gpu.up and gpu.gpu in job.gpus)
        return f"A card of this job does not answer: GPU {ranges(lost) or '?'}"
    sentence = words.headline(job.job_class, job.detail).en
    if not job.stragglers:
        return sentence
    waited_for = ranges(job.stragglers)
    if job.detail == "straggler":
        return words.STRAGGLERS.en.format(waited_for)
    return words.WAITED_FOR.en.format(sentence, waited_for)


def answer(report: Report) -> str:
    """Return the one sentence that a reader should keep."""
    if not report.node.nvml_up:
        return f"No NVIDIA driver answered ({report.node.nvml_fault or 'unknown'})."
    if not report.jobs:
        return "No job used these cards."
    troubled = sum(map(in_trouble, report.jobs))
    unclear = sum(job.job_class == "unknown" for job in report.jobs)
    if len(report.jobs) == 1 and troubled + unclear:
        return headline(report.jobs[0], report.gpus) + "."
    if troubled == 0:
        return f"{unclear} of {len(report.jobs)} jobs cannot be judged." if unclear else "No job was held back."
    return f"{troubled} of {len(report.jobs)} jobs need attention."


def names(job: JobState) -> str:
    """Return what the job is called, by gpumon and by those who started it."""
    pod = f"{job.namespace}/{job.pod}" if job.pod and job.namespace else job.pod
    known = (job.gpu_job, pod, job.slurm_job_id, job.container, job.user)
    return ", ".join(one_line(name) for name in known if name)


def verdict(job: JobState) -> str:
    """Return "communication (bandwidth), 93 % sure"."""
    return f"{class_name(job.job_class, job.detail)}, {percent(job.confidence)} sure"


def class_name(job_class: str, detail: str | None) -> str:
    """Return the class with its detail in brackets."""
    return f"{job_class} ({detail.replace('_', ' ')})" if detail else job_class


def shares(job: JobState) -> list[tuple[str, str, float]]:
    """Return (state, its name, share) of the states that take at least half a per cent."""
    ratios = job.time_ratio or {}
    return [(name, words.STATES[name].en, ratios[name]) for name in TIME_STATES if ratios.get(name, 0.0) >= 0.005]


def advice(job: JobState) -> list[str]:
    """Return what to do, the most useful first."""
    lines = [job.advice] if job.advice else []
    for finding in job.findings:
        gain = f" ({finding.gain[0]:g} to {finding.gain[1]:g} times as fast)" if finding.gain else ""
        lines.append(f"{finding.title}: {finding.advice}{gain}")
    for cause in job.straggler_causes:
        lines.append(
            f"GPU {cause.gpu} keeps the others waiting ({cause.cause}): costs {percent(cause.cost_ratio)} of the time."
        )
    scaling = job.scaling
    if scaling and scaling.recommended_gpus and scaling.recommended_gpus < len(job.gpus):
        cards = f"{scaling.recommended_gpus} cards (GPU {ranges(scaling.recommended_set)})"
        slower = f"Adding cards made it slower. {cards} would be as fast."
        lines.append(slower if scaling.slowdown else f"{cards} reach 95 % of this speed.")
    return [one_line_of_ours(line) for line in lines]


def worth(job: JobState) -> list[str]:
    """Return what other runs of the work tell: what a change brought, what the cards are worth beside fewer."""
    lines = [brought(job.outcome)] if job.outcome else []
    return [*lines, *(one_line_of_ours(reason) for reason in (job.scaling.reasons if job.scaling else ()))]


def brought(outcome: Outcome | OutcomeState) -> str:
    """Return what a change was to bring and what it brought."""
    gone = "; ".join(f'"{FINDINGS_BY_NAME[name].title}"' for name in outcome.findings if name in FINDINGS_BY_NAME)
    low, high = outcome.expected
    return (
        f"{_MEASURED[outcome.evidence]} it is {outcome.seen:.2f} ± {outcome.uncertainty:.2f} times as fast as in the "
        f"run before, of which {gone or 'what was found'} holds no longer: {outcome.result} ({low:.3g} to {high:.3g})."
    )


def figures(job: JobState) -> list[tuple[str, str]]:
    """Return the job's figures as (name, value)."""
    found = [("layout", job.strategy or "")]
    if not math.isnan(job.step_seconds):
        found.append(("step", f"{job.step_seconds:.3g} s"))
    if job.scaling:
        found.append(("efficiency", f"{percent(job.scaling.efficiency)} (by {job.scaling.evidence})"))
    found += [(_LINKS[link], percent(ratio)) for link, ratio in job.link_saturation.items() if not math.isnan(ratio)]
    if not math.isnan(job.power_watts):
        found.append(("power", f"{job.power_watts:.0f} W"))
    if not math.isnan(job.memory_bytes):
        found.append(("memory", f"{job.memory_bytes / 2**30:.1f} GiB"))
    return [(name, value) for name, value in found if value]


def interval(found: IntervalState) -> str:
    """Return "0 s to 41 s idle"."""
    waits = f", waits for GPU {ranges(found.stragglers)}" if found.stragglers else ""
    name = class_name(found.job_class, found.detail)
    return f"{duration(found.t0)} to {duration(found.t1)} {name}{waits}"


def one_line_of_ours(text: str) -> str:
    """Return a sentence of gpumon's own, whole, on one line."""
    return " ".join(text.split())
