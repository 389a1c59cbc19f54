"""What the tenant of a job is told: each alert fires, stays silent on the near case, and outlives missing scrapes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.rules.unit import CARD, CLASSES, JOB, NODE, Unit, run

pytestmark = pytest.mark.tools

CUSTOMER = {"audience": "customer", **NODE, **JOB}
BOUND = {"alertname": "GpumonJobCommunicationBound", "severity": "warning", "class": "communication", **CUSTOMER}
OTHER_JOB = {"gpu_job": "slurm:81.0", "tenant": "zeta"}


def spent(unit: Unit, classes: Iterable[str | None], labels: dict[str, str]) -> None:
    """Add a job's verdict and its time by class, one entry a scrape of 15 s.

    None is a missed scrape; "restart" is one too, after which gpumon's counters begin anew; "ended" is one after the
    job's end, where its counters stand still and its verdict is gone.
    """
    totals = dict.fromkeys(CLASSES, 0.0)
    counters: dict[str, list[float | None]] = {name: [] for name in CLASSES}
    states: dict[str, list[float | None]] = {name: [] for name in CLASSES}
    for job_class in classes:
        if job_class == "restart":
            totals = dict.fromkeys(CLASSES, 0.0)
        elif job_class in totals:
            totals[job_class] += 15.0
        seen = job_class in {*CLASSES, "ended"}
        for name in CLASSES:
            counters[name].append(totals[name] if seen else None)
            states[name].append(float(name == job_class) if job_class in totals else None)
    for name in CLASSES:
        key = {**NODE, **labels, "class": name}
        unit.sample("gpumon_job_bottleneck_seconds_total", counters[name], key)
        unit.sample("gpumon_job_bottleneck", states[name], key)


def scrapes(*parts: tuple[str | None, float]) -> list[str | None]:
    """Return classes by scrape every 15 s from (class, minutes)."""
    return [job_class for job_class, minutes in parts for _ in range(round(minutes * 4))]


def test_class_alert_fires_and_resolves(promtool: str, tmp_path: Path) -> None:
    """A job bound by communication for 12 of 20 minutes is told, and 20 minutes after it is cured it is no more."""
    unit = Unit()
    spent(unit, scrapes(("unknown", 1), ("communication", 30), ("compute", 40)), JOB)
    unit.firing(12)
    unit.firing(14, BOUND)
    unit.firing(35, BOUND)
    unit.firing(52)
    run(promtool, tmp_path, unit)


def test_class_alert_is_silent_below_its_share(promtool: str, tmp_path: Path) -> None:
    """Half of the time is not enough, however long."""
    unit = Unit()
    spent(unit, scrapes(*[("communication", 5), ("compute", 5)] * 12), JOB)
    for minute in range(10, 120, 10):
        unit.firing(minute)
    run(promtool, tmp_path, unit)


def test_class_alert_outlives_missed_scrapes_and_a_restart(promtool: str, tmp_path: Path) -> None:
    """Six scrapes missed of every forty, and counters that begin anew with gpumon, neither end nor repeat it."""
    unit = Unit()
    spent(unit, scrapes(*[("communication", 8.5), (None, 1.5)] * 6), JOB)
    for minute in range(16, 60, 2):
        unit.firing(minute, BOUND)
    restarted = Unit()
    spent(restarted, scrapes(("communication", 25), ("restart", 1), ("communication", 25)), JOB)
    for minute in range(15, 50):
        restarted.firing(minute, BOUND)
    run(promtool, tmp_path, unit, restarted)


def test_class_alert_does_not_flap_at_its_border(promtool: str, tmp_path: Path) -> None:
    """A share that wavers around the border is one alert."""
    unit = Unit()
    steps = [("communication", 13.0), *[("compute", 3.0), ("communication", 5.0)] * 12]
    spent(unit, scrapes(*steps), JOB)
    for minute in range(20, 105):
        unit.firing(minute, BOUND)
    run(promtool, tmp_path, unit)


def test_an_ended_job_is_neither_told_nor_kept(promtool: str, tmp_path: Path) -> None:
    """Counters that stand still for five minutes after the end raise nothing, and what was raised ends."""
    ended_early, ended_late = Unit(), Unit()
    for unit, minutes in ((ended_early, 11), (ended_late, 20)):
        spent(unit, scrapes(("communication", minutes), ("ended", 5), (None, 30)), JOB)
    for minute in range(5, 40, 3):
        ended_early.firing(minute)
    ended_late.firing(19, BOUND)
    ended_late.firing(46)
    run(promtool, tmp_path, ended_early, ended_late)


@pytest.mark.parametrize(
    ("name", "job_class", "severity", "onset_minutes"),
    [
        ("GpumonJobHostBound", "host", "warning", 18.5),
        ("GpumonJobIdleAllocation", "idle", "warning", 57.5),
        ("GpumonJobHung", "hung", "critical", 2.5),
    ],
)
def test_each_class_has_its_window(
    promtool: str, tmp_path: Path, *, name: str, job_class: str, severity: str, onset_minutes: float
) -> None:
    """Each class is told after its own time, and not a minute earlier."""
    unit = Unit()
    spent(unit, scrapes((job_class, 70)), JOB)
    unit.firing(onset_minutes - 1)
    unit.firing(onset_minutes + 1, {"alertname": name, "severity": severity, "class": job_class, **CUSTOMER})
    run(promtool, tmp_path, unit)


def test_renamed_tenant_reaches_nobody(promtool: str, tmp_path: Path) -> None:
    """Where a target label took the place of `tenant`, customers are not told and the operator is."""
    unit = Unit()
    renamed = {"gpu_job": JOB["gpu_job"], "tenant": "infra", "exported_tenant": "acme"}
    spent(unit, scrapes(("communication", 40)), renamed)
    unit.add("gpumon_job_gpus", "4x160", {**NODE, **renamed})
    unit.add("gpumon_job_gpus_lost", "1x160", {**NODE, **renamed})
    told = {"alertname": "GpumonLabelsRenamed", "severity": "warning", "audience": "operator", **NODE}
    unit.firing(30, told)
    run(promtool, tmp_path, unit)


def test_slowdown(promtool: str, tmp_path: Path) -> None:
    """Ten minutes of a proved slowdown are told; one that comes and goes is not."""
    sure, unsure = Unit(), Unit()
    labels = {**NODE, **JOB}
    sure.sample("gpumon_job_add_gpu_slowdown", [0.0] * 20 + [1.0] * 100 + [0.0] * 160, labels)
    told = {"alertname": "GpumonJobAddGpuSlowdown", "severity": "warning", "class": "communication", **CUSTOMER}
    sure.firing(14)
    sure.firing(22, told)
    sure.firing(50, told)
    sure.firing(60)
    unsure.sample("gpumon_job_add_gpu_slowdown", [1.0, 1.0, 0.0] * 80, labels)
    for minute in range(5, 60, 5):
        unsure.firing(minute)
    run(promtool, tmp_path, sure, unsure)


STRAGGLER = {"alertname": "GpumonJobStraggler", "severity": "warning", **NODE, **JOB, **CARD}


@pytest.mark.parametrize(
    ("series", "values", "audience"),
    [
        ("", "", "customer"),
        ("gpumon_pcie_link_downtrained", "0x200", "customer"),
        ("gpumon_pcie_link_downtrained", "1x200", "operator"),
        ("gpumon_gpu_throttle_seconds_total", "0+0.3x200", "customer"),
        ("gpumon_gpu_throttle_seconds_total", "0+6x200", "operator"),
    ],
)
def test_straggler(promtool: str, tmp_path: Path, series: str, values: str, audience: str) -> None:
    """A card that is waited for is told to the tenant, or to the operator where heat, brake or link are to blame."""
    unit = Unit()
    unit.add("gpumon_job_straggler", "1x200", {**NODE, **JOB, **CARD})
    unit.add("gpumon_job_straggler", "0x200", {**NODE, **JOB, "gpu": "4", "uuid": "GPU-4"})
    if series:
        reason = {"reason": "hw_thermal"} if "throttle" in series else {}
        unit.add(series, values, {**NODE, **CARD, **reason})
    unit.firing(9, select='alertname="GpumonJobStraggler"')
    unit.firing(20, {**STRAGGLER, "audience": audience}, select='alertname="GpumonJobStraggler"')
    run(promtool, tmp_path, unit)


def test_finding(promtool: str, tmp_path: Path) -> None:
    """A finding is told after ten minutes, on the card's other job not at all, and not when it only flickers."""
    unit = Unit()
    finding = {"finding": "tp_over_pcie", "severity": "warning", "audience": "customer"}
    for job in (JOB, OTHER_JOB):
        unit.sample("gpumon_job_gpus", [4.0] * 240, {**NODE, **job})
    unit.sample("gpumon_job_finding", [None] * 20 + [1.0] * 80 + [None] * 140, {**NODE, **JOB, **finding})
    flicker = [1.0, None, None, None] * 60
    unit.sample("gpumon_job_finding", flicker, {**NODE, **OTHER_JOB, **finding, "finding": "no_accumulation"})
    told = {"alertname": "GpumonJobMisconfigured", "class": "communication", **finding, **NODE, **JOB}
    unit.firing(14)
    unit.firing(20, told)
    unit.firing(40, told)
    unit.firing(54)
    run(promtool, tmp_path, unit)


