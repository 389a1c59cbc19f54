"""What is wrong with the jobs of a node at one tick, as their tenants are to hear it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpumon.model.findings import CUSTOMER, FINDINGS_BY_NAME, OPERATOR
from gpumon.model.verdict import Straggler
from gpumon.model.view import JobView, NodeView
from gpumon.notify.alerts import APPLICATION_XIDS, CLASS_ALERTS, XID_SHOWN_S
from gpumon.notify.condition import Condition

_ALERT_OF_CLASS = {row.job_class: row for row in CLASS_ALERTS}
# Causes that lie with the machine: the operator can mend them, the tenant cannot.
_MACHINE_CAUSES = frozenset({"thermal", "power", "link"})


def job_conditions(view: NodeView) -> Iterator[Condition]:
    """Yield what is wrong with each running job; errors of the driver also for one that ended within five minutes."""
    for job in view.jobs:
        if math.isnan(job.ended_s):
            yield from _of_running(job)
    yield from _application_errors(view)


def _of_running(view: JobView) -> Iterator[Condition]:
    name, tenant, verdict = view.job.gpu_job, view.job.tenant, view.verdict
    if view.gpus_lost:
        yield Condition("GpumonJobGpuLost", "critical", CUSTOMER, tenant, name)
    row = _ALERT_OF_CLASS.get(verdict.job_class)
    if row is not None:
        yield Condition(row.name, row.severity, CUSTOMER, tenant, name, job_class=row.job_class.value)
    if verdict.scaling is not None and verdict.scaling.slowdown:
        yield Condition("GpumonJobAddGpuSlowdown", "warning", CUSTOMER, tenant, name, job_class="communication")
    for straggler in verdict.stragglers:
        yield _straggler(view, straggler)
    for finding in verdict.findings:
        kind = FINDINGS_BY_NAME.get(finding.finding)
        if kind is not None and kind.audience == CUSTOMER:
            yield Condition(
                "GpumonJobMisconfigured",
                kind.severity,
                CUSTOMER,
                tenant,
                name,
                finding=kind.finding,
                job_class=kind.explains,
            )


def _straggler(view: JobView, straggler: Straggler) -> Condition:
    by_machine = straggler.cause in _MACHINE_CAUSES
    return Condition(
        "GpumonJobStraggler",
        "warning",
        OPERATOR if by_machine else CUSTOMER,
        view.job.tenant,
        view.job.gpu_job,
        gpu=str(straggler.gpu),
        uuid=straggler.uuid,
        text="GpumonJobStraggler@operator" if by_machine else "",
    )


def _application_errors(view: NodeView) -> Iterator[Condition]:
    """Yield errors of a program for the one job that held the card when they came; nobody where that is not clear."""
    for card in view.cards:
        uuid = card.card.identity.uuid
        stamps = [wall_s for xid, (_, wall_s) in card.xids.items() if xid in APPLICATION_XIDS]
        if not stamps or view.wall_s - max(stamps) > XID_SHOWN_S:
            continue
        holders = [job for job in view.jobs if any(held.uuid == uuid for held in job.job.cards)]
        if len(holders) == 1 and holders[0].job.start_wall_s < max(stamps):
            job = holders[0].job
            yield Condition("GpumonJobXid", "warning", CUSTOMER, job.tenant, job.gpu_job)
