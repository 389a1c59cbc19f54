"""Recording rules: shares of time for dashboards, jobs joined over nodes, tenants and nodes to rank."""

from __future__ import annotations

from dataclasses import dataclass

from tools.alerting.rule import JOB, own


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recording rule, named level:what:operation."""

    record: str
    expr: str
    about: str  # a comment above it


# The layout of a job may change while it runs, and both descriptions overlap for a moment: one is picked.
_LAYOUT = own("job_layout_info", 'group!=""')
_GROUP = f"max by ({JOB}, group) (topk by ({JOB}) (1, {_LAYOUT}))"
_CARDS = f"max by ({JOB}) ({own('job_gpus')})"
_WAITING = own("job_time_seconds_total", 'state=~"communication|peer_wait|host_wait|idle"')
_LOST = f"max by ({JOB}, state) (rate({_WAITING}[1h]))"
_CLASSES = f"max by ({JOB}, class) ({own('job_bottleneck')})"

JOBS: tuple[Recorded, ...] = (
    Recorded(
        "gpumon:job_class_share:rate5m",
        f"max by ({JOB}, class) (rate({own('job_bottleneck_seconds_total')}[5m]))",
        "Share of the last 5 minutes that a job spent in each class.",
    ),
    Recorded(
        "gpumon:job_time_share:rate5m",
        f"max by ({JOB}, state) (rate({own('job_time_seconds_total')}[5m]))\n"
        f"/ on ({JOB}) group_left ()\n"
        f"sum by ({JOB}) (max by ({JOB}, state) (rate({own('job_time_seconds_total')}[5m])) > 0)",
        "Share of the cards' time in each state, of the time in which it could be stated.",
    ),
    Recorded(
        "gpumon:job_class_gpus:sum",
        f"{_CLASSES} * on ({JOB}) group_left () {_CARDS}",
        "Cards of a job, under the class it is in; 0 under the others.",
    ),
)

FLEET: tuple[Recorded, ...] = (
    Recorded(
        "gpumon:group_gpus:sum",
        f"sum by (tenant, group) ({_CARDS} * on ({JOB}) group_left (group) {_GROUP})",
        "Cards of a job that runs on several nodes.",
    ),
    Recorded(
        "gpumon:group_nodes:count",
        f"count by (tenant, group) (max by (instance, tenant, group) ({_GROUP}))",
        "Nodes of a job that runs on several nodes.",
    ),
    Recorded(
        "gpumon:group_class_gpus:sum",
        f"sum by (tenant, group, class) (gpumon:job_class_gpus:sum * on ({JOB}) group_left (group) {_GROUP})",
        "Its cards by class: where one node is in another class than the rest, look there first.",
    ),
    Recorded(
        "gpumon:tenant_class_gpus:sum",
        "sum by (tenant, class) (gpumon:job_class_gpus:sum)",
        'Cards of a tenant by class. Rank: topk(10, gpumon:tenant_class_gpus:sum{class="communication"}).',
    ),
    Recorded(
        "gpumon:node_class_gpus:sum",
        "sum by (instance, class) (gpumon:job_class_gpus:sum)",
        "Cards of a node by class of the jobs on them; a shared card counts for each of its jobs.",
    ),
    Recorded(
        "gpumon:tenant_lost_gpus:avg1h",
        f"sum by (tenant) ({_LOST})",
        "Cards' worth of time that a tenant's jobs spent waiting, over an hour: 3 means that three cards did nothing.",
    ),
    Recorded(
        "gpumon:node_lost_gpus:avg1h",
        f"sum by (instance) ({_LOST})",
        "The same by node.",
    ),
    Recorded(
        "gpumon:node_pcie_saturation:max",
        "max by (instance) (gpumon_pcie_saturation_ratio)",
        "The fullest link of a node, mean of 15 s.",
    ),
)
