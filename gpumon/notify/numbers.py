"""The figures of a message: what was seen and what it costs, from the state of the node when it is written."""

from __future__ import annotations

import math

from gpumon.model.view import JobView, NodeView
from gpumon.notify.condition import Condition

_WAITS = {"communication": ("communication", "peer_wait"), "host": ("host_wait",)}


def numbers(condition: Condition, view: NodeView, language: str) -> str:
    """Return a sentence or two, "" where nothing can be stated."""
    job = next((job for job in view.jobs if job.job.gpu_job == condition.gpu_job), None)
    if job is None:
        return f"UUID {condition.uuid}" if condition.uuid else ""
    return (" " if language == "en" else "").join(_of_job(condition, job, language))


def _of_job(condition: Condition, job: JobView, language: str) -> list[str]:
    english = language == "en"
    cards = len({card.uuid for card in job.job.cards})
    plural = "" if cards == 1 else "s"
    found = [f"The job has {cards} card{plural}." if english else f"任务有 {cards} 张卡。"]
    if condition.alert == "GpumonJobGpuLost":
        lost = job.gpus_lost
        return [*found, f"{lost} of them lost." if english else f"其中 {lost} 张丢失。"]
    found += _cost(condition, job, english)
    scaling = job.verdict.scaling
    if scaling is not None and 0 < scaling.recommended_gpus < cards and condition.job_class == "communication":
        names = ", ".join(map(str, scaling.recommended_set))
        found.append(
            f"{scaling.recommended_gpus} of them (GPU {names}) would be as fast."
            if english
            else f"用 {scaling.recommended_gpus} 张卡（GPU {names}）就一样快。"
        )
    return found


def _cost(condition: Condition, job: JobView, english: bool) -> list[str]:
    split, states = job.verdict.time_split, _WAITS.get(condition.job_class, ())
    waiting = sum(getattr(split, state) for state in states) if split is not None else 0.0
    if waiting < 0.005 or math.isnan(waiting):
        return []
    share = f"{100 * waiting:.0f} %"
    if condition.job_class == "host":
        return [f"About {share} of each step waits for the host." if english else f"每步约有 {share} 的时间在等主机。"]
    return [f"About {share} of each step waits for transfers." if english else f"每步约有 {share} 的时间在等传输。"]
