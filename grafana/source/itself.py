"""gpumon itself: whether it runs everywhere, how old its figures are, what it costs, what it could not read."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.source import lists, palette, queries
from grafana.source.cells import as_gauge, as_unit, as_word, of_width
from grafana.source.page import NODE as NODE_VARIABLE
from grafana.source.page import page
from grafana.source.panels import (
    BAD_FROM_ONE,
    Column,
    Panel,
    Query,
    Says,
    figure,
    graph,
    rows,
)
from grafana.source.queries import NODE
from grafana.source.units import SHARE, unit_of

# What the readers may cost by default: sampling.cpu_budget_ratio and driver_budget_ratio of the config.
_CPU_BUDGET = 0.03
_DRIVER_BUDGET = 0.05
_ITS_ALERTS = (
    'alertname=~"GpumonDown|GpumonSampler.*|GpumonDriverMissing|GpumonLabelsRenamed|GpumonNotificationsFailing|'
    'GpumonHistoryReadOnly"'
)


def dashboard_() -> dashboard.Dashboard:
    """Return the dashboard."""
    return page(
        "gpumon-itself",
        "gpumon / gpumon itself",
        "Whether gpumon runs everywhere, how old its figures are, what it costs, and what it could not read.",
        [NODE_VARIABLE],
        [
            ("", _now()),
            ("", [_nodes(), lists.alerts(NODE, _ITS_ALERTS, width=10, height=9, with_job=False)]),
            ("Cost", _cost()),
            ("What it could not read", _losses()),
        ],
        alerts=[NODE, _ITS_ALERTS],
    )


def _each(metric: str) -> str:
    return f"max by (instance) ({queries.picked(metric, NODE)})"


def _now() -> list[Panel]:
    return [
        figure(
            "Nodes with gpumon",
            Says("Nodes whose gpumon was scraped.", "fewer than you have: look for GpumonDown in the alerts."),
            Query(f"count({_each('gpumon_build_info')})"),
            unit="short",
        ),
        figure(
            "Nodes without a driver",
            Says(
                "Nodes whose NVIDIA driver does not answer gpumon.",
                "`gpumon doctor` there says why. While it was asked to release the driver this is right.",
            ),
            Query(f"sum(1 - {_each('gpumon_nvml_up')})"),
            unit="short",
            steps=BAD_FROM_ONE,
        ),
        figure(
            "Simulated nodes",
            Says(
                "Nodes whose every figure is made up by `gpumon run --simulate`.",
                "in production there should be none; on a demonstration all of them.",
            ),
            Query(f"sum({_each('gpumon_node_simulated')})"),
            unit="short",
            steps=((1, palette.NOTICE),),
        ),
        figure(
            "Oldest figures",
            Says(
                "Age of the oldest newest reading of any card reader, over all nodes.",
                "above 10 s a reader hangs: usually one sick card; its row on the node's page says which.",
            ),
            Query(f"max(time() - {_newest()})"),
            unit=unit_of("gpumon_last_sample_timestamp_seconds"),
            decimals=0,
            steps=((10, palette.NOTICE), (60, palette.BAD)),
        ),
        figure(
            "Series left out",
            Says(
                "Series not exported in the range shown because a cap was reached.",
                "the reason says which: too many jobs or findings on one node, or labels that were the same.",
            ),
            Query(f"sum(increase({queries.picked('gpumon_series_dropped_total', NODE)}[$__range]))"),
            unit="short",
            decimals=0,
            no_value="0",
            steps=BAD_FROM_ONE,
        ),
        figure(
            "Versions",
            Says("Different versions of gpumon that run.", "more than one: finish the upgrade."),
            Query(f"count(count by (version) ({queries.picked('gpumon_build_info', NODE)}))"),
            unit="short",
            steps=((2, palette.NOTICE),),
        ),
    ]


def _newest() -> str:
    return f"max by (instance) ({queries.picked('gpumon_last_sample_timestamp_seconds', NODE)})"


def _nodes() -> Panel:
    budget = ((_CPU_BUDGET, palette.NOTICE), (2 * _CPU_BUDGET, palette.BAD))
    return rows(
        "Nodes",
        Says(
            "Each node's gpumon: version, whether its driver answers, whether it is simulated, the age of its newest figure, "
            "and its CPU as a share of one core.",
            "no driver: `gpumon doctor`. Old figures: a hung driver call. Much CPU: many processes or cards; the readers "
            "slow down by themselves.",
        ),
        [
            Query(f"max by (instance, version, python) ({queries.picked('gpumon_build_info', NODE)})"),
            Query(_each("gpumon_nvml_up")),
            Query(_each("gpumon_node_simulated")),
            Query(f"time() - {_newest()}"),
            Query(
                f"max by (instance) (rate({queries.picked('gpumon_sampler_cpu_seconds_total', NODE)}[$__rate_interval]))"
            ),
        ],
        [
            Column("instance", "Node", of_width(140)),
            Column("version", "gpumon", of_width(110)),
            Column("python", "Python", of_width(90)),
            Column("Value #B", "Driver answers", of_width(120, as_word(palette.yes_no(bad=0)))),
            Column("Value #C", "Simulated", of_width(90, as_word(palette.yes_no(bad=1)))),
            Column("Value #D", "Newest figure", of_width(115, as_unit("s", 1))),
            Column("Value #E", "CPU", as_gauge(high=0.1, steps=budget)),
        ],
        width=14,
        height=9,
        sort="Node",
        descending=False,
    )


def _cost() -> list[Panel]:
    return [
        graph(
            "CPU",
            Says(
                "CPU time of the whole gpumon process, as a share of one core.",
                "above the budget (dashed) for long: GpumonSamplerOverBudget; raise sampling.process_interval.",
            ),
            Query(
                f"max by (instance) (rate({queries.picked('gpumon_sampler_cpu_seconds_total', NODE)}[$__rate_interval]))",
                "{{instance}}",
            ),
            unit=SHARE,
            width=8,
            steps=((_CPU_BUDGET, palette.BAD),),
            no_value="No CPU time was reported.",
        ),
        graph(
            "Time inside driver calls",
            Says(
                "Share of time spent inside NVML calls, less what window calls sleep. The driver's lock is the jobs' lock.",
                "above the budget (dashed) jobs may feel it: raise sampling.process_interval; `gpumon doctor` says which "
                "call is slow.",
            ),
            Query(
                f"max by (instance) (rate({queries.picked('gpumon_driver_seconds_total', NODE)}[$__rate_interval]))",
                "{{instance}}",
            ),
            unit=SHARE,
            width=8,
            steps=((_DRIVER_BUDGET, palette.BAD),),
        ),
        graph(
            "Length of the readers' last runs",
            Says(
                "How long the last run of each reader took, the slowest node of each.",
                "a reader that takes seconds hangs in the driver: look for a lost card or an Xid on that node.",
            ),
            Query(f"max by (source) ({queries.picked('gpumon_sample_duration_seconds', NODE)})", "{{source}}"),
            unit=unit_of("gpumon_sample_duration_seconds"),
            width=8,
            legend_right=True,
        ),
    ]


def _losses() -> list[Panel]:
    def rate(metric: str, label: str) -> Query:
        return Query(
            f"sum by (instance, {label}) (rate({queries.picked(metric, NODE)}[$__rate_interval]))",
            "{{instance}} {{" + label + "}}",
        )

    missed = f"rate({queries.picked('gpumon_samples_missed_total', NODE)}[$__rate_interval])"
    taken = f"rate({queries.picked('gpumon_samples_total', NODE)}[$__rate_interval])"
    return [
        graph(
            "Runs that missed",
            Says(
                "Runs of each reader that came too late or brought nothing, over all of its runs.",
                "a few per cent cost precision only. Half and more: the node is overloaded or a card is sick.",
            ),
            Query(
                f"sum by (instance, source) ({missed}) / (sum by (instance, source) ({missed}) "
                f"+ sum by (instance, source) ({taken}) > 0)",
                "{{instance}} {{source}}",
            ),
            unit=SHARE,
            high=1,
            legend_right=True,
        ),
        graph(
            "Failed driver calls a second",
            Says(
                "NVML calls that failed, by reason. What a card does not support counts once.",
                "gpu_is_lost, timeout: a sick card. no_permission: see `gpumon doctor`.",
            ),
            rate("gpumon_nvml_errors_total", "error"),
            unit="short",
            width=6,
            no_value="No call has failed.",
        ),
        graph(
            "Readings thrown away a second",
            Says(
                "Readings that cannot be true (a utilization of 160 %, more power than the cable carries), by reason.",
                "a few are the driver's habit; a steady stream from one node: note driver and card in an issue.",
            ),
            rate("gpumon_readings_rejected_total", "reason"),
            unit="short",
            width=6,
            no_value="No reading was thrown away.",
        ),
        graph(
            "Messages sent by gpumon",
            Says(
                "Messages to tenants sent by gpumon itself, by channel and result.",
                "failed: `gpumon notify --test TENANT` says why. dropped: the channel is too slow.",
            ),
            Query(
                f"sum by (instance, channel, result) (increase({queries.picked('gpumon_notifications_total', NODE)}"
                "[$__rate_interval]))",
                "{{instance}} {{channel}} {{result}}",
            ),
            unit="short",
            width=12,
            no_value="None was sent: built-in messages are off, or nothing happened.",
        ),
        graph(
            "Length of scrapes",
            Says(
                "What Prometheus says of its scrapes of gpumon: how long they took.",
                "above 1 s: the network, or a node without CPU to spare; gpumon itself answers in milliseconds.",
            ),
            Query(
                f"max by (instance) ({queries.picked('scrape_duration_seconds', NODE)} "
                f"and on (instance, job) {queries.picked('gpumon_build_info', NODE)})",
                "{{instance}}",
            ),
            unit="s",
            width=12,
        ),
    ]
