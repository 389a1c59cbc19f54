"""What the operator is told of cards, links, node and gpumon: fires, is silent nearby, outlives missing scrapes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.rules.unit import CARD, JOB, NODE, Unit, run

pytestmark = pytest.mark.tools

OPERATOR = {"audience": "operator", **NODE}
ON_CARD = {**NODE, **CARD}


def told(name: str, severity: str, **labels: str) -> dict[str, str]:
    """Return an alert for the operator."""
    return {"alertname": name, "severity": severity, **OPERATOR, **labels}


def missing(values: list[float], every: int = 40, missed: int = 6) -> list[float | None]:
    """Return the samples with the last `missed` of every `every` scrapes left out."""
    return [None if n % every >= every - missed else value for n, value in enumerate(values)]


def test_lost_card(promtool: str, tmp_path: Path) -> None:
    """A lost card is told within three minutes, once, and not for a call that hung for a minute."""
    lost, hung = Unit(), Unit()
    lost.sample("gpumon_gpu_up", missing([1.0] * 20 + [0.0] * 100 + [1.0] * 80), ON_CARD)
    lost.firing(5)
    for minute in range(9, 30):
        lost.firing(minute, told("GpumonGpuLost", "critical", **CARD))
    lost.firing(42)
    hung.sample("gpumon_gpu_up", [1.0] * 20 + [0.0] * 4 + [1.0] * 60, ON_CARD)
    for minute in range(5, 20):
        hung.firing(minute)
    run(promtool, tmp_path, lost, hung)


def test_missing_card(promtool: str, tmp_path: Path) -> None:
    """Fewer cards than expected are told; cards handed to virtual machines, or a driver that restarts, are not."""
    unit, handed_over, restarted = Unit(), Unit(), Unit()
    for each, up, guests in ((unit, "8x20 7x100", "0x120"), (handed_over, "8x20 6x100", "0x20 2x100")):
        each.add("gpumon_node_gpus_expected", "8x121", NODE)
        each.add("gpumon_node_gpus", up, {**NODE, "state": "up"})
        each.add("gpumon_node_gpus", "0x121", {**NODE, "state": "lost"})
        each.add("gpumon_node_pci_gpus", guests, {**NODE, "driver": "vfio-pci"})
    unit.firing(14)
    unit.firing(25, told("GpumonGpuMissing", "critical"))
    handed_over.firing(25)
    restarted.sample("gpumon_node_gpus_expected", [8.0] * 120, NODE)
    restarted.sample("gpumon_node_gpus", [8.0] * 20 + [None] * 8 + [8.0] * 92, {**NODE, "state": "up"})
    restarted.sample("gpumon_node_pci_gpus", [0.0] * 120, {**NODE, "driver": "vfio-pci"})
    for minute in range(5, 28):
        restarted.firing(minute)
    run(promtool, tmp_path, unit, handed_over, restarted)


def test_throttle_reasons(promtool: str, tmp_path: Path, shared_dir: Path) -> None:
    """Only what the case file calls a fault is told, whichever bit of the mask says it."""
    alerts = {"hw_thermal": "GpumonThermalThrottle", "hw_slowdown": "GpumonThermalThrottle"}
    alerts["hw_power_brake"] = "GpumonPowerBrake"
    timed = ("sw_power_cap", "sw_thermal", "hw_thermal", "hw_power_brake")
    unit, expected = Unit(), []
    case = json.loads((shared_dir / "cases" / "throttle-bits.json").read_text("utf-8"))
    for row in case["cases"]:
        node = {"instance": str(row["mask"])}
        set_reasons = {name for name, bit in case["bits"].items() if row["mask"] & bit}
        for reason in ("hw_slowdown", "setting", "unknown", *timed):
            unit.add("gpumon_gpu_throttled", f"{int(reason in set_reasons)}x120", {**node, **CARD, "reason": reason})
        for reason in timed:
            step = 15 if reason in set_reasons else 0
            unit.add("gpumon_gpu_throttle_seconds_total", f"7+{step}x120", {**node, **CARD, "reason": reason})
        faults = ["sw_thermal"] if row["mask"] == case["bits"]["sw_thermal"] else row["fault"]
        names = {alerts.get(fault, "GpumonThermalThrottle") for fault in faults}
        expected += [told(name, "warning", **CARD) | node for name in names]
    unit.firing(20, *expected)
    run(promtool, tmp_path, unit)


def test_short_software_thermal_is_normal(promtool: str, tmp_path: Path) -> None:
    """The driver's soft limit for two minutes in fifteen is no fault; nor is a card at its power limit."""
    unit = Unit()
    total, values = 0.0, []
    for n in range(240):
        total += 15.0 if n % 60 < 8 else 0.0
        values.append(total)
    unit.sample("gpumon_gpu_throttle_seconds_total", values, {**ON_CARD, "reason": "sw_thermal"})
    for minute in range(5, 60, 5):
        unit.firing(minute)
    run(promtool, tmp_path, unit)


