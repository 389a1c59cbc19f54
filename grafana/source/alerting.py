"""The Prometheus alerts as Grafana's own alert rules, for those who alert from Grafana itself.

Generated from deploy/prometheus/gpumon.alerts.yml. An expression of Prometheus gives a series only while it is true, so
the condition is that there is a number. Grafana's templates cannot ask questions, so what a text asks is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

DATA_SOURCE_UID = "gpumon-prometheus"  # grafana/provisioning/datasources/gpumon.yaml
_LONGEST_UID = 40
_TEMPLATE = re.compile(r"(\{\{.*?\}\})", re.DOTALL)
_HEADER = """\
# Written by `python -m grafana.generate` from deploy/prometheus/gpumon.alerts.yml; a test compares. Either these or the
# Prometheus alerts, not both: they would tell everybody twice. Checked against Grafana's format, not tried on a server.
# Every $ is doubled, as Grafana fills in environment variables when it reads this file.
"""


def provisioning(alerts: Path) -> str:
    """Return Grafana's provisioning file for the alerts in a Prometheus rule file."""
    groups = yaml.safe_load(alerts.read_text("utf-8"))["groups"]
    titles: Counter[str] = Counter()
    made = [
        {
            "orgId": 1,
            "name": group["name"],
            "folder": "gpumon",
            "interval": group.get("interval", "1m"),
            "rules": [_rule(rule, titles) for rule in group["rules"]],
        }
        for group in groups
    ]
    text = yaml.safe_dump({"apiVersion": 1, "groups": made}, sort_keys=False, allow_unicode=True, width=10_000)
    return _HEADER + text.replace("$", "$$")


def _rule(rule: Mapping[str, Any], titles: Counter[str]) -> dict[str, object]:
    labels = rule["labels"]
    # A title is Grafana's alertname and may stand once in a folder.
    title = f"{rule['alert']} {labels['finding']}" if "finding" in labels else rule["alert"]
    titles[title] += 1
    if titles[title] > 1:
        title = f"{title} {titles[title]}"
    made: dict[str, object] = {
        "uid": _uid(title),
        "title": title,
        "condition": "B",
        "data": [_query(rule["expr"]), _is_a_number()],
        "noDataState": "OK",
        "execErrState": "Error",
        "for": rule.get("for", "0s"),
        "annotations": {name: _text(text) for name, text in rule["annotations"].items()},
        "labels": labels,
        "isPaused": False,
    }
    if "keep_firing_for" in rule:
        made["keepFiringFor"] = rule["keep_firing_for"]
    return made


def _query(expr: str) -> dict[str, object]:
    return {
        "refId": "A",
        "relativeTimeRange": {"from": 600, "to": 0},
        "datasourceUid": DATA_SOURCE_UID,
        "model": {"refId": "A", "expr": expr, "instant": True, "range": False, "editorMode": "code"},
    }


def _is_a_number() -> dict[str, object]:
    return {
        "refId": "B",
        "relativeTimeRange": {"from": 0, "to": 0},
        "datasourceUid": "__expr__",
        "model": {"refId": "B", "type": "math", "expression": "is_number($A)"},
    }


def _text(annotation: str) -> str:
    """Return what stands outside of questions and conditions, which may lie inside each other."""
    kept, depth = [], 0
    for part in _TEMPLATE.split(annotation):
        word = part.removeprefix("{{").split()[0] if part.startswith("{{") else ""
        if word in {"with", "if"}:
            depth += 1
        elif word == "end":
            depth -= 1
        elif depth == 0:
            kept.append(part)
    return " ".join("".join(kept).replace("$value", "$values.A.Value").split())


def _uid(title: str) -> str:
    uid = "gpumon-" + re.sub(r"[^a-z0-9]+", "-", title.removeprefix("Gpumon").lower())
    return uid[:_LONGEST_UID]
