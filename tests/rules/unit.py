"""A unit test of the shipped rules as a value: series in, firing alerts at given times out, judged by promtool."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parents[2]
DEPLOY = PROJECT / "deploy" / "prometheus"
RULE_FILES = (DEPLOY / "gpumon.rules.yml", DEPLOY / "gpumon.alerts.yml")
JOB = {"gpu_job": "container:3f1c9a7e5b20", "tenant": "acme"}
NODE = {"instance": "n1:9836"}
CARD = {"gpu": "3", "uuid": "GPU-3"}

# Findings that the units speak of.
FINDINGS = ("tp_over_pcie", "no_accumulation", "swapping", "link_narrow", "history_read_only")
CLASSES = ("compute", "communication", "memory", "host", "throttled", "idle", "hung", "unknown")


def series(name: str, **labels: str) -> str:
    """Return a series as promtool writes it."""
    return name + "{" + ",".join(f"{label}={json.dumps(value)}" for label, value in labels.items()) + "}"


@dataclass
class Unit:
    """Input series at one interval, and what must fire when."""

    interval_s: int = 15
    values: dict[str, str] = field(default_factory=dict)
    expected: list[dict[str, object]] = field(default_factory=list)

    def add(self, name: str, values: str, labels: Mapping[str, str]) -> None:
        """Add a series in promtool's notation."""
        self.values[series(name, **labels)] = values

    def sample(self, name: str, values: Iterable[float | None], labels: Mapping[str, str]) -> None:
        """Add a series by its samples; None is a scrape that did not happen, and the series turns stale there."""
        words, gone = [], True
        for value in values:
            words.append(("_" if gone else "stale") if value is None else f"{value:g}")
            gone = value is None
        self.add(name, " ".join(words), labels)

    def firing(self, minute: float, *alerts: Mapping[str, str], select: str = "") -> None:
        """Expect exactly these alerts, with all their labels, at a time.

        Args:
            select: matchers that narrow which alerts are looked at.
        """
        self.expected.append(
            {
                "expr": f'ALERTS{{alertstate="firing",{select}}}',
                "eval_time": f"{round(minute * 60)}s",
                "exp_samples": [
                    {"labels": series("ALERTS", alertstate="firing", **alert), "value": 1} for alert in alerts
                ],
            }
        )

    def value(self, minute: float, expr: str, *samples: tuple[str, float]) -> None:
        """Expect an expression to give these samples."""
        self.expected.append(
            {
                "expr": expr,
                "eval_time": f"{round(minute * 60)}s",
                "exp_samples": [{"labels": labels, "value": value} for labels, value in samples],
            }
        )

    def document(self) -> dict[str, object]:
        """Return this as one entry of a promtool test file."""
        return {
            "interval": f"{self.interval_s}s",
            "input_series": [{"series": name, "values": values} for name, values in self.values.items()],
            "promql_expr_test": self.expected,
        }


def run(promtool: str, folder: Path, *units: Unit, groups: str = "gpumon_jobs gpumon_node") -> None:
    """Let promtool judge the units; fail with what it says.

    Args:
        groups: of alerts to load.
    """
    alerts = folder / "alerts.yml"
    alerts.write_text(_few_findings(groups), "utf-8")
    output = judged(promtool, folder, [unit.document() for unit in units], [RULE_FILES[0], alerts])
    assert output == "", output


@cache
def _few_findings(groups: str) -> str:
    """Return the alerts with the rules of some findings only: their forty are one rule each, and most of the time."""
    document = yaml.safe_load(RULE_FILES[1].read_text("utf-8"))
    document["groups"] = [group for group in document["groups"] if group["name"] in groups.split()]
    for group in document["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule["labels"].get("finding", FINDINGS[0]) in FINDINGS]
    return str(yaml.safe_dump(document, allow_unicode=True, width=10**9))


def judged(promtool: str, folder: Path, tests: list[dict[str, object]], rule_files: Iterable[Path]) -> str:
    """Return what promtool complains about, "" if nothing."""
    file = folder / "unit.yml"
    document = {"rule_files": [str(path) for path in rule_files], "evaluation_interval": "30s", "tests": tests}
    file.write_text(yaml.safe_dump(document, allow_unicode=True, width=10**9), "utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, timeout=900, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr
