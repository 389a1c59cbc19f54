"""Tenant: a customer's own view. Every series it asks for carries `tenant`.

A Grafana variable is not a lock: whoever can open a dashboard can ask its data source anything. The lock is a proxy that
adds `tenant="..."` to every selector (prom-label-proxy, vmauth, VictoriaMetrics' extra_label). This page works unchanged
behind one: card figures come from the rules `gpumon_tenant:*`, which carry the tenant, and no panel asks for a series
without it. It links to no other page, since those are the operator's.
"""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.source import lists, palette, queries
from grafana.source.cells import as_signal, as_unit, of_width
from grafana.source.page import JOBS_OF_TENANT, TENANT_ALONE, page
from grafana.source.panels import (
    BAD_FROM_ONE,
    Column,
    Panel,
    Query,
    Says,
    figure,
    fixed_colours,
    graph,
    lines,
    rows,
    timeline,
)
from grafana.source.queries import JOB, TENANT
from grafana.source.tenant_rules import recorded
from grafana.source.units import SHARE, unit_of

_MINE = (TENANT, JOB)
_CARD = "{{instance}} GPU {{gpu}}"
_FOR_CUSTOMER = 'audience="customer"'


def dashboard_() -> dashboard.Dashboard:
    """Return the dashboard."""
    return page(
        "gpumon-tenant",
        "gpumon / Tenant",
        "Your jobs: what holds them back, since when, and what to change.",
        [TENANT_ALONE, JOBS_OF_TENANT],
        [
            ("", _now()),
            ("", [lists.jobs(*_MINE, for_customer=True, height=7)]),
            (
                "",
                [
                    lists.findings(*_MINE, _FOR_CUSTOMER, width=24, height=8),
                    lists.alerts(TENANT, JOB, _FOR_CUSTOMER, with_node=False, width=24, height=8),
                ],
            ),
            ("", _time()),
            ("Cards", _cards()),
        ],
        alerts=[TENANT, JOB, _FOR_CUSTOMER],
        links=False,
    )


def _now() -> list[Panel]:
    held_back = queries.cards_in_class(palette.HELD_BACK, *_MINE)
    return [
        figure(
            "Your cards",
            Says("Cards that your jobs have or were given.", "fewer than you rent: ask the operator."),
            Query(f"sum({queries.by_job('gpumon_job_gpus', *_MINE)})"),
            unit="short",
            no_value="0",
        ),
        figure(
            "Cards held back",
            Says(
                "Cards of jobs that are idle, hung, throttled, or wait for data or for the host now.",
                "the table below says which jobs and why; the findings say what to change.",
            ),
            Query(f"sum({held_back})"),
            unit="short",
            steps=BAD_FROM_ONE,
            no_value="0",
        ),
        figure(
            "Time spent waiting",
            Says(
                "Share of all your card time spent waiting or idle, over the range shown: what you pay for and do not use.",
                "begin with the job that has the most card-hours below.",
            ),
            Query(_waiting_share()),
            unit=SHARE,
            decimals=0,
            steps=((0.3, palette.NOTICE), (0.5, palette.BAD)),
            no_value="cannot be told",
        ),
        figure(
            "Lost cards",
            Says(
                "Cards of your jobs that do not answer any more.",
                "stop the job and start it on the others from its last checkpoint; the operator is told.",
            ),
            Query(f"sum({queries.by_job('gpumon_job_gpus_lost', *_MINE)})"),
            unit="short",
            steps=BAD_FROM_ONE,
            no_value="0",
        ),
        figure(
            "Power",
            Says(
                "Power of your jobs' cards. Cards shared with another job are left out.",
                "low power on busy-looking cards: they wait.",
            ),
            Query(f"sum({queries.by_job('gpumon_job_power_watts', *_MINE)})"),
            unit=unit_of("gpumon_job_power_watts"),
            no_value="shared",
        ),
        figure(
            "Energy",
            Says(
                "Energy of your jobs over the range shown, while they held their cards alone.",
                "compare with the work done in that time; a job that waits still uses a third of the power.",
            ),
            Query(
                f"sum(max by ({queries.JOB_KEY}) "
                f"(increase({queries.picked('gpumon_job_energy_joules_total', *_MINE)}[$__range])))"
            ),
            unit=unit_of("gpumon_job_energy_joules_total"),
            no_value="shared",
        ),
    ]


