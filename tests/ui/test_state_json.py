"""The JSON of the contract."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpumon.export.publish import Publisher
from gpumon.model.verdict import Interval, JobClass
from gpumon.model.view import NodeView
from gpumon.ui import state_json
from tests import views

# One of each kind of value that both show: path in the JSON, family, labels.
SAME = (
    ("gpus.3.power_watts", "gpu_power_watts", {"gpu": "3"}),
    ("gpus.3.utilization_ratio", "gpu_utilization_ratio", {"gpu": "3"}),
    ("gpus.3.memory_used_bytes", "gpu_memory_used_bytes", {"gpu": "3"}),
    ("gpus.3.temperature_celsius", "gpu_temperature_celsius", {"gpu": "3", "sensor": "gpu"}),
    ("gpus.3.sm_clock_hertz", "gpu_clock_hertz", {"gpu": "3", "domain": "sm"}),
    ("gpus.3.pcie.rx.bytes_per_second", "pcie_throughput_bytes_per_second", {"gpu": "3", "direction": "rx"}),
    ("gpus.3.pcie.tx.saturation_ratio", "pcie_saturation_ratio", {"gpu": "3", "direction": "tx"}),
    ("gpus.3.pcie.attainable_bytes_per_second", "pcie_capacity_bytes_per_second", {"gpu": "3", "kind": "attainable"}),
    ("gpus.3.pcie.generation", "pcie_link_generation", {"gpu": "3", "state": "current"}),
    ("node.uplinks.0.rx_saturation_ratio", "pcie_uplink_saturation_ratio", {"direction": "rx"}),
    ("jobs.0.confidence", "job_bottleneck_confidence_ratio", {}),
    ("jobs.0.time_ratio.communication", "job_time_ratio", {"state": "communication"}),
    ("jobs.0.step_seconds", "job_step_seconds", {}),
    ("jobs.0.scaling.efficiency", "job_scaling_efficiency_ratio", {"evidence": "period"}),
    ("jobs.0.scaling.recommended_gpus", "job_recommended_gpus", {}),
    ("jobs.0.power_watts", "job_power_watts", {}),
    ("jobs.0.link_saturation.uplink", "job_link_saturation_ratio", {"link": "uplink"}),
)


def state(view: NodeView) -> dict[str, Any]:
    got: dict[str, Any] = json.loads(state_json.document(view).body, parse_constant=pytest.fail)
    return got


def test_shape_of_the_contract() -> None:
    """The keys of the contract are there, with its names and kinds."""
    got = state(views.geforce())
    assert (got["schema"], [gpu["gpu"] for gpu in got["gpus"]]) == (1, list(range(8)))
    job = got["jobs"][0]
    assert (job["class"], job["detail"], job["confidence"]) == ("communication", "bandwidth", 0.93)
    assert (job["gpus"], job["tenant"], job["strategy"], job["stragglers"]) == (list(range(8)), "acme", "ddp", [])
    assert math.isclose(sum(job["time_ratio"].values()), 1.0)
    assert job["scaling"] == {
        "efficiency": 0.41,
        "evidence": "period",
        "recommended_gpus": 4,
        "recommended_set": [0, 1, 2, 3],
        "slowdown": True,
        "uncertainty": 0.05,
        "reasons": [],
    }
    assert {"finding", "severity", "audience", "title", "evidence", "advice"} <= set(job["findings"][0])
    assert "intervals" not in job


def test_intervals_are_the_reports() -> None:
    """A report's job carries its intervals, with null for no detail."""
    view = views.geforce()
    intervals = (Interval(0.0, 41.0, JobClass.IDLE, ""), Interval(41.0, 90.0, JobClass.HOST, "input", (3,)))
    job = state_json.job_state(view.jobs[0], state_json.gpu_indices(view), view.mono_s, intervals)
    assert json.loads(msgspec.json.encode(job))["intervals"] == [
        {"t0": 0.0, "t1": 41.0, "class": "idle", "detail": None, "stragglers": []},
        {"t0": 41.0, "t1": 90.0, "class": "host", "detail": "input", "stragglers": [3]},
    ]


def test_missing_is_null() -> None:
    """What is not known is null: no NaN, no zero, no text."""
    got = state(views.lost_card())["gpus"][5]
    assert (got["up"], got["fault"], got["power_watts"], got["pcie"]["rx"]["bytes_per_second"]) == (
        False,
        "lost",
        None,
        None,
    )
    job = views.job_view("c.1", (0,), views.UNKNOWN)
    got = state(views.node_view((views.card_view(0),), (job,)))["jobs"][0]
    assert (got["time_ratio"], got["detail"], got["scaling"], got["step_seconds"]) == (None, None, None, None)


@pytest.mark.parametrize(("path", "family", "labels"), SAME)
def test_figures_agree_with_metrics(path: str, family: str, labels: dict[str, str]) -> None:
    """The page's figures are those of /metrics at the same tick."""
    view = views.geforce()
    found: Any = state(view)
    for key in path.split("."):
        found = found[int(key)] if key.isdecimal() else found[key]
    page = Publisher(max_jobs=256).publish(view, {}).pages.text.decode()
    values = [
        sample.value
        for parsed in text_string_to_metric_families(page)
        for sample in parsed.samples
        if sample.name == f"gpumon_{family}" and labels.items() <= sample.labels.items()
    ]
    assert values[0] == found


def test_it_tells_no_more_than_metrics() -> None:
    """No process, command line, environment, control group or rule that made a tenant is in it."""
    view = views.geforce()
    secret = "s3cr3t"
    job = dataclasses.replace(
        view.jobs[0].job,
        cgroups=(secret,),
        tenant_rule=secret,
        workload=secret,
        layout=dataclasses.replace(view.jobs[0].job.layout, nccl=(("NCCL_X", secret),), visible_devices=secret),
    )
    text = state_json.document(dataclasses.replace(view, jobs=(dataclasses.replace(view.jobs[0], job=job),))).body
    assert secret.encode() not in text
    assert not re.search(rb'"(pid|cmdline|environ|processes)"', text)


def test_hostile_names_are_text() -> None:
    """Every hostile name is in it as cut and cleaned text, and the JSON stays valid."""
    got = state(views.hostile())
    assert "<script>alert(1)</script>" in {job["pod"] for job in got["jobs"]}
    assert max(len(job["pod"]) for job in got["jobs"] if job["pod"]) == 128


def test_ended_jobs_are_gone() -> None:
    """A job that has ended is not in the current state."""
    view = views.geforce()
    ended = dataclasses.replace(view.jobs[0], ended_s=view.mono_s - 1.0)
    got = state(dataclasses.replace(view, jobs=(ended,)))
    assert got["jobs"] == []
    assert got["gpus"][0]["gpu_jobs"] == []


def test_causes_of_stragglers() -> None:
    """A straggler is named by its index, its cause beside it."""
    view = views.geforce()
    got = state(dataclasses.replace(view, jobs=(views.straggling(view.jobs[0], 3),)))["jobs"][0]
    assert got["stragglers"] == [3]
    assert got["straggler_causes"] == [{"gpu": 3, "cause": "thermal", "cost_ratio": 0.18}]