def test_idle_link_generation_is_normal(promtool: str, tmp_path: Path) -> None:
    """An idle card at generation 1 for an hour raises nothing (cases/false-link-idle.json)."""
    unit = Unit(interval_s=60)
    unit.add("gpumon_pcie_link_generation", "1x60 4x10", {**ON_CARD, "state": "current"})
    unit.add("gpumon_pcie_link_generation", "4x70", {**ON_CARD, "state": "max"})
    unit.add("gpumon_pcie_link_width_lanes", "16x70", {**ON_CARD, "state": "current"})
    unit.add("gpumon_pcie_link_downtrained", "0x70", ON_CARD)
    unit.add("gpumon_gpu_utilization_ratio", "0x60 0.95x10", ON_CARD)
    for minute in range(0, 70, 5):
        unit.firing(minute)
    run(promtool, tmp_path, unit)


def test_downtrained_link(promtool: str, tmp_path: Path) -> None:
    """A narrow link is told once, although a low generation is only seen while the card works."""
    unit, short = Unit(), Unit()
    unit.sample("gpumon_pcie_link_downtrained", [1.0] * 120 + [0.0] * 120 + [1.0] * 120, ON_CARD)
    for minute in range(12, 90, 2):
        unit.firing(minute, told("GpumonLinkDowntrained", "warning", **CARD))
    short.sample("gpumon_pcie_link_downtrained", ([1.0] * 20 + [0.0] * 40) * 4, ON_CARD)
    for minute in range(5, 60, 5):
        short.firing(minute)
    run(promtool, tmp_path, unit, short)


def test_saturated_links(promtool: str, tmp_path: Path) -> None:
    """A link that is full for more than half of the observed time is told, whatever share was observed."""
    full, half, uplink = Unit(), Unit(), Unit()
    for unit, step in ((full, 0.5), (half, 0.2)):
        unit.add("gpumon_pcie_saturated_seconds_total", f"0+{step}x120", {**ON_CARD, "direction": "rx"})
        unit.add("gpumon_pcie_observed_seconds_total", "0+0.6x120", {**ON_CARD, "direction": "rx"})
    full.firing(9)
    full.firing(12, told("GpumonPcieSaturated", "info", **CARD))
    half.firing(25)
    labels = {**NODE, "uplink": "0000:40:01.0"}
    uplink.add("gpumon_pcie_uplink_saturation_ratio", "0.9x120", {**labels, "direction": "rx"})
    uplink.add("gpumon_pcie_uplink_saturation_ratio", "0.5x120", {**labels, "direction": "tx"})
    uplink.firing(12, told("GpumonUplinkSaturated", "info", uplink="0000:40:01.0"))
    run(promtool, tmp_path, full, half, uplink)


def test_link_errors(promtool: str, tmp_path: Path) -> None:
    """An uncorrected error or a stream of replays is told; a few corrected ones are not."""
    fatal, replays, few = Unit(), Unit(), Unit()
    fatal.add("gpumon_pcie_errors_total", "0x40 1x80", {**ON_CARD, "kind": "nonfatal"})
    fatal.firing(9)
    fatal.firing(12, told("GpumonPcieErrors", "warning", **CARD))
    replays.add("gpumon_pcie_replays_total", "0+3x200", ON_CARD)
    replays.firing(40, told("GpumonPcieErrors", "warning", **CARD))
    few.add("gpumon_pcie_replays_total", "0+1x200", ON_CARD)
    few.add("gpumon_pcie_errors_total", "0+4x200", {**ON_CARD, "kind": "correctable"})
    few.firing(40)
    run(promtool, tmp_path, fatal, replays, few)


def test_nvlink(promtool: str, tmp_path: Path) -> None:
    """Links that a card has had and lost are told; links it never had are not."""
    down, never = Unit(interval_s=60), Unit(interval_s=60)
    down.add("gpumon_nvlink_links", "18x60 17x60", {**ON_CARD, "state": "active"})
    down.add("gpumon_nvlink_links", "0x60 1x60", {**ON_CARD, "state": "inactive"})
    down.firing(59)
    down.firing(75, told("GpumonNvlinkDown", "warning", **CARD))
    never.add("gpumon_nvlink_links", "4x120", {**ON_CARD, "state": "active"})
    never.add("gpumon_nvlink_links", "8x120", {**ON_CARD, "state": "inactive"})
    never.firing(75)
    run(promtool, tmp_path, down, never)


