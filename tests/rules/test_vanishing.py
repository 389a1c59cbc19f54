"""When gpumon dies under firing alerts, none of them ends before GpumonDown fires and mutes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.test_files import ALERTS
from tests.rules.unit import CARD, JOB, NODE, Unit, run

pytestmark = pytest.mark.tools

DEATH = 70  # minute
INTERVAL_S = 30
ALIVE = DEATH * 60 // INTERVAL_S
DEAD = 40
ON_CARD = {**NODE, **CARD}
ON_JOB = {**NODE, **JOB}


def everything_wrong() -> Unit:
    """Return nodes on which every alert fires by the minute of death, after which no scrape succeeds."""
    unit = Unit(interval_s=INTERVAL_S)

    def always(name: str, value: float, labels: dict[str, str]) -> None:
        unit.sample(f"gpumon_{name}", [value] * ALIVE + [None] * DEAD, labels)

    def rising(name: str, step: float, labels: dict[str, str]) -> None:
        unit.sample(f"gpumon_{name}", [step * n for n in range(ALIVE)] + [None] * DEAD, labels)

    for job_class in ("communication", "host", "idle", "hung"):
        labels = {**ON_JOB, "gpu_job": f"job:{job_class}", "class": job_class}
        rising("job_bottleneck_seconds_total", INTERVAL_S, labels)
        always("job_bottleneck", 1, labels)
    always("job_gpus", 4, ON_JOB)
    always("job_gpus_lost", 1, ON_JOB)
    always("job_add_gpu_slowdown", 1, ON_JOB)
    always("job_straggler", 1, {**ON_JOB, **CARD})
    always("job_finding", 1, {**ON_JOB, "finding": "no_accumulation", "severity": "warning", "audience": "customer"})
    always("job_gpu_info", 1, {**ON_JOB, **CARD, "mig_uuid": ""})
    always("job_start_time_seconds", -60, ON_JOB)
    always("gpu_up", 0, {**ON_CARD, "uuid": "GPU-lost"})
    for xid, minute in (("31", DEATH - 2), ("79", 10), ("999", 10)):
        always("gpu_xid_last_timestamp_seconds", minute * 60, {**ON_CARD, "xid": xid})
    for reason in ("hw_thermal", "hw_power_brake"):
        rising("gpu_throttle_seconds_total", 20, {**ON_CARD, "reason": reason})
    always("gpu_ecc_errors_total", 2, {**ON_CARD, "kind": "uncorrected"})
    always("gpu_row_remap_pending", 1, ON_CARD)
    always("pcie_link_downtrained", 0, ON_CARD)
    always("pcie_link_downtrained", 1, {**ON_CARD, "uuid": "GPU-narrow"})
    rising("pcie_errors_total", 1, {**ON_CARD, "kind": "nonfatal"})
    rising("pcie_saturated_seconds_total", 25, {**ON_CARD, "direction": "rx"})
    rising("pcie_observed_seconds_total", 30, {**ON_CARD, "direction": "rx"})
    always("pcie_uplink_saturation_ratio", 0.95, {**NODE, "uplink": "0000:40:01.0", "direction": "rx"})
    links = [18.0] * (ALIVE // 2) + [17.0] * (ALIVE - ALIVE // 2) + [None] * DEAD
    unit.sample("gpumon_nvlink_links", links, {**ON_CARD, "state": "active"})
    always("node_gpus_expected", 8, NODE)
    always("node_gpus", 7, {**NODE, "state": "up"})
    for driver, count in (("vfio-pci", 0), ("none", 8)):
        always("node_pci_gpus", count, {**NODE, "driver": driver})
    always("nvml_up", 0, NODE)
    for finding in ("link_narrow", "history_read_only"):
        always("node_finding", 1, {**NODE, "finding": finding, "severity": "warning", "audience": "operator"})
    rising("sampler_cpu_seconds_total", 10, NODE)
    rising("notifications_total", 1, {**NODE, "channel": "wecom", "result": "failed"})
    always("gpu_up", 1, {**ON_CARD, "exported_gpu": "0"})
    always("build_info", 1, {"instance": "stale"})
    for instance in (NODE["instance"], "stale"):
        unit.sample("up", [1.0] * ALIVE + [0.0] * DEAD, {"job": "gpumon", "instance": instance})
    return unit


def test_nothing_ends_because_gpumon_died(promtool: str, tmp_path: Path) -> None:
    """Every alert there is fires at the death of gpumon, and still fires when GpumonDown does, six minutes later."""
    unit = everything_wrong()
    names = {rule["alert"] for rule in ALERTS} - {"GpumonDown"}
    ever = 'count by (alertname) (ALERTS{{alertstate="firing"{0}}}) > bool 0'

    def firing(minute: float, *alerts: str) -> None:
        unit.value(minute, ever.format(""), *((f'{{alertname="{name}"}}', 1) for name in alerts))

    firing(DEATH - 0.5, *names)
    firing(DEATH + 5, *names, "GpumonDown")
    firing(DEATH + 6, *names, "GpumonDown")
    run(promtool, tmp_path, unit)
