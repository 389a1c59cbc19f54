"""Fleet: who wastes what, which links are full, what all cards are held back by. For operators."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.source import lists, palette, queries
from grafana.source.cells import as_signal, as_unit, linked, of_width
from grafana.source.page import NODE as NODE_VARIABLE
from grafana.source.page import TENANT as TENANT_VARIABLE
from grafana.source.page import page
from grafana.source.panels import (
    BAD_FROM_ONE,
    Column,
    Panel,
    Query,
    Says,
    bars,
    figure,
    fixed_colours,
    graph,
    heat,
    rows,
    timeline,
)
from grafana.source.queries import NODE, TENANT
from grafana.source.units import unit_of

# Jobs on the timeline: those with the most held-back card-hours. More rows than this cannot be read.
TIMELINE_JOBS = 20
HEAT_NODES = 40

_UP = 'state="up"'
_ANSWERING = f"max by (instance) ({queries.picked('gpumon_node_gpus', _UP, NODE)})"
_ANY_LINK = f'{{__name__=~"gpumon_(pcie|nvlink)_saturation_ratio",{NODE}}}'
_LOUD = 'severity=~"warning|critical"'


def dashboard_() -> dashboard.Dashboard:
    """Return the dashboard."""
    return page(
        "gpumon-fleet",
        "gpumon / Fleet",
        "Which jobs and tenants waste cards, where the links are full, and what all cards are held back by.",
        [NODE_VARIABLE, TENANT_VARIABLE],
        [("", _now()), ("Who wastes what", _waste()), ("Links and time", _over_time()), ("What to mend", _to_mend())],
        alerts=[NODE],
    )


def _now() -> list[Panel]:
    held_back = f"sum({queries.cards_in_class(palette.HELD_BACK, NODE, TENANT)})"
    return [
        figure(
            "Cards held back",
            Says(
                "Cards of jobs that are held back now: idle, hung, throttled, or waiting for data or for the host.",
                "the table below names the jobs; begin at its top.",
            ),
            Query(held_back),
            unit="short",
            steps=BAD_FROM_ONE,
            no_value="0",
        ),
        figure(
            "Cards with a job",
            Says(
                "Cards that a job has or was given.",
                "fewer than the cards that answer: cards are free. More: jobs share cards.",
            ),
            Query(f"sum({queries.by_job('gpumon_job_gpus', NODE, TENANT)})"),
            unit="short",
            no_value="0",
        ),
        figure(
            "Cards that answer",
            Says(
                "Cards that answer the driver now.",
                "compare with the cards expected; `gpumon doctor` on the node says why one is gone.",
            ),
            Query(f"sum({_ANSWERING})"),
            unit="short",
        ),
        figure(
            "Cards lost or missing",
            Says(
                "Cards that should be there and do not answer.",
                "open the node: the newest Xid says why. 79 means that the card fell off the bus.",
            ),
            Query(f"sum(max by (instance) ({queries.picked('gpumon_node_gpus_expected', NODE)})) - sum({_ANSWERING})"),
            unit="short",
            steps=BAD_FROM_ONE,
        ),
        figure(
            "Alerts",
            Says("gpumon's alerts that fire now, of warning and critical severity.", "the list below names them."),
            Query(f"count({queries.firing(NODE, _LOUD)}) or vector(0)"),
            unit="short",
            steps=BAD_FROM_ONE,
        ),
        figure(
            "Power",
            Says(
                "Power of all cards.",
                "high power with held-back jobs is money spent on waiting; a sudden fall is a stopped job or a lost card.",
            ),
            Query(f"sum({queries.by_card('gpumon_gpu_power_watts', NODE)})"),
            unit=unit_of("gpumon_gpu_power_watts"),
        ),
    ]


def _waste() -> list[Panel]:
    hours = queries.held_back_card_hours(palette.HELD_BACK, NODE, TENANT)
    bad = [Column("class", "Held back by", of_width(125, as_signal(palette.class_names())))]
    return [
        rows(
            "Card-hours held back, by job",
            Says(
                "Cards times hours, in the range shown, in which a job was idle, hung, throttled, or waited for data or for "
                "the host: who wastes what, and why.",
                "open the job at the top; its findings say what to change. Idle: ask its owner to end it.",
            ),
            [Query(f"topk(15, {hours} > 0.01)")],
            [
                Column("Value", "Card-hours", of_width(108, as_unit("short", 1))),
                *bad,
                Column("gpu_job", "Job", linked("Open the job", lists.TO_JOB)),
                Column("tenant", "Tenant", of_width(105)),
                Column("instance", "Node", of_width(115, linked("Open the node", lists.TO_NODE))),
            ],
            width=12,
            height=9,
            sort="Card-hours",
            no_value="No job was held back.",
        ),
        bars(
            "Card-hours held back, by tenant",
            Says(
                "The same, added up for each tenant.",
                "send the tenant its own dashboard (gpumon / Tenant) with the job that is worst.",
            ),
            Query(f"sort_desc(topk(12, sum by (tenant) ({hours})))", "{{tenant}}"),
            unit="short",
            decimals=1,
            width=6,
            height=9,
            base=palette.NOTICE,
            no_value="No tenant's job was held back.",
        ),
        bars(
            "Card-hours held back, by reason",
            Says(
                "The same, added up for each class. The colours are those of the timeline.",
                "communication: advise layouts that exchange less, or nodes with NVLink. idle: take cards back. host: look "
                "at CPUs and disks. throttled: look at cooling and power limits. hung: restart.",
            ),
            Query(f"sort_desc(sum by (class) ({hours}) > 0.01)", "{{class}}"),
            unit="short",
            decimals=1,
            width=6,
            height=9,
            no_value="No job was held back.",
            overrides=fixed_colours(dict(_held_back_colours())),
        ),
    ]


def _over_time() -> list[Panel]:
    words = palette.class_words()
    by_class = [
        Query(f"sum({queries.cards_in_class(name, NODE, TENANT)})", words[name]) for name in palette.CLASS_ORDER
    ]
    worst = (
        f"topk({TIMELINE_JOBS}, sum by ({queries.JOB_KEY}) ({queries.at_end(palette.HELD_BACK, NODE, TENANT)}) > 60)"
    )
    return [
        graph(
            "Cards by what their jobs are held back by",
            Says(
                "All cards that have a job, stacked by the class of the job. Green and blue at the bottom work.",
                "a warm band that stays for hours is capacity that is paid for and not used; click the job in the table.",
            ),
            *by_class,
            unit="short",
            stacked=True,
            overrides=fixed_colours({words[name]: colour for name, colour in palette.CLASS_COLOURS.items()}),
            no_value="No job uses these cards.",
        ),
        heat(
            "Fullest link of each node",
            Says(
                "For each node, the fullest of its cards' PCIe and NVLink links: mean of 15 s over what the link can carry.",
                "rows that stand out from the background are nodes whose links are full; open the node to see which cards.",
            ),
            Query(f"topk({HEAT_NODES}, max by (instance) ({_ANY_LINK}))", "{{instance}}"),
        ),
        timeline(
            "Verdicts of the jobs that are held back most",
            Says(
                "What holds each of these jobs back, over time. A gap: gpumon did not run or the job did not exist.",
                "a change of colour at a certain time points to what happened then: a node, a dataset, a new version.",
            ),
            Query(
                f"{queries.class_code(NODE, TENANT)}\nand on ({queries.JOB_KEY}) {worst}", "{{instance}} {{gpu_job}}"
            ),
            mappings=palette.class_codes(),
            height=10,
            no_value="No job was held back.",
        ),
    ]


def _to_mend() -> list[Panel]:
    return [lists.alerts(NODE, width=24, height=9), lists.node_findings(NODE, width=24, height=8)]


def _held_back_colours() -> list[tuple[str, str]]:
    return [(name, colour) for name, colour in palette.CLASS_COLOURS.items() if name in palette.HELD_BACK.split("|")]
