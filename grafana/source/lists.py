"""Tables that several dashboards share: jobs with their verdicts, findings with advice, alerts that fire."""

from __future__ import annotations

from grafana_foundation_sdk.builders import table

from grafana.source import palette, queries
from grafana.source.cells import as_gauge, as_signal, as_text, as_unit, linked, of_width
from grafana.source.panels import (
    Column,
    Query,
    Says,
    rows,
)
from grafana.source.units import unit_of

_RANGE = "${__url_time_range}&${datasource:queryparam}"
TO_JOB = (
    "/d/gpumon-job?" + _RANGE + "&var-job=${__data.fields.Job:percentencode}"
    "&var-node=${__data.fields.Node:percentencode}"
)
TO_NODE = "/d/gpumon-node?" + _RANGE + "&var-node=${__data.fields.Node:percentencode}"


def jobs(*matchers: str, width: int = 24, height: int = 7, for_customer: bool = False) -> table.Panel:
    """Return the jobs that run now, each with what holds it back."""
    job_column = of_width(245) if for_customer else of_width(245, linked("Open the job", TO_JOB))
    columns = [
        Column("verdict", "What holds it back", as_signal(palette.verdicts())),
        Column("Value #B", "Sure", of_width(70, as_unit(unit_of("gpumon_job_bottleneck_confidence_ratio"), 0))),
        Column("gpu_job", "Job", job_column),
        Column("tenant", "Tenant", of_width(100)),
        Column("instance", "Node", of_width(115)),
        Column("Value #C", "Cards", of_width(65, as_unit("short", 0))),
        Column(
            "Value #D", "Time spent waiting", of_width(165, as_gauge(steps=((0.3, palette.NOTICE), (0.5, palette.BAD))))
        ),
        Column("Value #E", "Fullest link", of_width(130, as_gauge())),
        Column("Value #F", "Power", of_width(80, as_unit(unit_of("gpumon_job_power_watts"), 0))),
    ]
    if for_customer:
        columns = [column for column in columns if column.source != "tenant"]
    waiting = 'state=~"communication|peer_wait|host_wait|idle"'
    return rows(
        "Jobs now",
        Says(
            "Every job that runs now, with what holds its cards back, how sure that is, and the share of card time spent "
            "waiting. An empty cell means that it cannot be told.",
            "take the jobs in a warm colour with the most cards first; open the job for its findings and what to change.",
        ),
        [
            Query(queries.verdict(*matchers)),
            Query(queries.by_job("gpumon_job_bottleneck_confidence_ratio", *matchers)),
            Query(queries.by_job("gpumon_job_gpus", *matchers)),
            Query(
                f"sum by ({queries.JOB_KEY}) (max by ({queries.JOB_KEY}, state) "
                f"({queries.picked('gpumon_job_time_ratio', waiting, *matchers)}))"
            ),
            Query(queries.by_job("gpumon_job_link_saturation_ratio", *matchers)),
            Query(queries.by_job("gpumon_job_power_watts", *matchers)),
        ],
        columns,
        width=width,
        height=height,
        sort="Time spent waiting",
        no_value="No job uses these cards.",
    )


def findings(*matchers: str, width: int = 24, height: int = 7, with_job: bool = True) -> table.Panel:
    """Return what gpumon found, with what to change first."""
    expr = f"max by (severity, finding, {queries.JOB_KEY}) ({queries.picked('gpumon_job_finding', *matchers)}) == 1"
    columns = [
        Column("severity", "Severity", of_width(90, as_signal(palette.severities()))),
        Column("finding", "What is wrong", of_width(330, as_text(palette.finding_titles()))),
        Column("advice", "What to change", as_text(palette.finding_advice())),
    ]
    if with_job:
        columns.insert(1, Column("gpu_job", "Job", of_width(245)))
    return rows(
        "Findings: what to change",
        Says(
            "What gpumon found in how the job is set up or in the machine below it, with the first thing to change.",
            "critical ones first; change one thing, restart the job, and see whether its verdict changes.",
        ),
        [Query(queries.worst_first(f'label_replace({expr}, "advice", "$1", "finding", "(.*)")'))],
        columns,
        width=width,
        height=height,
        order="key",
        no_value="Nothing was found that is set up wrongly.",
    )


def node_findings(*matchers: str, width: int = 12, height: int = 7) -> table.Panel:
    """Return what gpumon found in the node itself."""
    expr = f"max by (severity, finding, instance) ({queries.picked('gpumon_node_finding', *matchers)}) == 1"
    return rows(
        "Findings about nodes",
        Says(
            "What gpumon found wrong in a node itself, whichever job runs on it.",
            "these are the operator's to mend: critical ones first. `gpumon doctor` on the node says more.",
        ),
        [Query(queries.worst_first(f'label_replace({expr}, "advice", "$1", "finding", "(.*)")'))],
        [
            Column("severity", "Severity", of_width(90, as_signal(palette.severities()))),
            Column("instance", "Node", of_width(130)),
            Column("finding", "What is wrong", of_width(350, as_text(palette.finding_titles()))),
            Column("advice", "What to do", as_text(palette.finding_advice())),
        ],
        width=width,
        height=height,
        order="key",
        no_value="Nothing is wrong with these nodes.",
    )


def alerts(
    *matchers: str, width: int = 12, height: int = 7, with_job: bool = True, with_node: bool = True
) -> table.Panel:
    """Return the alerts that fire, with what to do first."""
    labels = f"severity, alertname, finding, {queries.JOB_KEY}, gpu"
    firing = f"max by ({labels}) ({queries.firing(*matchers)})"
    # An alert for a finding is known by the finding, the others by their names.
    about = f'label_replace({firing}, "about", "$1", "alertname", "(.*)")'
    about = f'label_replace({about}, "about", "$1", "finding", "(.+)")'
    advice = palette.merged(palette.alert_advice(), palette.finding_advice())
    columns = [
        Column("severity", "Severity", of_width(90, as_signal(palette.severities()))),
        Column("alertname", "Alert", of_width(245)),
        Column("about", "What to do", as_text(advice)),
    ]
    if with_job:
        columns.insert(2, Column("gpu_job", "Job", of_width(245)))
    if with_node:
        columns.insert(2, Column("instance", "Node", of_width(120)))
    return rows(
        "Alerts that fire",
        Says(
            "gpumon's alerts that fire now for what this page shows, with what to do first. The same alerts stand as "
            "marks on the timelines.",
            "critical ones first; the runbook has a section for each.",
        ),
        [Query(queries.worst_first(about))],
        columns,
        width=width,
        height=height,
        order="key",
        no_value="No alert fires.",
    )