def _time() -> list[Panel]:
    words = palette.state_words()
    hours = queries.held_back_card_hours(palette.HELD_BACK, *_MINE)
    return [
        timeline(
            "What held your jobs back",
            Says(
                "Each job's verdict over time. A gap: the job did not run.",
                "a change of colour says when it began: what was changed then?",
            ),
            Query(queries.class_code(*_MINE), "{{instance}} {{gpu_job}}"),
            mappings=palette.class_codes(),
            width=24,
            height=7,
        ),
        graph(
            "Where the time goes",
            Says(
                "Card time of the selected jobs, stacked to 100 %. Green and blue is work; warm colours are waiting. A gap: for 5 "
                "minutes it could not be told apart well enough to say.",
                "choose one job above. Sending: exchange less or less often. Waiting for the host: input, checkpoints, "
                "offload.",
            ),
            *[Query(queries.state_share(name, *_MINE), words[name]) for name in palette.STATE_ORDER],
            unit=SHARE,
            high=1,
            width=14,
            height=9,
            stacked=True,
            legend_right=True,
            overrides=fixed_colours({words[name]: palette.STATE_COLOURS[name] for name in palette.STATE_ORDER}),
            at_least="2m",  # the split is not stated every second
            no_value="The time cannot be told apart well enough to say.",
        ),
        rows(
            "Card-hours held back",
            Says(
                "Cards times hours, in the range shown, in which a job was idle, hung, throttled, or waited.",
                "what stands first costs most. Idle: end the job. Communication: see its findings.",
            ),
            [Query(f"topk(10, {hours} > 0.01)")],
            [
                Column("Value", "Card-hours", of_width(108, as_unit("short", 1))),
                Column("class", "Held back by", of_width(130, as_signal(palette.class_names()))),
                Column("gpu_job", "Job"),
            ],
            width=10,
            height=9,
            sort="Card-hours",
            no_value="No job was held back.",
        ),
    ]


def _cards() -> list[Panel]:
    def of_card(metric: str, *matchers: str) -> str:
        return f"max by (instance, gpu, uuid) ({queries.picked(recorded(metric), *_MINE, *matchers)})"

    capacity = f"min({queries.picked(recorded('gpu_link_capacity'), *_MINE)})"
    shared = "Cards shared with another tenant are left out."
    return [
        *(
            graph(
                title,
                Says(
                    f"PCIe traffic {way} each of your cards, mean of 15 s, and what one link can carry (dashed). {shared}",
                    "near the dashed line the link is full. Far below and the job still waits for data: a link above the "
                    "cards is full, or the messages are small.",
                ),
                Query(of_card("pcie_throughput", f'direction="{direction}"'), _CARD),
                Query(capacity, "capacity of one link"),
                unit=unit_of("gpumon_pcie_throughput_bytes_per_second"),
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
                f"Power, the best sign of real work. {shared}",
                "one card lower than the others of a job: it waits, or it is the slow one. All low: the job does not use "
                "them.",
            ),
            Query(of_card("gpu_power"), _CARD),
            unit=unit_of("gpumon_gpu_power_watts"),
            legend_right=True,
            width=8,
        ),
        graph(
            "Activity of each card",
            Says(
                "Share of multiprocessors at work where the card can tell, else of time in which memory was read or written. "
                f"{shared}",
                "low while nvidia-smi says 100 %: the card waits.",
            ),
            Query(of_card("gpu_activity"), _CARD),
            unit=SHARE,
            high=1,
            legend_right=True,
            width=8,
        ),
        graph(
            "Memory of each card",
            Says(
                f"Memory in use as a share of the card's. {shared}",
                "above 95 %: a larger batch will not fit. Very uneven: the work is split unevenly.",
            ),
            Query(of_card("gpu_memory_share"), _CARD),
            unit=SHARE,
            high=1,
            legend_right=True,
            width=8,
        ),
    ]


def _waiting_share() -> str:
    waiting = queries.picked("gpumon_job_time_seconds_total", 'state=~"communication|peer_wait|host_wait|idle"', *_MINE)
    every = queries.picked("gpumon_job_time_seconds_total", *_MINE)
    return f"sum(increase({waiting}[$__range])) / (sum(increase({every}[$__range])) > 0)"
