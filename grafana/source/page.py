"""A dashboard: variables, links to the others that carry the selection, alerts on the timelines, rows of panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.models import dashboard

from grafana.source.palette import BAD
from grafana.source.panels import DATA_SOURCE, Panel
from grafana.source.queries import firing

# The oldest schema that Grafana 10 to 13 all read without a migration that changes anything used here.
SCHEMA_VERSION = 39
TAG = "gpumon"


@dataclass(frozen=True, slots=True)
class Variable:
    """A drop-down filled from label values. `many`: several at once, and All."""

    name: str
    label: str
    metric: str
    many: bool = True


NODE = Variable("node", "Node", "gpumon_build_info")
TENANT = Variable("tenant", "Tenant", 'gpumon_job_info{instance=~"$node"}')
GPU = Variable("gpu", "GPU", 'gpumon_gpu_info{instance=~"$node"}')
JOB = Variable("job", "Job", 'gpumon_job_info{instance=~"$node",tenant=~"$tenant"}', many=False)
TENANT_ALONE = Variable("tenant", "Tenant", "gpumon_job_info", many=False)
JOBS_OF_TENANT = Variable("job", "Job", 'gpumon_job_info{tenant=~"$tenant"}')

# The label that each variable takes its values from.
_LABELS = {"node": "instance", "tenant": "tenant", "gpu": "gpu", "job": "gpu_job"}

Section = tuple[str, Sequence[Panel]]  # the title of a row of panels, "" for none


def page(
    uid: str,
    title: str,
    description: str,
    variables: Sequence[Variable],
    sections: Sequence[Section],
    *,
    alerts: Sequence[str],
    links: bool = True,
    since: str = "now-6h",
) -> dashboard.Dashboard:
    """Return a dashboard.

    Args:
        alerts: matchers on ALERTS for what the page shows.
        links: show links to the other dashboards.
    """
    made = (
        builder.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .time(since, "now")
        .refresh("30s")
        .editable()
        .variables([_data_source(), *(_drop_down(variable) for variable in variables)])
        .annotation(_alerts_on_timelines(alerts))
    )
    if links:
        made.link(_links_with_selection())
    for name, panels in sections:
        if name:
            made.with_row(builder.Row(name))
        for panel in panels:
            made.with_panel(panel)
    finished = made.build()
    finished.schema_version = SCHEMA_VERSION
    for number, part in enumerate(finished.panels or [], start=1):
        part.id_val = number
    return finished


def _data_source() -> builder.DatasourceVariable:
    return builder.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _drop_down(variable: Variable) -> builder.QueryVariable:
    values = f"label_values({variable.metric}, {_LABELS[variable.name]})"
    made = (
        builder.QueryVariable(variable.name)
        .label(variable.label)
        .datasource(DATA_SOURCE)
        .query({"query": values, "refId": variable.name})
        .definition(values)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
        .multi(variable.many)
        .include_all(variable.many)
    )
    if variable.many:
        # ".*" also matches series that lack the label, as a node without a card number does.
        made.all_value(".*").current(dashboard.VariableOption(text="All", value="$__all", selected=True))
    return made


def _links_with_selection() -> builder.DashboardLink:
    return (
        builder.DashboardLink("gpumon")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .include_vars(True)
        .keep_time(True)
    )


def _alerts_on_timelines(matchers: Sequence[str]) -> builder.AnnotationQuery:
    return (
        builder.AnnotationQuery()
        .name("Alerts")
        .datasource(DATA_SOURCE)
        .enable(True)
        .hide(False)
        .icon_color(BAD)
        .expr(firing(*matchers))
        .step("60s")
        .title_format("{{alertname}}")
        .text_format("{{severity}} {{instance}} {{gpu_job}}")
        .tag_keys("severity,tenant")
    )
