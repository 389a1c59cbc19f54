"""Every alert as Prometheus would send it: labels and annotations rendered by promtool itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from tests.rules.test_files import ALERTS, kept_labels
from tests.rules.unit import judged, series

LABELS = {
    "instance": "n1:9836",
    "gpu_job": "container:3f1c9a7e5b20",
    "tenant": "acme",
    "gpu": "3",
    "uuid": "GPU-3",
    "uplink": "0000:40:01.0",
    "xid": "79",
    "channel": "wecom",
}
# What the sentences around a query ask for.
_ASKED = {
    "gpumon_job_gpus": (8, {}),
    "gpumon_job_recommended_gpus": (4, {}),
    "gpumon_job_scaling_efficiency_ratio": (0.41, {"evidence": "period"}),
    "gpumon_job_time_ratio": (0.41, {"state": "communication"}),
    "gpumon_gpu_xid_last_timestamp_seconds": (60, {"xid": "79"}),
    "gpumon_gpu_temperature_celsius": (91, {"sensor": "gpu"}),
}


def rendered(promtool: str, folder: Path, *, with_numbers: bool) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Return (labels, annotations) of every alert, each raised by a series that has exactly the labels it keeps.

    Args:
        with_numbers: whether the series that the texts ask for exist.
    """
    rules, inputs = [], []
    for number, rule in enumerate(ALERTS):
        labels = {name: LABELS[name] for name in sorted(kept_labels(rule["expr"]))}
        inputs.append({"series": series(f"raises_{number}", **labels), "values": "0.734x10"})
        rules.append(
            {"alert": rule["alert"], "expr": f"raises_{number}"} | {k: rule[k] for k in ("labels", "annotations")}
        )
    if with_numbers:
        job = {name: LABELS[name] for name in ("instance", "gpu_job", "tenant")}
        card = {name: LABELS[name] for name in ("instance", "gpu", "uuid")}
        for name, (value, extra) in _ASKED.items():
            labels = (job if "_job_" in name else card) | extra
            inputs.append({"series": series(name, **labels), "values": f"{value}x10"})
    file = folder / "raised.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}, allow_unicode=True), "utf-8")
    names = sorted({rule["alert"] for rule in rules})
    wanted = [{"eval_time": "5m", "alertname": name, "exp_alerts": []} for name in names]
    output = judged(promtool, folder, [{"interval": "1m", "input_series": inputs, "alert_rule_test": wanted}], [file])
    found = re.findall(r"Labels:(\{.*\})\n\s*Annotations:(\{.*\})", output)
    return [(_map(labels), _map(annotations)) for labels, annotations in found]


def _map(text: str) -> dict[str, str]:
    return {name: json.loads(value) for name, value in re.findall(r'([a-z_]+)=("(?:[^"\\]|\\.)*")', text)}