def test_finding_outlives_missed_scrapes(promtool: str, tmp_path: Path) -> None:
    """Scrapes that are missed together with the job's other series do not end a finding."""
    unit = Unit()
    there: list[float | None] = [*[1.0] * 34, *[None] * 6] * 6
    unit.sample("gpumon_job_gpus", there, {**NODE, **JOB})
    finding = {"finding": "swapping", "severity": "warning", "audience": "customer"}
    unit.sample("gpumon_job_finding", there, {**NODE, **JOB, **finding})
    told = {"alertname": "GpumonJobMisconfigured", "class": "host", **finding, **NODE, **JOB}
    for minute in range(13, 60):
        unit.firing(minute, told)
    run(promtool, tmp_path, unit)


def test_a_consequence_does_not_outlast_its_reason(promtool: str, tmp_path: Path) -> None:
    """After a cure the alert of the class ends before the finding that mutes it, so that nobody is told of it then."""
    unit = Unit()
    spent(unit, scrapes(("communication", 40), ("compute", 60)), JOB)
    unit.sample("gpumon_job_gpus", [4.0] * 400, {**NODE, **JOB})
    finding = {"finding": "tp_over_pcie", "severity": "warning", "audience": "customer"}
    unit.sample("gpumon_job_finding", [1.0] * 160 + [None] * 240, {**NODE, **JOB, **finding})
    told = {"alertname": "GpumonJobMisconfigured", "class": "communication", **finding, **NODE, **JOB}
    unit.firing(11, told)
    for minute in (14, 30, 45):
        unit.firing(minute, BOUND, told)
    for minute in (54, 60, 66):
        unit.firing(minute, told)
    unit.firing(69)
    run(promtool, tmp_path, unit)


def test_lost_card_of_a_job(promtool: str, tmp_path: Path) -> None:
    """A job with a lost card is told within three minutes; a card that answers again at once is not mentioned."""
    unit, blink = Unit(), Unit()
    unit.sample("gpumon_job_gpus_lost", [0.0] * 20 + [1.0] * 60, {**NODE, **JOB})
    told = {"alertname": "GpumonJobGpuLost", "severity": "critical", **CUSTOMER}
    unit.firing(5)
    unit.firing(8.5, told)
    unit.firing(19, told)
    blink.sample("gpumon_job_gpus_lost", [0.0] * 20 + [1.0] * 4 + [0.0] * 40, {**NODE, **JOB})
    for minute in range(4, 16):
        blink.firing(minute)
    run(promtool, tmp_path, unit, blink)
