"""Errors of the driver: whose they are, and who must not hear of them (xid-severity, rule-info-overlap)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.rules.unit import CARD, JOB, NODE, Unit, run

pytestmark = pytest.mark.tools

XID_JOB = {"alertname": "GpumonJobXid", "severity": "warning", "audience": "customer", **NODE, **JOB}
TOTAL = 160  # scrapes of a test
Labels: TypeAlias = Mapping[str, str]
OTHER = {"gpu_job": "slurm:81.0", "tenant": "zeta"}


def held(
    unit: Unit, job: dict[str, str], first: int, last: int, *, start_s: float, mig_uuid: str = "", node: Labels = NODE
) -> None:
    """Let a job hold the card from one scrape to another."""
    card = {**node, **job, **CARD, "mig_uuid": mig_uuid}
    there = [None] * first + [1.0] * (last - first) + [None] * (TOTAL - last)
    unit.sample("gpumon_job_gpu_info", there, card)
    unit.sample("gpumon_job_start_time_seconds", [None if one is None else start_s for one in there], {**node, **job})


def error(unit: Unit, xid: int, at_minute: float, node: Labels = NODE) -> None:
    """Let the driver report a code at a time."""
    before = round(at_minute * 4)
    stamps = [None] * before + [at_minute * 60.0] * (TOTAL - before)
    unit.sample("gpumon_gpu_xid_last_timestamp_seconds", stamps, {**node, **CARD, "xid": str(xid)})


def told(code: dict[str, object], node: Labels) -> dict[str, str]:
    """Return the alert that a code of the case file must raise."""
    audience = str(code["audience"])
    card = {**node, **CARD, "audience": "operator", "xid": str(code["code"])}
    if audience.startswith("customer"):
        return {**XID_JOB, **node}
    if "hardware" in audience:
        return {"alertname": "GpumonXidHardware", "severity": "critical", **card}
    if "unknown" in audience:
        return {"alertname": "GpumonXidUnknown", "severity": "warning", **card}
    return {"alertname": "GpumonXidHardware", "severity": "info", **card}


def test_every_code_reaches_its_audience(promtool: str, tmp_path: Path, shared_dir: Path) -> None:
    """Errors of a program go to the tenant whose job held the card, others to the operator, as the case file says."""
    unit, expected = Unit(), []
    for code in json.loads((shared_dir / "cases" / "xid-severity.json").read_text("utf-8"))["cases"]:
        node = {"instance": f"xid-{code['code']}"}
        held(unit, JOB, 0, TOTAL, start_s=-60.0, node=node)
        error(unit, code["code"], 10, node)
        expected.append(told(code, node))
    unit.firing(9)
    unit.firing(12, *expected)
    run(promtool, tmp_path, unit)


def test_application_error_resolves(promtool: str, tmp_path: Path) -> None:
    """Ten minutes after the last one, the tenant is told that it is over, though the series stays."""
    unit = Unit()
    held(unit, JOB, 0, 160, start_s=-60.0)
    error(unit, 31, 10)
    unit.firing(19, XID_JOB)
    unit.firing(20.5)
    run(promtool, tmp_path, unit)


def test_hardware_error_outlives_a_restart_of_gpumon(promtool: str, tmp_path: Path) -> None:
    """The card stays marked when gpumon starts anew without its memory of the error."""
    unit = Unit()
    stamps = [None] * 40 + [600.0] * 8 + [None] * 112
    unit.sample("gpumon_gpu_xid_last_timestamp_seconds", stamps, {**NODE, **CARD, "xid": "79"})
    told = {"alertname": "GpumonXidHardware", "severity": "critical", "audience": "operator", "xid": "79"}
    unit.firing(39, {**told, **NODE, **CARD})
    run(promtool, tmp_path, unit)


def test_the_error_of_a_lost_card_is_told_once(promtool: str, tmp_path: Path) -> None:
    """A card that fell off the bus has one alert, also after its return; a card that only blinked has the error's."""
    lost, blink = Unit(), Unit()
    xid = {"alertname": "GpumonXidHardware", "severity": "critical", "audience": "operator", "xid": "79"}
    gone = {"alertname": "GpumonGpuLost", "severity": "critical", "audience": "operator", **NODE, **CARD}
    for unit, up in ((lost, [1.0] * 40 + [0.0] * 40 + [1.0] * 80), (blink, [1.0] * 40 + [0.0] * 4 + [1.0] * 116)):
        unit.sample("gpumon_gpu_up", up, {**NODE, **CARD})
        error(unit, 79, 10)
    lost.firing(10.5)
    lost.firing(13.5, gone)
    lost.firing(25, gone)
    lost.firing(38)
    blink.firing(10.5)
    blink.firing(13.5, {**xid, **NODE, **CARD})
    run(promtool, tmp_path, lost, blink)


