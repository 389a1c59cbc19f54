"""Rules about one job: what its tenant is told, and the two cases in which the operator is told instead."""

from __future__ import annotations

from gpumon.model.findings import CATALOGUE, CUSTOMER, OPERATOR, FindingKind
from gpumon.model.verdict import JobClass
from gpumon.notify.alerts import APPLICATION_XIDS, CLASS_ALERTS, ClassAlert
from tools.alerting.rule import JOB, KEEP, KEEP_HUNG, KEEP_LOST, KEEP_REASON, Rule, asked, own

# Reasons that lie with the machine, not with the job, for a card that is waited for.
_HELD_DOWN = 'gpumon_gpu_throttle_seconds_total{reason=~"sw_thermal|hw_thermal|hw_power_brake"}'
_MACHINE = f"""\
  max by (instance, uuid) (rate({_HELD_DOWN}[15m])) > 0.1
  or
  max by (instance, uuid) (avg_over_time(gpumon_pcie_link_downtrained[15m])) > 0.5"""

_WITH_JOB = ("instance", "gpu_job")
_ON_JOB = 'instance="{instance}",gpu_job="{gpu_job}"'

_PLURAL = "{{ if ne (. | first | value) 1.0 }}s{{ end }}"
_CARDS = asked(f"gpumon_job_gpus{{{_ON_JOB}}}", _WITH_JOB, "%.0f", " It has ", f" card{_PLURAL}.")
_CARDS_ZH = asked(f"gpumon_job_gpus{{{_ON_JOB}}}", _WITH_JOB, "%.0f", "它有 ", " 张卡。")
_ENOUGH = f"gpumon_job_recommended_gpus{{{_ON_JOB}}} < on (instance, gpu_job, tenant) gpumon_job_gpus{{{_ON_JOB}}}"
_ENOUGH_LABELS = ("instance", "gpu_job", "instance", "gpu_job")


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f}m"


def _waiting(states: str, before: str, after: str) -> str:
    query = f'100 * sum by (gpu_job) (gpumon_job_time_ratio{{{_ON_JOB},state=~"{states}"}})'
    return asked(query, _WITH_JOB, "%.0f %%", before, after)


# What a class costs, from the job's own split of its time; nothing where that cannot be stated.
_COST = {
    "GpumonJobCommunicationBound": _waiting("communication|peer_wait", " About ", " of each step waits for transfers.")
    + asked(_ENOUGH, _ENOUGH_LABELS, "%.0f", " ", " of them would be as fast."),
    "GpumonJobHostBound": _waiting("host_wait", " About ", " of each step waits for the host."),
    "GpumonJobIdleAllocation": "",
    "GpumonJobHung": "",
}
_COST_ZH = {
    "GpumonJobCommunicationBound": _waiting("communication|peer_wait", "每步约有 ", " 的时间在等传输。")
    + asked(_ENOUGH, _ENOUGH_LABELS, "%.0f", "用 ", " 张卡就一样快。"),
    "GpumonJobHostBound": _waiting("host_wait", "每步约有 ", " 的时间在等主机。"),
    "GpumonJobIdleAllocation": "",
    "GpumonJobHung": "",
}


def _class_rule(row: ClassAlert) -> Rule:
    window = _minutes(row.window_s)
    matcher = f'class="{row.job_class.value}"'
    # For most of the window, and still: what was cured must not be told any more.
    expr = f"""\
max by ({JOB}) (rate({own("job_bottleneck_seconds_total", matcher)}[{window}])) > {row.share:g}
and on ({JOB})
max by ({JOB}) (avg_over_time({own("job_bottleneck", matcher)}[5m])) > 0.3"""
    return Rule(
        alert=row.name,
        audience=CUSTOMER,
        severity=row.severity,
        expr=expr,
        seen=f"So it was for {{{{ $value | humanizePercentage }}}} of the last {row.window_s / 60:.0f} minutes."
        + _CARDS
        + _COST[row.name],
        seen_zh=f"最近 {row.window_s / 60:.0f} 分钟里有 {{{{ $value | humanizePercentage }}}} 的时间如此。"
        + _CARDS_ZH
        + _COST_ZH[row.name],
        keep=KEEP_HUNG if row.job_class is JobClass.HUNG else KEEP,
        labels={"class": row.job_class.value},
    )


def _finding_rule(row: FindingKind) -> Rule:
    held = own("job_finding", f'finding="{row.finding}"')
    # Shares of the scrapes in which the job was there, so that a missed scrape counts for neither side.
    expr = f"""\
  max by ({JOB}) (count_over_time({held}[5m]))
/
  max by ({JOB}) (count_over_time({own("job_gpus")}[5m]))
> 0.6"""
    return Rule(
        alert="GpumonJobMisconfigured",
        audience=CUSTOMER,
        severity=row.severity,
        expr=expr,
        seen=f"{row.title}.{_CARDS}",
        seen_zh=f"{row.chinese[0]}。{_CARDS_ZH}",
        hold="10m",
        keep=KEEP_REASON,
        labels={"finding": row.finding} | ({"class": row.explains} if row.explains else {}),
        finding=row.finding,
    )


