"""Which committed file is written by which function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tools.alerting.runbook import runbook
from tools.alerting.yaml_files import alerts_yaml, rules_yaml

FILES: dict[str, Callable[[], str]] = {
    "deploy/prometheus/gpumon.alerts.yml": alerts_yaml,
    "deploy/prometheus/gpumon.rules.yml": rules_yaml,
    "docs/runbook.md": partial(runbook, "en"),
    "docs/runbook.zh.md": partial(runbook, "zh"),
}
