"""PromQL that several panels share.

A selection is a list of matchers on the dashboard's variables. A card is reached from the job, never the other way: a
card that two jobs share would break the join for the whole fleet.
"""

from __future__ import annotations

from grafana.source.palette import CLASS_ORDER, LOST_VERDICT, SEVERITY_COLOURS

# Matchers on the variables. All of them match everything by default, also series without the label.
NODE = 'instance=~"$node"'
GPU = 'gpu=~"$gpu"'
TENANT = 'tenant=~"$tenant"'
JOB = 'gpu_job=~"$job"'

JOB_KEY = "instance, gpu_job, tenant"
CARD_KEY = "instance, gpu, uuid"


def picked(metric: str, *matchers: str) -> str:
    """Return a selector."""
    return f"{metric}{{{','.join(matchers)}}}" if matchers else metric


def by_job(metric: str, *matchers: str) -> str:
    """Return one value a job, also where two Prometheus servers have scraped the same node."""
    return f"max by ({JOB_KEY}) ({picked(metric, *matchers)})"


def by_card(metric: str, *matchers: str) -> str:
    """Return one value a card."""
    return f"max by ({CARD_KEY}) ({picked(metric, *matchers)})"


def card_of_job(card_series: str, *job_matchers: str) -> str:
    """Return the values of the cards of the selected jobs.

    Args:
        card_series: a selector or rate of card series with one value a card.
    """
    cards = f"max by (instance, gpu_job, gpu, uuid) ({picked('gpumon_job_gpu_info', *job_matchers)})"
    return f"{cards} * on (instance, uuid) group_left () max by (instance, uuid) ({card_series})"


def class_code(*matchers: str) -> str:
    """Return the number of each job's class: its place in CLASS_ORDER, from 1; one more while a card of it is lost."""
    parts = []
    for number, name in enumerate(CLASS_ORDER, start=1):
        selector = picked("gpumon_job_bottleneck", f'class="{name}"', *matchers)
        parts.append(f"{number} * max by ({JOB_KEY}, class) ({selector})")
    code = f"sum by ({JOB_KEY}) (\n  " + "\n  or ".join(parts) + "\n)"
    return f"{len(CLASS_ORDER) + 1} * ({_has_lost(*matchers)} > bool 0)\nor on ({JOB_KEY}) {code}"


def verdict(*matchers: str) -> str:
    """Return a row for each job, with the labels class and verdict: `class.detail`, or `class.` where it has no detail.

    A job that has lost a card has the verdict `lost.`: whatever else holds it back matters less.
    """
    key = f"{JOB_KEY}, class"
    is_so = f"(max by ({key}) ({picked('gpumon_job_bottleneck', *matchers)}) == 1)"
    detail = f"max by ({key}, detail) ({picked('gpumon_job_bottleneck_detail_info', *matchers)})"
    with_detail = f"{is_so} * on ({key}) group_left (detail) {detail}"
    judged = f'label_join(\n  {with_detail}\n  or on ({key}) {is_so},\n  "verdict", ".", "class", "detail"\n)'
    lost = f'label_replace({_has_lost(*matchers)}, "verdict", "{LOST_VERDICT}", "", "")'
    return f"{lost}\nor on ({JOB_KEY}) {judged}"


def _has_lost(*matchers: str) -> str:
    return f"({by_job('gpumon_job_gpus_lost', *matchers)} > 0)"


def cards_in_class(classes: str, *matchers: str) -> str:
    """Return each job's cards while it is in one of the classes (a regular expression), else 0."""
    selector = picked("gpumon_job_bottleneck", f'class=~"{classes}"', *matchers)
    return f"max by ({JOB_KEY}) ({selector}) * on ({JOB_KEY}) group_left () {by_job('gpumon_job_gpus', *matchers)}"


def held_back_card_hours(classes: str, *matchers: str) -> str:
    """Return cards times hours that each job has spent in each of the classes, over the range that is shown."""
    seconds = picked("gpumon_job_bottleneck_seconds_total", f'class=~"{classes}"', *matchers)
    cards = f"max by ({JOB_KEY}) (max_over_time({picked('gpumon_job_gpus', *matchers)}[$__range]))"
    hours = f"max by ({JOB_KEY}, class) (increase({seconds}[$__range])) / 3600"
    return f"{hours} * on ({JOB_KEY}) group_left () {cards}"


def at_end(classes: str, *matchers: str) -> str:
    """Return the same as of the end of the range, at every step: what a range query can rank by."""
    seconds = picked("gpumon_job_bottleneck_seconds_total", f'class=~"{classes}"', *matchers)
    return f"max by ({JOB_KEY}, class) (increase({seconds}[$__range] @ end()))"


def state_share(state: str, *matchers: str) -> str:
    """Return the share of the jobs' card time in a state, of the time in which it could be stated."""
    every = picked("gpumon_job_time_seconds_total", *matchers)
    one = picked("gpumon_job_time_seconds_total", f'state="{state}"', *matchers)
    return f"sum (rate({one}[$__rate_interval])) / (sum (rate({every}[$__rate_interval])) > 0)"


def mean_traffic(direction: str, *matchers: str) -> str:
    """Return the mean traffic of each card over the step, on any card: what was seen over the time that was looked."""
    matchers = (f'direction="{direction}"', *matchers)
    seen = picked("gpumon_pcie_observed_bytes_total", *matchers)
    looked = picked("gpumon_pcie_observed_seconds_total", *matchers)
    return f"rate({seen}[$__rate_interval]) / rate({looked}[$__rate_interval])"


def mean_power(*matchers: str) -> str:
    """Return the mean power of each card over the step: from its energy counter, else of the readings there are.

    A reading is one instant: in a job that works in bursts, scrapes give a different one each time.
    """
    energy = picked("gpumon_gpu_energy_joules_total", *matchers)
    readings = picked("gpumon_gpu_power_watts", *matchers)
    mean = f"avg_over_time({readings}[$__rate_interval])"
    return f"rate({energy}[$__rate_interval]) or on (instance, uuid) {mean}"


def mean_activity(*matchers: str) -> str:
    """Return the mean share of multiprocessors at work where the card can tell, else of time with memory traffic."""
    deep = f"avg_over_time({picked('gpumon_gpu_sm_active_ratio', *matchers)}[$__rate_interval])"
    plain = f"avg_over_time({picked('gpumon_gpu_memory_controller_ratio', *matchers)}[$__rate_interval])"
    return f"{deep} or on (instance, uuid) {plain}"


def worst_first(expr: str) -> str:
    """Return the same with the label `key`, by which the most severe sort first."""
    for rank, severity in enumerate(SEVERITY_COLOURS):
        expr = f'label_replace({expr}, "key", "{rank}", "severity", "{severity}")'
    return expr


def firing(*matchers: str) -> str:
    """Return gpumon's alerts that fire."""
    return picked("ALERTS", 'alertname=~"Gpumon.*"', 'alertstate="firing"', *matchers)