def _straggler_rules() -> tuple[Rule, ...]:
    waited_for = f"max by (instance, gpu_job, tenant, gpu, uuid) (avg_over_time({own('job_straggler')}[5m])) > 0.8"

    def rule(audience: str, operator: str, text: str = "") -> Rule:
        return Rule(
            alert="GpumonJobStraggler",
            audience=audience,
            severity="warning",
            expr=f"{waited_for}\n{operator} on (instance, uuid) (\n{_MACHINE}\n)",
            seen="For ten minutes the job's other cards have waited for GPU {{ $labels.gpu }}." + _CARDS,
            seen_zh="任务的其他卡等 GPU {{ $labels.gpu }} 已有十分钟。" + _CARDS_ZH,
            hold="10m",
            text=text,
        )

    return rule(CUSTOMER, "unless"), rule(OPERATOR, "and", "GpumonJobStraggler@operator")


def _xid_rule() -> Rule:
    codes = "|".join(map(str, APPLICATION_XIDS))
    last = f'gpumon_gpu_xid_last_timestamp_seconds{{xid=~"{codes}"}}'
    # Whose program it was is known only if one job held the card, and held it when the error came: a job that ended
    # just before or began just after must not be told, nor two that share the card.
    expr = f"""\
max by ({JOB}) (
    max by (instance, uuid, gpu_job, tenant) (max_over_time({own("job_gpu_info")}[5m]))
  * on (instance, uuid) group_left ()
    (
        max by (instance, uuid) (last_over_time({last}[10m])) > time() - 300
      unless on (instance, uuid)
        count by (instance, uuid) (max by (instance, uuid, gpu_job) (max_over_time(gpumon_job_gpu_info[5m]))) > 1
    )
)
> max by ({JOB}) (max_over_time({own("job_start_time_seconds")}[5m]))"""
    return Rule(
        alert="GpumonJobXid",
        audience=CUSTOMER,
        severity="warning",
        expr=expr,
        seen="The driver reported it at {{ $value | humanizeTimestamp }}.",
        seen_zh="驱动报告的时间：{{ $value | humanizeTimestamp }}。",
        keep="5m",  # in all ten minutes from the error on
    )


def job_rules() -> tuple[Rule, ...]:
    """Return the rules in the order of the file: what ends a job first, then what slows it down."""
    slowdown = own("job_add_gpu_slowdown")
    lost = own("job_gpus_lost")
    return (
        Rule(
            alert="GpumonJobGpuLost",
            audience=CUSTOMER,
            severity="critical",
            expr=f"max by ({JOB}) (min_over_time({lost}[2m])) > 0",
            seen='{{ $value | printf "%.0f" }} of the job\'s cards are lost.' + _CARDS,
            seen_zh='任务有 {{ $value | printf "%.0f" }} 张卡丢失。' + _CARDS_ZH,
            hold="1m",
            keep=KEEP_LOST,
        ),
        _xid_rule(),
        *(_class_rule(row) for row in CLASS_ALERTS),
        Rule(
            alert="GpumonJobAddGpuSlowdown",
            audience=CUSTOMER,
            severity="warning",
            expr=f"max by ({JOB}) (avg_over_time({slowdown}[5m])) > 0.8",
            seen="For ten minutes gpumon has been sure of it."
            + _CARDS
            + asked(_ENOUGH, _ENOUGH_LABELS, "%.0f", " ", " of them would be as fast.")
            + asked(
                f"100 * max by (gpu_job) (gpumon_job_scaling_efficiency_ratio{{{_ON_JOB}}})",
                _WITH_JOB,
                "%.0f %%",
                " Each card does ",
                " of what one card alone does.",
            ),
            seen_zh="gpumon 确认这一点已有十分钟。"
            + _CARDS_ZH
            + asked(_ENOUGH, _ENOUGH_LABELS, "%.0f", "用 ", " 张卡就一样快。")
            + asked(
                f"100 * max by (gpu_job) (gpumon_job_scaling_efficiency_ratio{{{_ON_JOB}}})",
                _WITH_JOB,
                "%.0f %%",
                "每张卡只做到单卡的 ",
                "。",
            ),
            hold="10m",
            keep=KEEP_REASON,
            labels={"class": "communication"},
        ),
        *_straggler_rules(),
        *(_finding_rule(row) for row in CATALOGUE if row.audience == CUSTOMER),
    )
