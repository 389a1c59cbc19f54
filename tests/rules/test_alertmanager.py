"""The example Alertmanager configuration: who gets what, what mutes what, and how it reads; on 0.25 and the newest."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.rules import servers
from tests.rules.rendering import LABELS, rendered
from tests.rules.test_files import ALERTS, kept_labels
from tests.rules.unit import PROJECT

FOLDER = PROJECT / "deploy" / "alertmanager"
EXAMPLE = FOLDER / "alertmanager.example.yml"
CONFIG = yaml.safe_load(EXAMPLE.read_text("utf-8"))


@pytest.fixture(scope="session", params=[servers.installed, servers.newest], ids=["0.25", "newest"])
def amtool(request: pytest.FixtureRequest) -> str:
    """The installed amtool, then the newest."""
    return str(request.param("amtool"))


def label_sets() -> list[dict[str, str]]:
    """Return the labels of every alert, with a value for each label that the expression keeps."""
    return [
        {"alertname": rule["alert"], **rule["labels"], **{name: LABELS[name] for name in kept_labels(rule["expr"])}}
        for rule in ALERTS
    ]


def route(amtool: str, labels: Mapping[str, str]) -> str:
    """Return the receiver of an alert."""
    words = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in labels.items()]
    command = [amtool, "config", "routes", "test", f"--config.file={EXAMPLE}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def matches(matchers: list[str], labels: Mapping[str, str]) -> bool:
    """Return whether an alert has all labels that a list of matchers asks for."""
    for matcher in matchers:
        name, operator, pattern = re.fullmatch(r'(\w+)(=~|!~|!=|=)"(.*)"', matcher).groups()  # type: ignore[union-attr]
        value = labels.get(name, "")
        equal = bool(re.fullmatch(pattern, value)) if "~" in operator else value == pattern
        if equal == operator.startswith("!"):
            return False
    return True


@pytest.mark.tools
def test_configuration_is_valid(amtool: str, tmp_path: Path) -> None:
    """amtool accepts the example with its templates."""
    text = EXAMPLE.read_text("utf-8").replace("/etc/alertmanager/gpumon", f"{FOLDER}/gpumon")
    (tmp_path / "alertmanager.yml").write_text(text, "utf-8")
    command = [amtool, "check-config", str(tmp_path / "alertmanager.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.tools
def test_routes(amtool: str) -> None:
    """Operators' alerts go to operations, a customer's to its own tenant, one without a route to operations."""
    for audience, severity, tenant, receiver in (
        ("operator", "critical", "acme", "operations"),
        ("operator", "info", "acme", "operations-info"),
        ("customer", "warning", "acme", "customer-acme"),
        ("customer", "info", "zeta", "customer-zeta"),
        ("customer", "critical", "unassigned", "operations"),
    ):
        labels = {"alertname": "GpumonJobHung", "audience": audience, "severity": severity, "tenant": tenant}
        assert route(amtool, labels) == receiver, labels


@pytest.mark.tools
@pytest.mark.parametrize("name", ["acme\n", "acme ", "ACME", "acme|zeta", ".*", 'acme"', "acme,zeta", "аcme", ""])
def test_hostile_tenants_reach_nobody_else(amtool: str, name: str) -> None:
    """A tenant label that only looks like another's ends at the operator, should one ever be made."""
    labels = {"alertname": "GpumonJobHung", "audience": "customer", "severity": "critical", "tenant": name}
    assert route(amtool, labels) == "operations"


def test_groups_leave_time_to_deliver() -> None:
    """No group interval is below 30 s, since it bounds the delivery too (report 157)."""

    def check(node: Mapping[str, object]) -> None:
        interval = node.get("group_interval", "5m")
        assert re.fullmatch(r"\d+[mh]", str(interval)), interval
        for child in node.get("routes", []):  # type: ignore[attr-defined]
            check(child)

    check(CONFIG["route"])


@pytest.mark.parametrize("rule", CONFIG["inhibit_rules"], ids=lambda rule: rule["source_matchers"][0])
def test_inhibition_is_over_labels_that_exist(rule: dict[str, list[str]]) -> None:
    """Both sides carry every label under `equal`, no alert is on both, and each side exists (report 154)."""
    sources = [labels for labels in label_sets() if matches(rule["source_matchers"], labels)]
    targets = [labels for labels in label_sets() if matches(rule["target_matchers"], labels)]
    assert sources and targets
    for labels in (*sources, *targets):
        missing = [name for name in rule["equal"] if not labels.get(name)]
        assert not missing or ("class" in missing and labels in targets), (labels["alertname"], missing)
    assert not [labels for labels in sources if labels in targets]


def test_down_mutes_its_own_node_only(shared_dir: Path) -> None:
    """A node that is gone mutes its own cards, not others', and not alerts without an instance (notify-label-sets)."""
    case = json.loads((shared_dir / "cases" / "notify-label-sets.json").read_text("utf-8"))
    source = {"alertname": "GpumonDown", "instance": "a"}
    rule = next(r for r in CONFIG["inhibit_rules"] if matches(r["source_matchers"], source))
    assert rule["equal"] == ["instance"]
    muted = []
    for alert in case["alerts"]:
        labels = {name.replace("node", "instance"): value for name, value in alert["labels"].items()}
        names = {
            "gpu hot": "GpumonThermalThrottle",
            "node down": "GpumonDown",
            "exporter config": "GpumonLabelsRenamed",
        }
        labels["alertname"] = names[alert["name"]]
        if matches(rule["target_matchers"], labels) and labels.get("instance", "") == source["instance"]:
            muted.append(labels.get("uuid"))
    assert muted == ["u1", "u1"]


@pytest.mark.tools
@pytest.mark.parametrize("language", ["en", "zh"])
def test_templates_render(amtool: str, tmp_path: Path, language: str) -> None:
    """Single alerts, groups and resolved ones read well in every form, for every alert there is."""
    alerts = [
        {
            "status": status,
            "labels": labels,
            "annotations": annotations,
            "startsAt": "2026-11-30T10:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus.example/graph",
        }
        for labels, annotations in rendered(servers.installed("promtool"), tmp_path, with_numbers=True)
        for status in ("firing", "resolved")
    ]
    single = [alert for alert in alerts if alert["labels"]["alertname"] == "GpumonJobGpuLost"][:1]
    for group, common in ((alerts, {}), (single, single[0]["labels"])):
        data = {"receiver": "r", "status": "firing", "alerts": group, "groupLabels": {}, "commonLabels": common}
        data |= {"commonAnnotations": {}, "externalURL": "http://alertmanager.example"}
        (tmp_path / "data.json").write_text(json.dumps(data), "utf-8")
        for form in ("title", "text", "html", "slack"):
            command = [amtool, "template", "render", f"--template.glob={FOLDER}/gpumon.*.tmpl"]
            command += [f'--template.text={{{{ template "gpumon.{language}.{form}" . }}}}']
            command += [
                f"--template.data={tmp_path}/data.json",
                f"--template.type={'html' if form == 'html' else 'text'}",
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            for mark in ("<no value>", "error expanding", " []", " ()", "{{"):
                assert mark not in done.stdout, (form, mark, done.stdout)
            if form != "title":
                link = "runbook.zh.md#" if language == "zh" else "runbook.md#"
                assert link in done.stdout
                assert len(done.stdout) > 200
