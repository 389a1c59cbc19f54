"""The committed rule files: written from the tables, valid on both Prometheus versions, whole in labels and texts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.rules.unit import DEPLOY, PROJECT, RULE_FILES
from tools.alerting.files import FILES

RULES = [
    rule
    for path in RULE_FILES
    for group in yaml.safe_load(path.read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
BY_ALERT = pytest.mark.parametrize(
    "rule", ALERTS, ids=lambda rule: f"{rule['alert']}-{rule['labels'].get('finding', '')}"
)

ANNOTATIONS = {"summary", "description", "advice", "runbook_url", "summary_zh", "description_zh", "advice_zh"}


def kept_labels(expr: str) -> set[str]:
    """Return the labels that the outermost aggregation of a generated expression keeps: the first one it names."""
    found = re.search(r"\b(?:max|sum|count) by \(([a-z_, ]+)\)", expr)
    assert found is not None, f"no aggregation in {expr}"
    return set(found[1].split(", "))


@pytest.mark.parametrize("path", FILES)
def test_committed_files_are_what_the_tables_give(path: str) -> None:
    """Each written file equals what `python -m tools.alerting` writes today."""
    assert (PROJECT / path).read_text("utf-8") == FILES[path](), f"{path}: run python -m tools.alerting"


@pytest.mark.tools
def test_rules_are_valid_on_both_versions(promtool: str) -> None:
    """promtool finds nothing to complain about, with every lint on."""
    command = [promtool, "check", "rules", "--lint=all", "--lint-fatal", *map(str, RULE_FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.tools
def test_scrape_example_is_valid(promtool: str, tmp_path: Path) -> None:
    """The example configuration is accepted, with honor_labels and the job name that GpumonDown looks for."""
    text = (DEPLOY / "scrape.example.yml").read_text("utf-8")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert (job["job_name"], job["honor_labels"]) == ("gpumon", True)
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/prometheus", str(DEPLOY)), "utf-8")
    command = [promtool, "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@BY_ALERT
def test_alert_carries_what_the_contract_says(rule: dict[str, object]) -> None:
    """Every alert has severity, audience, an instance, all annotations; a job's has gpu_job and tenant."""
    labels, annotations = rule["labels"], rule["annotations"]
    assert labels["severity"] in {"info", "warning", "critical"}
    assert labels["audience"] in {"customer", "operator"}
    assert set(annotations) == ANNOTATIONS
    kept = kept_labels(rule["expr"])
    assert "instance" in kept
    if rule["alert"].startswith("GpumonJob") or labels["audience"] == "customer":
        assert {"gpu_job", "tenant"} <= kept
    assert "$value" not in str(labels)


@BY_ALERT
def test_annotations_use_only_labels_that_survive(rule: dict[str, object]) -> None:
    """No annotation names a label that the expression has aggregated away."""
    used = set(re.findall(r"\$labels\.([a-z_]+)", str(rule["annotations"])))
    assert used <= kept_labels(rule["expr"]) | set(rule["labels"])


@BY_ALERT
def test_waiting_times_survive_a_restart_of_prometheus(rule: dict[str, object]) -> None:
    """`for` is at most 2 minutes, or at least the 10 from which on Prometheus restores it."""
    assert rule.get("for", "0m") in {"0m", "1m", "2m", "10m"}


def test_customer_rules_never_trust_a_renamed_tenant() -> None:
    """Every job series in an alert leaves out those whose tenant label a scrape has renamed, but for counting cards."""
    for rule in ALERTS:
        if "tenant" not in kept_labels(rule["expr"]):
            continue
        for name, matchers in re.findall(r"(gpumon_job_[a-z_]+)(\{[^}]*\})?", rule["expr"]):
            shares_count = name == "gpumon_job_gpu_info" and "count by" in rule["expr"]
            assert 'exported_tenant=""' in matchers or shares_count, f"{rule['alert']}: {name}{matchers}"
