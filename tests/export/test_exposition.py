"""The pages: what stands on them, what does not, and that every reader takes them."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from gpumon.export.publish import Published, Publisher
from gpumon.model.metrics import METRICS, METRICS_BY_NAME, PREFIX
from gpumon.model.text import MAX_CHARACTERS, shown_text
from gpumon.model.verdict import TIME_STATES, JobClass
from gpumon.model.view import NodeView
from tests import views

EVERY_VIEW = (
    views.geforce(4),
    views.sxm(4),
    views.crowded(),
    views.mig(),
    views.lost_card(),
    views.no_driver(),
    views.no_jobs(),
    views.hostile(),
)


def published(view: NodeView) -> Published:
    return Publisher(max_jobs=256).publish(view, {("slack", "sent"): 3})


def samples(view: NodeView) -> list[tuple[str, dict[str, str], float]]:
    """Return (name without prefix, labels, value) as a strict parser reads them off the text page."""
    page = published(view).pages.text.decode()
    return [
        (sample.name.removeprefix(PREFIX), sample.labels, sample.value)
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    ]


def values(view: NodeView, name: str, **labels: str) -> list[float]:
    return [
        value
        for found, found_labels, value in samples(view)
        if found == name and labels.items() <= found_labels.items()
    ]


@pytest.mark.parametrize("view", EVERY_VIEW)
def test_both_formats_parse_and_agree(view: NodeView) -> None:
    """A strict parser of each format reads every page, and both pages hold the same samples."""
    pages = published(view).pages

    def read(families: Iterator[object]) -> set[tuple[str, tuple[tuple[str, str], ...], float]]:
        return {
            (sample.name, tuple(sorted(sample.labels.items())), sample.value)
            for family in families
            for sample in family.samples  # type: ignore[attr-defined]
        }

    text = read(text_string_to_metric_families(pages.text.decode()))
    openmetrics = read(openmetrics_parser.text_string_to_metric_families(pages.openmetrics.decode()))
    assert text == openmetrics
    assert pages.openmetrics.endswith(b"# EOF\n")


@pytest.mark.parametrize("view", EVERY_VIEW)
def test_no_series_repeats_and_none_is_missing_text(view: NodeView) -> None:
    """Every (name, label set) occurs once, no label says None or nan, no value is NaN or infinite."""
    found = samples(view)
    keys = Counter((name, tuple(sorted(labels.items()))) for name, labels, _ in found)
    assert [key for key, count in keys.items() if count > 1] == []
    assert not {text for _, labels, _ in found for text in labels.values()} & {"None", "nan", "NaN"}
    assert all(math.isfinite(value) for _, _, value in found)


@pytest.mark.parametrize("view", EVERY_VIEW)
def test_labels_and_kinds_are_the_tables(view: NodeView) -> None:
    """Every family has the kind and exactly the labels of its row; only counters end in _total."""
    for family in text_string_to_metric_families(published(view).pages.text.decode()):
        name = family.name.removeprefix(PREFIX) + ("_total" if family.type == "counter" else "")
        row = METRICS_BY_NAME[name]
        assert (family.type == "counter") == (row.kind == "counter") == row.name.endswith("_total")
        for sample in family.samples:
            assert tuple(sample.labels) == row.labels


def test_info_and_counter_naming_in_openmetrics() -> None:
    """OpenMetrics names a family without _info and _total and states the unit; text names it as its samples."""
    pages = published(views.geforce()).pages
    assert b"# TYPE gpumon_gpu info\n" in pages.openmetrics
    assert b"# TYPE gpumon_gpu_info gauge\n" in pages.text
    assert b"# TYPE gpumon_gpu_energy_joules counter\n# UNIT gpumon_gpu_energy_joules joules\n" in pages.openmetrics
    assert b"# TYPE gpumon_gpu_energy_joules_total counter\n" in pages.text
    assert b"# TYPE gpumon_job_bottleneck gauge\n" in pages.openmetrics


def test_no_base_name_collides() -> None:
    """No family's name equals another's with a reserved suffix removed."""
    bases = Counter(row.name.removesuffix("_total").removesuffix("_info") for row in METRICS)
    assert [base for base, count in bases.items() if count > 1] == []


def test_every_metric_has_help_and_is_exported_somewhere() -> None:
    """HELP is a sentence for each row, and together the views show every row of the table."""
    with_finding = dataclasses.replace(views.no_jobs(), findings=views.COMMUNICATION.findings)
    shown = {name for view in (*EVERY_VIEW, with_finding) for name, _, _ in samples(view)}
    assert {row.name for row in METRICS} - shown == {"series_dropped_total"}  # its own test below
    assert [row.name for row in METRICS if not row.help.endswith(".")] == []


@pytest.mark.tools
@pytest.mark.parametrize("view", EVERY_VIEW)
def test_promtool_is_silent(view: NodeView) -> None:
    """`promtool check metrics` finds nothing to say."""
    promtool = shutil.which("promtool")
    assert promtool, "promtool comes with the Debian package prometheus"
    done = subprocess.run(
        [promtool, "check", "metrics"], input=published(view).pages.text, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def _card_series(view: NodeView, index: int) -> int:
    node_families = {"gpu_p2p_info", "pcie_uplink_info"}
    return sum(
        labels.get("uuid") == views.uuid(index) and not name.startswith("job_") and name not in node_families
        for name, labels, _ in samples(view)
    )


def _job_series(view: NodeView, gpu_job: str) -> int:
    return sum(labels.get("gpu_job") == gpu_job for _, labels, _ in samples(view))


def test_series_budget() -> None:
    """A card costs at most 64 series (88 with NVLink, GPM, ECC), a job 55 and 2 a card, the node 100, a pair 1."""
    geforce, sxm = views.geforce(4), views.sxm(4)
    assert max(_card_series(geforce, index) for index in range(8)) <= 64
    assert max(_card_series(sxm, index) for index in range(8)) <= 88
    worst = dataclasses.replace(views.COMMUNICATION, findings=views.COMMUNICATION.findings * 9)
    everything = dataclasses.replace(
        views.job_view("c.1", (0, 1), worst), link_saturation=dict.fromkeys(("pcie", "nvlink", "uplink"), 0.5)
    )
    view = dataclasses.replace(geforce, jobs=(everything,))
    # Equal findings are one series; a job with five different ones has four more.
    assert _job_series(view, "c.1") + 4 <= 55 + 2 * 2
    node = [
        name
        for name, labels, _ in samples(geforce)
        if "gpu_job" not in labels and ("uuid" not in labels or name == "pcie_uplink_info")
    ]
    assert len(node) <= 100
    assert sum(name == "gpu_p2p_info" for name, _, _ in samples(geforce)) == 8 * 7 / 2
    assert len(samples(geforce)) < 900
    assert len(samples(sxm)) < 1050


def test_unknown_is_absent() -> None:
    """A reading that is missing, a link not judged, an allocation not known and a split not stated have no series."""
    card = views.card_view(0)
    tick = dataclasses.replace(card.tick, readings={"power_watts": math.nan, "utilization_ratio": 0.5})
    card = dataclasses.replace(card, tick=tick, counters={}, pcie=dataclasses.replace(card.pcie, downtrained=None))
    job = views.job_view("c.1", (0,), dataclasses.replace(views.COMMUNICATION, time_split=None))
    job = dataclasses.replace(job, job=dataclasses.replace(job.job, allocated=-1), power_watts=math.nan)
    names = {name for name, _, _ in samples(views.node_view((card,), (job,)))}
    assert "gpu_utilization_ratio" in names
    assert not names & {
        "gpu_power_watts",
        "gpu_memory_used_bytes",
        "gpu_energy_joules_total",
        "pcie_replays_total",
        "pcie_link_downtrained",
        "job_gpus_allocated",
        "job_time_ratio",
        "job_power_watts",
    }


def test_state_sets_are_complete() -> None:
    """Every class of a job and every throttle reason of a card is there, and exactly one class is 1."""
    view = views.geforce()
    classes = {labels["class"]: value for name, labels, value in samples(view) if name == "job_bottleneck"}
    assert classes == {job_class.value: float(job_class.value == "communication") for job_class in JobClass}
    reasons = {
        labels["reason"]: value
        for name, labels, value in samples(view)
        if name == "gpu_throttled" and labels["gpu"] == "3"
    }
    assert reasons == {
        "sw_power_cap": 1.0,
        "hw_slowdown": 0.0,
        "sw_thermal": 0.0,
        "hw_thermal": 0.0,
        "hw_power_brake": 0.0,
        "setting": 0.0,
        "unknown": 0.0,
    }


@pytest.mark.parametrize(
    ("active", "shown"),
    [
        (frozenset(), set()),
        (frozenset({"idle"}), set()),
        (frozenset({"applications_clocks"}), {"setting"}),
        (frozenset({"display_clocks", "sw_power_cap"}), {"setting", "sw_power_cap"}),
        (frozenset({"hw_slowdown", "hw_thermal"}), {"hw_slowdown", "hw_thermal"}),
        (frozenset({"unknown"}), {"unknown"}),
    ],
)
def test_throttle_reasons(active: frozenset[str], shown: set[str]) -> None:
    """Each hard reason has its state, harmless settings share one, and a bit nobody knows is unknown."""
    card = views.card_view(0)
    card = dataclasses.replace(card, tick=dataclasses.replace(card.tick, throttle_reasons=active))
    found = {
        labels["reason"]
        for name, labels, value in samples(views.node_view((card,), ()))
        if name == "gpu_throttled" and value
    }
    assert found == shown


def test_ended_job_keeps_counters_for_five_minutes() -> None:
    """An ended job shows job_info and its counters alone, and after five minutes nothing."""
    view = views.geforce()
    ended = dataclasses.replace(view.jobs[0], ended_s=view.mono_s - 299.0)
    names = {name for name, labels, _ in samples(dataclasses.replace(view, jobs=(ended,))) if "gpu_job" in labels}
    assert names == {
        "job_info",
        "job_bottleneck_seconds_total",
        "job_time_seconds_total",
        "job_energy_joules_total",
    }
    gone = dataclasses.replace(view.jobs[0], ended_s=view.mono_s - 301.0)
    assert not [name for name, _, _ in samples(dataclasses.replace(view, jobs=(gone,))) if name.startswith("job_")]


def test_lost_card_keeps_its_name_and_nothing_else() -> None:
    """A lost card has gpu_up 0, who it is, when it last answered and its Xids; the node counts it; its job keeps it."""
    view = views.lost_card()
    of_card = {
        name: value
        for name, labels, value in samples(view)
        if labels.get("uuid") == views.uuid(5) and not name.startswith(("job_", "pcie_uplink", "gpu_p2p"))
    }
    assert of_card == {
        "gpu_info": 1.0,
        "gpu_up": 0.0,
        "gpu_last_sample_timestamp_seconds": views.WALL_S - 30.0,
        "gpu_xid_errors_total": 1.0,
        "gpu_xid_last_timestamp_seconds": views.WALL_S - 30.0,
    }
    assert values(view, "gpu_info", pci_bus_id="0000:60:00.0", gpu="5") == [1.0]
    assert values(view, "node_gpus", state="up") == [7.0]
    assert values(view, "node_gpus", state="lost") == [1.0]
    assert values(view, "node_gpus_expected") == [8.0]
    assert values(view, "job_gpus_lost") == [1.0]
    assert values(view, "job_gpu_info", uuid=views.uuid(5)) == [1.0]


def test_without_driver_no_card_is_claimed() -> None:
    """Without NVML there are nvml_up 0 and the PCI devices, and no card is called up or lost."""
    view = views.no_driver()
    assert values(view, "nvml_up") == [0.0]
    assert values(view, "node_pci_gpus", driver="none") == [1.0]
    assert values(view, "node_gpus") == []
    released = dataclasses.replace(views.geforce(), nvml_up=False, nvml_fault="released", jobs=())
    assert not [name for name, _, _ in samples(released) if name.startswith(("gpu_up", "gpu_power", "node_gpus_up"))]


def test_mig_board_once_and_memory_per_slice() -> None:
    """Power and temperature of a board appear once, memory for each slice, and no utilization is made up."""
    view = views.mig()
    assert sum(values(view, "gpu_power_watts")) == 400.0
    assert values(view, "gpu_temperature_celsius", gpu="0", sensor="gpu") == [60.0]
    assert values(view, "gpu_utilization_ratio", gpu="0") == []
    assert values(view, "gpu_mig_memory_used_bytes", gpu="0") == [1 * views.GIB, 9 * views.GIB, 20 * views.GIB]
    assert values(view, "gpu_memory_used_bytes", mig_uuid="") == []
    assert values(view, "job_gpus") == [1.0]
    assert len(values(view, "job_gpu_info")) == 2


def test_hostile_names_come_back_as_documented() -> None:
    """A strict parser reads each hostile pod name back as `shown_text` gives it, and no line is added."""
    view = views.hostile()
    pods = {labels["gpu_job"]: labels["pod"] for name, labels, _ in samples(view) if name == "job_info"}
    assert list(pods.values()) == [shown_text(name) for name in views.HOSTILE_NAMES]
    plain = dataclasses.replace(
        view, jobs=tuple(views.job_view(job.job.gpu_job, (number % 2,)) for number, job in enumerate(view.jobs))
    )
    assert len(samples(view)) == len(samples(plain))


def test_names_of_the_case_file(shared_dir: Path) -> None:
    """Each name of the escaping case is read back unchanged by a strict parser."""
    names = json.loads((shared_dir / "cases" / "label-escape.json").read_text("utf-8"))["comms"]
    jobs = []
    for number, name in enumerate(names):
        view = views.job_view(f"c.{number}", (0,))
        jobs.append(dataclasses.replace(view, job=dataclasses.replace(view.job, pod=name)))
    found = samples(views.node_view((views.card_view(0),), tuple(jobs)))
    assert [labels["pod"] for name, labels, _ in found if name == "job_info"] == names


def test_shown_text() -> None:
    """Names short and printable stay as they are; long ones are cut, unprintable characters replaced."""
    assert shown_text('a\n"b"\\\t中') == 'a\n"b"\\\t中'
    assert shown_text("\x00\x1b\udcff\x85") == "����"
    assert shown_text("x" * 500) == "x" * (MAX_CHARACTERS - 1) + "…"


def test_lists_are_capped_and_counted() -> None:
    """Jobs, Xids, findings and sources beyond their caps are left out, counted, and the count goes on."""
    view = views.crowded()
    ended = dataclasses.replace(view.jobs[0], ended_s=view.mono_s - 10.0)
    card = dataclasses.replace(view.cards[0], xids={number: (1, float(number)) for number in range(40)})
    view = dataclasses.replace(view, cards=(card, *view.cards[1:]), jobs=(ended, *view.jobs[1:]))
    publisher = Publisher(max_jobs=19)
    first = publisher.publish(view, {}).pages.text.decode()
    second = publisher.publish(view, {}).pages.text.decode()
    assert 'gpumon_series_dropped_total{reason="xids"} 64.0\n' in first
    assert 'gpumon_series_dropped_total{reason="xids"} 128.0\n' in second
    assert f'gpu_job="{ended.job.gpu_job}"' not in first  # the ended one goes first: job_info, 8 + 7 counters, energy
    assert 'gpumon_series_dropped_total{reason="jobs"} 17.0\n' in first


def test_repeated_label_sets_are_dropped_not_served() -> None:
    """Two cards that claim one identity give one series each and a count, not a page that is refused."""
    card = views.card_view(0)
    view = views.node_view((card, card), ())
    page = published(view).pages.text.decode()
    assert page.count("gpumon_gpu_up{") == 1
    publisher = Publisher(max_jobs=256)
    publisher.publish(view, {})
    assert 'reason="duplicates"' in publisher.publish(view, {}).pages.text.decode()


def test_flood_of_names_leaves_nothing_behind() -> None:
    """After 2,000 short-lived jobs the publisher holds what one page needs, and the page is as before."""
    publisher = Publisher(max_jobs=64)
    calm = views.no_jobs()
    before = publisher.publish(calm, {}).pages.text
    for start in range(0, 2000, 100):
        jobs = tuple(views.job_view(f"c.{number:012x}", (0,)) for number in range(start, start + 100))
        page = publisher.publish(dataclasses.replace(calm, jobs=jobs), {}).pages.text
        assert page.count(b"gpumon_job_info{") == 64
    after = publisher.publish(calm, {}).pages.text
    kept = sum(map(len, publisher._renderer._starts.values()))
    assert kept == sum(1 for line in after.splitlines() if not line.startswith(b"#"))
    assert [line for line in after.splitlines() if b"dropped" not in line] == before.splitlines()


def test_numbers_are_plain_whatever_their_type() -> None:
    """Values of numpy's types are written as numbers, not as their representation in Python."""
    import numpy as np

    card = dataclasses.replace(views.card_view(0), busy_seconds_total=np.float64(3.5))
    assert values(views.node_view((card,), ()), "gpu_busy_seconds_total") == [3.5]


def test_time_counters_are_whole_or_absent() -> None:
    """A job whose split was stated once has every state's counter; one never stated has none."""
    view = views.geforce()
    assert len(values(view, "job_time_seconds_total")) == len(TIME_STATES)
    never = dataclasses.replace(view.jobs[0], time_seconds_total={})
    assert values(dataclasses.replace(view, jobs=(never,)), "job_time_seconds_total") == []