def test_memory_errors(promtool: str, tmp_path: Path) -> None:
    """Uncorrected errors are told, also those that were there before gpumon; corrected ones are not."""
    new, old, corrected, rows = Unit(), Unit(), Unit(), Unit()
    new.add("gpumon_gpu_ecc_errors_total", "0x40 2x80", {**ON_CARD, "kind": "uncorrected"})
    new.firing(9)
    old.add("gpumon_gpu_ecc_errors_total", "3x120", {**ON_CARD, "kind": "uncorrected"})
    for unit in (new, old):
        unit.firing(15, told("GpumonEccUncorrected", "critical", **CARD))
    corrected.add("gpumon_gpu_ecc_errors_total", "0+5x120", {**ON_CARD, "kind": "corrected"})
    corrected.add("gpumon_gpu_ecc_errors_total", "0x120", {**ON_CARD, "kind": "uncorrected"})
    corrected.add("gpumon_gpu_row_remap_pending", "0x120", ON_CARD)
    corrected.add("gpumon_gpu_row_remap_failed", "0x120", ON_CARD)
    corrected.firing(15)
    rows.add("gpumon_gpu_row_remap_pending", "1x120", ON_CARD)
    rows.add("gpumon_gpu_row_remap_failed", "1x120", ON_CARD)
    rows.firing(15, told("GpumonRowRemap", "critical", **CARD), told("GpumonRowRemap", "warning", **CARD))
    run(promtool, tmp_path, new, old, corrected, rows)


def test_vanished_targets(promtool: str, tmp_path: Path, shared_dir: Path) -> None:
    """A target that left the list or stays down is told, one that misses a scrape is not (rule-target-gone.yaml)."""
    case = yaml.safe_load((shared_dir / "cases" / "rule-target-gone.yaml").read_text("utf-8"))
    unit = Unit(interval_s=60)
    for row in case["input_series"]:
        unit.values[row["series"].replace("node=", "instance=")] = row["values"]
    down = {"alertname": "GpumonDown", "severity": "critical", "audience": "operator"}
    unit.firing(10)
    for minute in (30, 40, 55):
        unit.firing(minute, {**down, "instance": "a"}, {**down, "instance": "c"})
    run(promtool, tmp_path, unit)


def test_hot_card_on_a_flapping_target(promtool: str, tmp_path: Path, shared_dir: Path) -> None:
    """One alert from the first heat to its end, whatever scrapes are missed (cases/notify-flapping.yaml)."""
    case = yaml.safe_load((shared_dir / "cases" / "notify-flapping.yaml").read_text("utf-8"))
    temperatures = str(case["input_series"][0]["values"])
    samples: list[float | None] = []
    for word in temperatures.split():
        value, _, count = word.partition("x")
        repeated = int(count) + 1 if count else 1
        samples += [float(value) if value not in {"stale", "_"} else None] * repeated
    unit = Unit(interval_s=60)
    throttled, total = [], 0.0
    for sample in samples + [60.0] * 20:
        total += 60.0 if sample is None or sample > 90 else 0.0
        throttled.append(None if sample is None else total)
    unit.sample("gpumon_gpu_throttle_seconds_total", throttled, {**ON_CARD, "reason": "hw_thermal"})
    unit.add("up", str(case["input_series"][1]["values"]), {"job": "gpumon", **NODE})
    hot = told("GpumonThermalThrottle", "warning", **CARD)
    heat_ends = next(n for n, sample in enumerate(samples) if sample == 60.0)
    for minute in range(6, heat_ends + 10):
        unit.firing(minute, hot, select='alertname="GpumonThermalThrottle"')
    unit.firing(len(throttled) - 1, select='alertname="GpumonThermalThrottle"')
    run(promtool, tmp_path, unit)


def test_driver(promtool: str, tmp_path: Path) -> None:
    """A driver gone for ten minutes is told; a release of two, or a node whose cards are all with guests, is not."""
    gone, released, guests = Unit(), Unit(), Unit()
    gone.add("gpumon_nvml_up", "1x20 0x100", NODE)
    gone.add("gpumon_node_pci_gpus", "8x120", {**NODE, "driver": "none"})
    gone.firing(14)
    gone.firing(22, told("GpumonDriverMissing", "critical"))
    released.sample("gpumon_nvml_up", [1.0] * 20 + [0.0] * 8 + [1.0] * 92, NODE)
    guests.add("gpumon_nvml_up", "0x120", NODE)
    for driver, count in (("nvidia", 0), ("vfio-pci", 8), ("nouveau", 0), ("none", 0)):
        guests.add("gpumon_node_pci_gpus", f"{count}x120", {**NODE, "driver": driver})
    for minute in range(6, 30, 2):
        released.firing(minute)
        guests.firing(minute)
    run(promtool, tmp_path, gone, released, guests)


