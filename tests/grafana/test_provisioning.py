"""Grafana's provisioning files: the format that Grafana documents, and nothing lost from the Prometheus alerts."""

from __future__ import annotations

import functools
import re
from typing import Any

import yaml

from tests.grafana.dashboards import PROJECT, RULES

FOLDER = PROJECT / "grafana" / "provisioning"
# The keys of a rule in a provisioning file, as Grafana documents them.
RULE_KEYS = {
    "uid",
    "title",
    "condition",
    "data",
    "noDataState",
    "execErrState",
    "for",
    "annotations",
    "labels",
    "isPaused",
}
DURATION = re.compile(r"\d+[smh]")


@functools.cache
def provisioned() -> list[dict[str, Any]]:
    """Return the rules as Grafana sees them after it has filled in `$`."""
    text = (FOLDER / "alerting" / "gpumon.yaml").read_text("utf-8")
    body = text[text.index("apiVersion") :]
    assert not re.search(r"(?<!\$)\$(?!\$)", body), "a single $ would be taken for an environment variable"
    groups = yaml.safe_load(body.replace("$$", "$"))["groups"]
    for group in groups:
        assert set(group) == {"orgId", "name", "folder", "interval", "rules"}
        assert int(group["interval"].rstrip("sm")) * (60 if group["interval"].endswith("m") else 1) % 10 == 0
    return [rule for group in groups for rule in group["rules"]]


@functools.cache
def prometheus() -> list[dict[str, Any]]:
    groups = yaml.safe_load((RULES / "gpumon.alerts.yml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_alert_is_there_once() -> None:
    """Each Prometheus alert has its Grafana rule with the same expression, labels and waiting times."""
    rules = provisioned()
    assert [rule["data"][0]["model"]["expr"] for rule in rules] == [rule["expr"] for rule in prometheus()]
    for mine, theirs in zip(rules, prometheus(), strict=True):
        assert mine["labels"] == theirs["labels"]
        assert mine["for"] == theirs.get("for", "0s")
        assert mine.get("keepFiringFor") == theirs.get("keep_firing_for")


def test_rules_have_the_documented_form() -> None:
    """Keys, states, durations and references of every rule are such as Grafana takes."""
    uids = [rule["uid"] for rule in provisioned()]
    titles = [rule["title"] for rule in provisioned()]
    assert len(set(uids)) == len(uids) and len(set(titles)) == len(titles)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", uid) for uid in uids)
    for rule in provisioned():
        assert set(rule) - {"keepFiringFor"} == RULE_KEYS
        assert rule["noDataState"] == "OK" and rule["execErrState"] == "Error"
        assert DURATION.fullmatch(rule["for"])
        assert rule["condition"] in {query["refId"] for query in rule["data"]}
        for query in rule["data"]:
            assert set(query) == {"refId", "relativeTimeRange", "datasourceUid", "model"}
            assert query["model"]["refId"] == query["refId"]
        assert all(isinstance(text, str) for text in rule["annotations"].values())


def test_texts_use_what_grafana_knows() -> None:
    """Templates name labels and the query's value only; Grafana cannot ask questions in a template."""
    for rule in provisioned():
        for text in rule["annotations"].values():
            for template in re.findall(r"\{\{(.*?)\}\}", text):
                assert re.fullmatch(
                    r" \$(labels\.\w+|values\.A\.Value)( \| (printf \"%\.0f\"|humanize\w*))? ", template
                ), text


def test_the_alerts_ask_the_provisioned_data_source() -> None:
    """Rules name the uid that the data source file gives."""
    sources = yaml.safe_load((FOLDER / "datasources" / "gpumon.yaml").read_text("utf-8"))["datasources"]
    uids = {query["datasourceUid"] for rule in provisioned() for query in rule["data"]}
    assert uids == {sources[0]["uid"], "__expr__"}


def test_dashboards_are_provided_from_a_folder() -> None:
    """The provider file has the form that Grafana documents."""
    provider = yaml.safe_load((FOLDER / "dashboards" / "gpumon.yaml").read_text("utf-8"))["providers"][0]
    assert provider["type"] == "file"
    assert provider["options"]["path"].startswith("/")
