"""Node: the cards of a machine, their links and what those share, heat, power, errors. For operators."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana.source import lists, palette, queries
from grafana.source.cells import as_gauge, as_unit, as_word, of_width
from grafana.source.page import GPU as GPU_VARIABLE
from grafana.source.page import NODE as NODE_VARIABLE
from grafana.source.page import TENANT as TENANT_VARIABLE
from grafana.source.page import page
from grafana.source.panels import (
    BAD_FROM_ONE,
    FULLNESS,
    Column,
    Panel,
    Query,
    Says,
    figure,
    graph,
    rows,
    timeline,
)
from grafana.source.queries import GPU, NODE, TENANT
from grafana.source.units import SHARE, unit_of

_CARD = "{{instance}} GPU {{gpu}}"
_CARDS = (NODE, GPU)
# Reasons that cost speed and are not the owner's own setting.
_HARMFUL = 'reason=~"sw_thermal|hw_thermal|hw_power_brake|hw_slowdown"'


def dashboard_() -> dashboard.Dashboard:
    """Return the dashboard."""
    return page(
        "gpumon-node",
        "gpumon / Node",
        "The cards of a machine: jobs on them, links and what they share, heat, power and errors.",
        [NODE_VARIABLE, TENANT_VARIABLE, GPU_VARIABLE],
        [
            ("", _now()),
            ("", [lists.jobs(NODE, TENANT, height=7)]),
            ("", [_cards(), _shared_links()]),
            ("", [lists.alerts(NODE, width=24)]),
            ("", [lists.node_findings(NODE, width=24, height=6)]),
            ("Links", _links()),
            ("Power, heat and clocks", _heat()),
            ("Errors", _errors()),
        ],
        alerts=[NODE],
        since="now-3h",
    )


def _now() -> list[Panel]:
    return [
        figure(
            "Driver",
            Says(
                "Whether the NVIDIA driver answers gpumon.",
                "`gpumon doctor` on the node says why: no driver, no permission, or a driver that hangs. After `gpumon "
                "release` it comes back by itself.",
            ),
            Query(f"min({_each_node('gpumon_nvml_up')})"),
            unit="short",
            mappings=palette.answers(),
            width=4,
        ),
        figure(
            "Cards up",
            Says(
                "Cards that answer the driver.",
                "compare with the cards expected; the newest Xid below says why one is gone.",
            ),
            Query(f"sum({_gpus('up')})"),
            unit="short",
            width=3,
        ),
        figure(
            "Cards lost",
            Says(
                "Cards that should be there and do not answer.",
                "Xid 79: the card fell off the bus; reset it, check power and riser. None at all in lspci: reseat it.",
            ),
            Query(f"sum({_each_node('gpumon_node_gpus_expected')}) - sum({_gpus('up')})"),
            unit="short",
            width=3,
            steps=BAD_FROM_ONE,
        ),
        figure(
            "Narrow links",
            Says(
                "Cards whose PCIe link is narrower than card and slot can, or slower while the card works.",
                "reseat card and riser, clean the contacts, check the slot's setting in the BIOS.",
            ),
            Query(f"sum({queries.by_card('gpumon_pcie_link_downtrained', *_CARDS)})"),
            unit="short",
            width=3,
            steps=BAD_FROM_ONE,
        ),
        figure(
            "Slowed by heat, brake",
            Says(
                "Cards whose clock heat or the power brake holds down now.",
                "heat: fans, dust, inlet temperature, space between cards. Brake: power supply and its cables.",
            ),
            Query(f"sum({queries.by_card('gpumon_gpu_throttled', _HARMFUL, *_CARDS)})"),
            unit="short",
            width=4,
            steps=BAD_FROM_ONE,
        ),
        figure(
            "Fullest link",
            Says(
                "The fullest of the node's PCIe links, mean of 15 s over what it can carry.",
                "see below which card it is, and whether its job waits for data.",
            ),
            Query(f"max({queries.picked('gpumon_pcie_saturation_ratio', *_CARDS)})"),
            unit=SHARE,
            decimals=0,
            width=3,
            steps=FULLNESS,
        ),
        figure(
            "Power now",
            Says(
                "Power of the node's cards.",
                "a sudden fall is a job that has stopped or a card that was lost.",
            ),
            Query(f"sum({queries.by_card('gpumon_gpu_power_watts', *_CARDS)})"),
            unit=unit_of("gpumon_gpu_power_watts"),
            width=4,
        ),
    ]


def _cards() -> Panel:
    def of_card(metric: str, *matchers: str) -> str:
        return queries.by_card(metric, *matchers, *_CARDS)

    memory = f"{of_card('gpumon_gpu_memory_used_bytes')} / {of_card('gpumon_gpu_memory_total_bytes')}"
    power = f"{of_card('gpumon_gpu_power_watts')} / {of_card('gpumon_gpu_power_limit_watts')}"
    heat = as_gauge("celsius", 100, ((80, palette.NOTICE), (88, palette.BAD)))
    plain = as_gauge(steps=())
    up = queries.by_card("gpumon_gpu_up", *_CARDS)
    return rows(
        "Cards",
        Says(
            "Every card: its links as shares of what they can carry, power as a share of its limit, heat, memory, and the "
            "lanes and generation of its link now. The generation falls while a card is idle, to save power.",
            "a card that does not answer comes first. Then links that are full, lanes below those of its neighbours, and "
            "heat; a card with much less power than its neighbours in one job is waited for, or waits.",
        ),
        [
            Query(f'label_join({up}, "key", " ", "instance", "gpu")'),
            Query(of_card("gpumon_pcie_saturation_ratio", 'direction="rx"')),
            Query(of_card("gpumon_pcie_saturation_ratio", 'direction="tx"')),
            Query(power),
            Query(of_card("gpumon_gpu_temperature_celsius", 'sensor="gpu"')),
            Query(memory),
            Query(of_card("gpumon_pcie_link_width_lanes", 'state="current"')),
            Query(of_card("gpumon_pcie_link_generation", 'state="current"')),
        ],
        [
            Column("instance", "Node", of_width(110)),
            Column("gpu", "GPU", of_width(50)),
            Column("Value #A", "Answers", of_width(72, as_word(palette.yes_no(bad=0)))),
            Column("Value #B", "Data in", of_width(115, as_gauge())),
            Column("Value #C", "Data out", of_width(115, as_gauge())),
            Column("Value #D", "Power", of_width(100, plain)),
            Column("Value #E", "Heat", of_width(110, heat)),
            Column("Value #F", "Memory", of_width(100, plain)),
            Column("Value #G", "Lanes", of_width(65, as_unit("short", 0))),
            Column("Value #H", "Gen.", of_width(60, as_unit("short", 0))),
        ],
        width=15,
        height=11,
        order="key",
    )


def _shared_links() -> Panel:
    """Return the uplinks, each followed by its cards: the key sorts a link before its cards."""
    below = f"max by (instance, uplink, gpu, uuid) ({queries.picked('gpumon_pcie_uplink_info', NODE)})"

    def both(direction: str) -> str:
        matcher = f'direction="{direction}"'
        of_card = f"max by (instance, uuid) ({queries.picked('gpumon_pcie_saturation_ratio', matcher, NODE)})"
        cards = f"sum by (instance, uplink, gpu) ({below} * on (instance, uuid) group_left () {of_card})"
        selector = queries.picked("gpumon_pcie_uplink_saturation_ratio", matcher, NODE)
        links = f'label_replace(max by (instance, uplink) ({selector}), "gpu", "(all)", "", "")'
        return f'label_join({links} or {cards}, "key", " ", "instance", "uplink", "gpu")'

    return rows(
        "Shared links with their cards",
        Says(
            "Each link that several cards share (a switch's or bridge's way to the CPU), and the cards below it. Data in is "
            "towards the cards.",
            "a shared link that is full slows all jobs below it: put jobs that exchange much under different links.",
        ),
        [Query(both("rx")), Query(both("tx"))],
        [
            Column("instance", "Node", of_width(110)),
            Column("uplink", "Shared link", of_width(110)),
            Column("gpu", "GPU", of_width(50)),
            Column("Value #A", "Data in", of_width(120, as_gauge())),
            Column("Value #B", "Data out", of_width(120, as_gauge())),
        ],
        width=9,
        height=11,
        order="key",
        no_value="No link is known to be shared by several cards.",
    )


def _links() -> list[Panel]:
    nvlink = queries.picked("gpumon_nvlink_saturation_ratio", *_CARDS)
    return [
        *(
            graph(
                title,
                Says(
                    f"Traffic {way} each card over its PCIe link, mean over each step, as a share of what the link can carry "
                    "(learned here, else 85 % of its line rate).",
                    "above 80 % the link is full: see in the job's verdict whether that costs speed.",
                ),
                Query(_fullness(direction), _CARD),
                unit=SHARE,
                steps=FULLNESS,
                legend_right=True,
            )
            for title, direction, way in (("PCIe, data in", "rx", "towards"), ("PCIe, data out", "tx", "away from"))
        ),
        graph(
            "Bursts on PCIe, and NVLink",
            Says(
                "The highest traffic of 20 to 60 ms within a minute over the link's capacity; and, where cards have NVLink, "
                "its mean.",
                "bursts at 100 % with a low mean: traffic comes in waves, and the job waits for each of them.",
            ),
            Query(
                f"max by (instance, gpu, uuid) ({queries.picked('gpumon_pcie_throughput_peak_bytes_per_second', *_CARDS)})"
                f" / {_attainable()}",
                f"{_CARD} burst",
            ),
            Query(f"max by (instance, gpu, uuid) ({nvlink})", f"{_CARD} NVLink"),
            unit=SHARE,
            legend_right=True,
        ),
        graph(
            "Link width and generation",
            Says(
                "Lanes that each link has now. Fewer than before means that the link was trained down.",
                "reseat card and riser; a link that falls under load often has a bad riser or power connector.",
            ),
            Query(queries.by_card("gpumon_pcie_link_width_lanes", 'state="current"', *_CARDS), f"{_CARD} lanes"),
            Query(queries.by_card("gpumon_pcie_link_generation", 'state="current"', *_CARDS), f"{_CARD} generation"),
            unit="short",
            legend_right=True,
        ),
    ]


def _heat() -> list[Panel]:
    return [
        graph(
            "Power",
            Says(
                "Power of each card.",
                "one card much lower than others of its job waits or is the slow one; all at a level far below the limit: "
                "they wait.",
            ),
            Query(f"max by (instance, gpu, uuid) ({queries.mean_power(*_CARDS)})", _CARD),
            unit=unit_of("gpumon_gpu_power_watts"),
            legend_right=True,
        ),
        graph(
            "Temperature",
            Says(
                "Temperature of each card's chip.",
                "one card hotter than its neighbours at the same power: its fan or its air. All: the inlet.",
            ),
            Query(queries.by_card("gpumon_gpu_temperature_celsius", 'sensor="gpu"', *_CARDS), _CARD),
            unit=unit_of("gpumon_gpu_temperature_celsius"),
            legend_right=True,
        ),
        graph(
            "Time slowed down, by reason",
            Says(
                "Share of time in which something held the clock down. sw_power_cap is normal under full load; the others "
                "are not.",
                "thermal: cooling. hw_power_brake: power supply. sw_power_cap on an idle-looking card: a lowered limit.",
            ),
            Query(
                "max by (instance, gpu, reason) "
                f"(rate({queries.picked('gpumon_gpu_throttle_seconds_total', *_CARDS)}[$__rate_interval])) > 0.001 "
                "or max by (instance, gpu, reason) "
                f"(rate({queries.picked('gpumon_gpu_throttle_seconds_total', _HARMFUL, *_CARDS)}[$__rate_interval]))",
                f"{_CARD} {{{{reason}}}}",
            ),
            unit=SHARE,
            high=1,
            legend_right=True,
            largest_first=True,
        ),
        graph(
            "Clock",
            Says(
                "Clock of each card's multiprocessors.",
                "a card that runs slower than its neighbours under the same load: see heat, power limit, and brake.",
            ),
            Query(queries.by_card("gpumon_gpu_clock_hertz", 'domain="sm"', *_CARDS), _CARD),
            unit=unit_of("gpumon_gpu_clock_hertz"),
            legend_right=True,
        ),
    ]


def _errors() -> list[Panel]:
    def events(metric: str) -> str:
        return f"increase({queries.picked(metric, *_CARDS)}[$__rate_interval])"

    return [
        graph(
            "PCIe errors and replays",
            Says(
                "Packets that arrived damaged and were sent again, and errors by kind.",
                "a few replays a day are harmless; a steady stream means a bad riser, contact or power connector, and often "
                "comes before a lost card.",
            ),
            Query(
                f"max by (instance, gpu, uuid, kind) ({events('gpumon_pcie_errors_total')})", f"{_CARD} {{{{kind}}}}"
            ),
            Query(f"max by (instance, gpu, uuid) ({events('gpumon_pcie_replays_total')})", f"{_CARD} replays"),
            unit="short",
            legend_right=True,
            largest_first=True,
        ),
        _xids(),
        graph(
            "Memory errors",
            Says(
                "New ECC errors by kind, and row remaps that wait for a reset. Only cards with ECC.",
                "uncorrected ones: reset the card; again: replace it. A remap that failed: replace the card.",
            ),
            Query(
                f"max by (instance, gpu, kind) ({events('gpumon_gpu_ecc_errors_total')})",
                f"{_CARD} {{{{kind}}}}",
            ),
            Query(queries.by_card("gpumon_gpu_row_remap_pending", *_CARDS), f"{_CARD} remap pending"),
            Query(queries.by_card("gpumon_gpu_row_remap_failed", *_CARDS), f"{_CARD} remap failed"),
            unit="short",
            width=12,
            height=9,
            no_value="These cards have no ECC.",
        ),
        timeline(
            "Cards that answer",
            Says(
                "Each card: whether it answers. A lost card keeps its row until it is back or gpumon restarts.",
                "see the Xid at the time when it was lost. Reset the card, check power and riser.",
            ),
            Query(queries.by_card("gpumon_gpu_up", *_CARDS), _CARD),
            mappings=palette.answers(),
            width=12,
            height=9,
            show_text=False,
        ),
    ]


def _xids() -> Panel:
    key = "instance, gpu, uuid, xid"
    last = f"max by ({key}) ({queries.picked('gpumon_gpu_xid_last_timestamp_seconds', *_CARDS)})"
    return rows(
        "Xid errors",
        Says(
            "Errors that the driver reported since gpumon started: card, number, and how long ago the last one was.",
            "79: the card fell off the bus; 48, 63, 64, 94, 95: memory; 74: NVLink; 13, 31, 43, 45: the program's own fault.",
        ),
        [Query(f"time() - {last}")],
        [
            Column("instance", "Node", of_width(150)),
            Column("gpu", "GPU", of_width(70)),
            Column("xid", "Xid", of_width(80)),
            Column("Value", "Last one was", as_unit("s", 0)),
        ],
        width=12,
        sort="Last one was",
        descending=False,
        no_value="The driver has reported no error.",
    )


def _fullness(direction: str) -> str:
    traffic = f"max by (instance, gpu, uuid) ({queries.mean_traffic(direction, *_CARDS)})"
    return f"{traffic} / {_attainable()}"


def _attainable() -> str:
    capacity = queries.picked("gpumon_pcie_capacity_bytes_per_second", 'kind="attainable"', *_CARDS)
    return f"on (instance, gpu, uuid) max by (instance, gpu, uuid) ({capacity})"


def _each_node(metric: str) -> str:
    return f"max by (instance) ({queries.picked(metric, NODE)})"


def _gpus(state: str) -> str:
    matcher = f'state="{state}"'
    return f"max by (instance) ({queries.picked('gpumon_node_gpus', matcher, NODE)})"