def test_stale_sampler(promtool: str, tmp_path: Path) -> None:
    """gpumon that serves its own series only is told; one that is just starting is not."""
    stale, starting = Unit(), Unit()
    for unit in (stale, starting):
        unit.sample("gpumon_build_info", [1.0] * 120, NODE)
    stale.sample("gpumon_nvml_up", [1.0] * 20 + [None] * 100, NODE)
    stale.firing(7)
    stale.firing(12, told("GpumonSamplerStale", "critical"))
    starting.sample("gpumon_nvml_up", [None] * 4 + [1.0] * 116, NODE)
    for minute in range(0, 28, 2):
        starting.firing(minute)
    run(promtool, tmp_path, stale, starting)


def test_cost_and_deliveries(promtool: str, tmp_path: Path) -> None:
    """A tenth of a core over half an hour, refused messages and dropped ones are told; one late retry is not."""
    dear, cheap, failing, dropped, retry = Unit(), Unit(), Unit(), Unit(), Unit()
    dear.add("gpumon_sampler_cpu_seconds_total", "0+3x240", NODE)
    dear.firing(45, told("GpumonSamplerOverBudget", "info"))
    cheap.add("gpumon_sampler_cpu_seconds_total", "0+0.4x240", NODE)
    cheap.add("gpumon_driver_seconds_total", "0+0.7x240", NODE)
    cheap.firing(45)
    labels = {**NODE, "channel": "wecom"}
    failing.add("gpumon_notifications_total", "0x20 0+1x100", {**labels, "result": "failed"})
    failing.firing(15, told("GpumonNotificationsFailing", "warning", channel="wecom"))
    dropped.add("gpumon_notifications_total", "0x20 1x100", {**labels, "result": "dropped"})
    dropped.firing(15, told("GpumonNotificationsFailing", "warning", channel="wecom"))
    retry.add("gpumon_notifications_total", "0x20 1x100", {**labels, "result": "failed"})
    retry.firing(15)
    run(promtool, tmp_path, dear, cheap, failing, dropped, retry)


@pytest.mark.parametrize(
    ("finding", "name", "severity"),
    [
        ("link_narrow", "GpumonNodeFinding", "warning"),
        ("history_read_only", "GpumonHistoryReadOnly", "warning"),
    ],
)
def test_node_findings(promtool: str, tmp_path: Path, finding: str, name: str, severity: str) -> None:
    """A finding about the node is told to the operator after ten minutes, without a tenant."""
    unit = Unit()
    unit.add("gpumon_nvml_up", "1x120", NODE)
    labels = {**NODE, "finding": finding, "severity": severity, "audience": "operator"}
    unit.add("gpumon_node_finding", "1x120", labels)
    unit.firing(8)
    unit.firing(12, told(name, severity, finding=finding))
    run(promtool, tmp_path, unit)


def test_power_is_never_an_alert(promtool: str, tmp_path: Path, shared_dir: Path) -> None:
    """A power gauge that swings raises nothing (cases/rule-gauge.yaml)."""
    case = yaml.safe_load((shared_dir / "cases" / "rule-gauge.yaml").read_text("utf-8"))
    unit = Unit(interval_s=60)
    unit.add("gpumon_gpu_power_watts", str(case["input_series"][0]["values"]), ON_CARD)
    for minute in range(0, 58, 3):
        unit.firing(minute)
    run(promtool, tmp_path, unit)


def test_fleet_joins_survive_a_flipping_layout(promtool: str, tmp_path: Path) -> None:
    """A job over two nodes is one group with its cards, also while its description changes and overlaps."""
    unit = Unit(interval_s=60)
    for instance in ("n1:9836", "n2:9836"):
        labels = {"instance": instance, **JOB}
        unit.add("gpumon_job_gpus", "8x30", labels)
        unit.add("gpumon_job_bottleneck", "1x30", {**labels, "class": "communication"})
        layout = {**labels, "framework": "pytorch", "launcher": "torchrun", "group": "slurm:81"}
        unit.add("gpumon_job_layout_info", "1x12 stale", {**layout, "strategy": "ddp"})
        unit.add("gpumon_job_layout_info", "_x10 1x20", {**layout, "strategy": "fsdp"})
    group = '{tenant="acme",group="slurm:81"}'
    for minute in (5, 11, 20):
        unit.value(minute, "gpumon:group_gpus:sum", (f"gpumon:group_gpus:sum{group}", 16))
        unit.value(minute, "gpumon:group_nodes:count", (f"gpumon:group_nodes:count{group}", 2))
    run(promtool, tmp_path, unit)
