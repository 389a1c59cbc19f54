"""Job: what holds one job back, since when, why, and what to change."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.source import lists, palette, queries
from grafana.source.page import GPU as GPU_VARIABLE
from grafana.source.page import JOB as JOB_VARIABLE
from grafana.source.page import NODE as NODE_VARIABLE
from grafana.source.page import TENANT as TENANT_VARIABLE
from grafana.source.page import page
from grafana.source.panels import (
    BAD_FROM_ONE,
    FULLNESS,
    Panel,
    Query,
    Says,
    columns_chart,
    figure,
    fixed_colours,
    graph,
    lines,
    sentence,
    timeline,
)
from grafana.source.queries import GPU, JOB, NODE, TENANT
from grafana.source.units import SHARE, unit_of

_MINE = (NODE, TENANT, JOB)
_CARD = "{{instance}} GPU {{gpu}}"


def dashboard_() -> dashboard.Dashboard:
    """Return the dashboard."""
    return page(
        "gpumon-job",
        "gpumon / Job",
        "What holds one job back, since when, why gpumon thinks so, and what to change.",
        [NODE_VARIABLE, TENANT_VARIABLE, JOB_VARIABLE, GPU_VARIABLE],
        [
            ("", _now()),
            ("", _time()),
            (
                "",
                [
                    lists.findings(*_MINE, width=12, height=8, with_job=False),
                    lists.alerts(*_MINE, with_job=False, with_node=False, height=8),
                ],
            ),
            ("Cards: links against capacity, power, activity", _cards()),
            ("Steps and scaling", _scaling()),
        ],
        alerts=[*_MINE],
        since="now-1h",
    )


def _now() -> list[Panel]:
    ratio = "gpumon_job_time_ratio"
    waiting = queries.picked(ratio, 'state=~"communication|peer_wait|host_wait|idle"', *_MINE)
    return [
        sentence(
            "What holds this job back",
            Says(
                "gpumon's verdict now, in words.",
                "read the findings below: each says what to change first. Then see in the timeline since when.",
            ),
            Query(queries.verdict(*_MINE)),
            label="verdict",
            mappings=palette.verdicts(),
            width=10,
            no_value="This job does not run now.",
        ),
        figure(
            "Sure",
            Says(
                "How sure the verdict is, from the agreement and coverage of its witnesses.",
                "below 60 % take the verdict as a hint; `gpumon report` lists the evidence for and against it.",
            ),
            Query(f"min({queries.by_job('gpumon_job_bottleneck_confidence_ratio', *_MINE)})"),
            unit=unit_of("gpumon_job_bottleneck_confidence_ratio"),
            decimals=0,
            width=3,
            no_value="-",
        ),
        figure(
            "Time spent waiting",
            Says(
                "Share of the cards' time spent sending, waiting for another card or for the host, or idle.",
                "this is the most that can be won. The time split below says what is waited for.",
            ),
            Query(f"sum(max by (state) ({waiting}))"),
            unit=SHARE,
            decimals=0,
            width=4,
            steps=((0.3, palette.NOTICE), (0.5, palette.BAD)),
            no_value="cannot be told apart",
        ),
        figure(
            "Cards",
            Says("Cards of the job.", "compare with the recommended number under Steps and scaling."),
            Query(f"sum({queries.by_job('gpumon_job_gpus', *_MINE)})"),
            unit="short",
            width=2,
            no_value="-",
        ),
        figure(
            "Lost",
            Says(
                "Cards of the job that do not answer any more.",
                "the job cannot go on with them: stop it, restart it on the others from its last checkpoint, tell the "
                "operator.",
            ),
            Query(f"sum({queries.by_job('gpumon_job_gpus_lost', *_MINE)})"),
            unit="short",
            width=2,
            steps=BAD_FROM_ONE,
            no_value="-",
        ),
        figure(
            "Power",
            Says(
                "Power of the job's cards. Absent while a card is shared with another job.",
                "far below the cards' limits while utilization reads 100 %: the cards wait.",
            ),
            Query(f"sum({queries.by_job('gpumon_job_power_watts', *_MINE)})"),
            unit=unit_of("gpumon_job_power_watts"),
            width=3,
            no_value="shared",
        ),
    ]


def _time() -> list[Panel]:
    words = palette.state_words()
    return [
        timeline(
            "Verdict over time",
            Says(
                "What has held the job back, over time. A gap: the job did not run, or gpumon did not.",
                "a change of colour says when it began: what was changed then?",
            ),
            Query(queries.class_code(*_MINE), "{{instance}} {{gpu_job}}"),
            mappings=palette.class_codes(),
            height=5,
        ),
        graph(
            "Where the time goes",
            Says(
                "The cards' time, stacked to 100 %. Green and blue at the bottom is work; warm colours above are waiting. "
                "A gap: for 5 minutes it could not be told apart well enough to say.",
                "sending: exchange less or less often. Waiting for a card: find the slow one below. Waiting for the host: "
                "look at input, checkpoints and offload.",
            ),
            *[Query(queries.state_share(name, *_MINE), words[name]) for name in palette.STATE_ORDER],
            unit=SHARE,
            high=1,
            width=24,
            height=8,
            stacked=True,
            legend_right=True,
            overrides=fixed_colours({words[name]: palette.STATE_COLOURS[name] for name in palette.STATE_ORDER}),
            at_least="2m",  # the split is not stated every second
            no_value="The time cannot be told apart well enough to say.",
        ),
    ]


def _cards() -> list[Panel]:
    def of_cards(series: str) -> str:
        return queries.card_of_job(series, NODE, TENANT, JOB, GPU)

    def gauge_of(metric: str, *matchers: str) -> str:
        return of_cards(queries.picked(metric, NODE, *matchers))

    attainable = 'kind="attainable"'
    capacity = f"min({gauge_of('gpumon_pcie_capacity_bytes_per_second', attainable)})"
    traffic = unit_of("gpumon_pcie_throughput_bytes_per_second")
    return [
        *(
            graph(
                title,
                Says(
                    f"PCIe traffic {way} each card, mean over each step of the graph, and the least that one of these links "
                    "can carry in one direction (dashed). Bursts are higher than means.",
                    "lines near the dashed one: the link is full. Far below and the job still waits for data: a link or "
                    "memory shared above the cards is full, or the messages are small.",
                ),
                Query(of_cards(queries.mean_traffic(direction, NODE)), _CARD),
                Query(capacity, "capacity of one link"),
                unit=traffic,
                legend_right=True,
                overrides=lines(("capacity of one link",)),
            )
            for title, direction, way in (
                ("Data into each card", "rx", "towards"),
                ("Data out of each card", "tx", "away from"),
            )
        ),
        graph(
            "Power of each card",
            Says(
                "Power, the best sign of real work on cards without deeper counters, and the lowest limit (dashed).",
                "one card lower than the others: it waits, or it is the slow one. All low: the job does not use them. At "
                "the limit is normal under full load.",
            ),
            Query(of_cards(queries.mean_power(NODE)), _CARD),
            Query(f"min({gauge_of('gpumon_gpu_power_limit_watts')})", "power limit"),
            unit=unit_of("gpumon_gpu_power_watts"),
            legend_right=True,
            overrides=lines(("power limit",)),
        ),
        graph(
            "Activity of each card",
            Says(
                "Share of multiprocessors at work where the card can tell (GPM), else of time in which memory was read or "
                "written. Not utilization: that reads 100 % while a card waits for data.",
                "low or jagged while utilization is 100 %: the cards wait. One lower than the rest: look at its process.",
            ),
            Query(of_cards(queries.mean_activity(NODE)), _CARD),
            unit=SHARE,
            high=1,
            legend_right=True,
        ),
        graph(
            "Fullest link",
            Says(
                "The fullest of the job's links of each kind, mean of 15 s over what it can carry. uplink: shared by "
                "several cards.",
                "above 80 % that link holds the job back if the verdict is communication.",
            ),
            Query(f"max by (link) ({queries.picked('gpumon_job_link_saturation_ratio', *_MINE)})", "{{link}}"),
            unit=SHARE,
            reach=1,
            steps=FULLNESS,
        ),
        timeline(
            "Cards that the others wait for",
            Says(
                "Each card of the job: whether the others wait for it.",
                "look at that card's link, heat and power on the node's page, and at what its process does more than others.",
            ),
            Query(
                f"max by (instance, gpu_job, gpu) ({queries.picked('gpumon_job_straggler', *_MINE, GPU)})",
                _CARD,
            ),
            mappings=palette.waited_for(),
            width=12,
            height=8,
            show_text=False,
        ),
    ]


def _scaling() -> list[Panel]:
    efficiency = queries.picked("gpumon_job_scaling_efficiency_ratio", NODE, TENANT)
    mean = f"max by ({queries.JOB_KEY}) (avg_over_time({efficiency}[$__range]))"
    most = f"max by ({queries.JOB_KEY}) (max_over_time({queries.picked('gpumon_job_gpus', NODE, TENANT)}[$__range]))"
    cards = f'count_values by ({queries.JOB_KEY}) ("cards", {most})'
    by_cards = f"avg by (cards) ({mean} * on ({queries.JOB_KEY}) group_left (cards) {cards})"
    return [
        graph(
            "Length of a step",
            Says(
                "Period of the job's repeating work, where it is clear.",
                "it grows with more cards: the added cards do not help. It jumps: compare with the verdict at that time.",
            ),
            Query(queries.by_job("gpumon_job_step_seconds", *_MINE), "{{instance}} {{gpu_job}}"),
            unit=unit_of("gpumon_job_step_seconds"),
            width=8,
            no_value="No clear period.",
        ),
        graph(
            "Efficiency",
            Says(
                "Throughput over card count times one card's, by the best evidence there is (reported, period, model).",
                "low with many cards: use fewer, or change how the work is split.",
            ),
            Query(
                f"max by (evidence) ({queries.picked('gpumon_job_scaling_efficiency_ratio', *_MINE)})",
                "by {{evidence}}",
            ),
            unit=SHARE,
            high=1,
            width=6,
            no_value="Not known yet: it takes two card counts of the same work, or a report from the job.",
        ),
        columns_chart(
            "Efficiency by number of cards",
            Says(
                "Mean efficiency of the selected tenant's jobs by how many cards they have, over the range shown.",
                "where it falls below 60 %, the last cards are not worth their price.",
            ),
            Query(by_cards),
            x="cards",
            unit=SHARE,
            high=1,
            width=6,
            no_value="Not known yet.",
        ),
        figure(
            "Cards worth having",
            Says(
                "The smallest number of cards that gives at least 95 % of the best throughput seen or predicted.",
                "fewer than the job has: run it on that many and use the others for something else.",
            ),
            Query(f"min({queries.by_job('gpumon_job_recommended_gpus', *_MINE)})"),
            unit="short",
            height=8,
            no_value="not known yet",
        ),
    ]