def test_a_crashed_job_is_still_told(promtool: str, tmp_path: Path) -> None:
    """The error usually ends the job within the second; the tenant hears of it all the same."""
    unit = Unit()
    held(unit, JOB, 0, 40, start_s=-60.0)
    error(unit, 13, 10)
    unit.firing(10.5, XID_JOB)
    run(promtool, tmp_path, unit)


def test_the_next_job_on_the_card_is_not_told(promtool: str, tmp_path: Path) -> None:
    """A tenant that gets the card after the error never hears of it."""
    unit = Unit()
    held(unit, JOB, 0, 40, start_s=-60.0)
    held(unit, OTHER, 44, 160, start_s=660.0)
    error(unit, 13, 10)
    for minute in range(11, 40):
        unit.value(minute, f'count(ALERTS{{tenant="{OTHER["tenant"]}"}})')
    run(promtool, tmp_path, unit)


def test_a_shared_card_tells_no_tenant(promtool: str, tmp_path: Path) -> None:
    """Where two jobs hold a card, or slices of it, nobody knows whose program it was; a rule still evaluates."""
    whole, sliced, one_job = Unit(), Unit(), Unit()
    for unit, slices in ((whole, ("", "")), (sliced, ("MIG-1", "MIG-2"))):
        held(unit, JOB, 0, 160, start_s=-60.0, mig_uuid=slices[0])
        held(unit, OTHER, 0, 160, start_s=-60.0, mig_uuid=slices[1])
        error(unit, 31, 10)
        unit.firing(12)
    held(one_job, JOB, 0, 160, start_s=-60.0, mig_uuid="MIG-1")
    held(one_job, JOB, 0, 160, start_s=-60.0, mig_uuid="MIG-2")
    error(one_job, 31, 10)
    one_job.firing(12, XID_JOB)
    run(promtool, tmp_path, whole, sliced, one_job)


def test_overlapping_descriptions(promtool: str, tmp_path: Path) -> None:
    """A card handed from x to y with five minutes of overlap, through an upgrade, names the current tenant only."""
    unit = Unit(interval_s=60)
    x, y = ({"gpu_job": f"container:{name}", "tenant": name} for name in "xy")
    old, new = {"instance": "old"}, {"instance": "new"}
    card = {"gpu": "0", "uuid": "a", "mig_uuid": ""}
    for name, value in (("gpumon_job_gpu_info", "1"), ("gpumon_job_start_time_seconds", "-60")):
        extra = card if name.endswith("info") else {}
        unit.add(name, f"{value}x30", {**old, **x, **extra})
        unit.add(name, f"_x25 {value}x35", {**old, **y, **extra})
        unit.add(name, f"_x28 {value}x32", {**new, **y, **extra})
    for labels, values in ((old, "0+60x32"), (new, "_x28 1680+60x32")):
        unit.add("gpumon_gpu_xid_last_timestamp_seconds", values, {**labels, "gpu": "0", "uuid": "a", "xid": "31"})
    told = {"alertname": "GpumonJobXid", "severity": "warning", "audience": "customer"}
    unit.firing(20, {**told, **old, **x})
    unit.firing(45, {**told, **new, **y})
    run(promtool, tmp_path, unit)
