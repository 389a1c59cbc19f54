"""Static checks of the committed dashboards: reports 162 and 163, and what this project asks of every panel."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from gpumon.model.metrics import METRICS, PREFIX
from tests.grafana.dashboards import NAMES, RULES, asked, load, metrics_in, panels

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
EXPORTED = {PREFIX + metric.name for metric in METRICS}
COUNTERS = {PREFIX + metric.name for metric in METRICS if metric.kind == "counter"}


@pytest.fixture(params=NAMES)
def dashboard(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each dashboard in turn."""
    return load(request.param)


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [query.expr for panel in panels(dashboard) for query in asked(panel)]


def recorded() -> set[str]:
    names = set()
    for file in RULES.glob("*.rules.yml"):
        for group in yaml.safe_load(file.read_text("utf-8"))["groups"]:
            names |= {rule["record"] for rule in group["rules"]}
    return names


def test_the_data_source_is_a_variable(dashboard: dict[str, Any]) -> None:
    """One variable of type datasource, and every panel, target, annotation and query variable refers to it."""
    variables = dashboard["templating"]["list"]
    assert [v["name"] for v in variables if v["type"] == "datasource"] == ["datasource"]
    assert all(v["datasource"] == SOURCE for v in variables if v["type"] == "query")
    assert all(a["datasource"] == SOURCE for a in dashboard["annotations"]["list"])
    for panel in panels(dashboard):
        assert panel["datasource"] == SOURCE
        assert all(target["datasource"] == SOURCE for target in panel["targets"])


def test_nothing_is_filled_in_at_import(dashboard: dict[str, Any]) -> None:
    """No import-time inputs and no id; provisioning would leave them empty."""
    assert not {"__inputs", "__requires"} & dashboard.keys()
    assert dashboard.get("id") is None


def test_uids_are_set_and_differ() -> None:
    """Links between dashboards hold because each has a uid of its own."""
    assert len({load(name)["uid"] for name in NAMES}) == len(NAMES)


def test_nothing_changes_by_itself(dashboard: dict[str, Any]) -> None:
    """No version and no absolute time: generating again gives the same file."""
    assert "version" not in dashboard
    assert dashboard["time"]["from"].startswith("now-")
    assert dashboard["time"]["to"] == "now"


def test_no_place_is_named(dashboard: dict[str, Any]) -> None:
    """No instance, host, UUID, port or address in an expression."""
    for expr in expressions(dashboard):
        assert not re.search(r"\d+\.\d+\.\d+\.\d+|:\d{4}|GPU-[0-9a-f]{4}|localhost", expr), expr
        assert not re.search(r'instance\s*=~?\s*"(?!\$node")', expr), expr


def test_node_and_card_variables(dashboard: dict[str, Any]) -> None:
    """Node and card can be chosen several at once; All is a pattern that also matches series without the label."""
    for variable in dashboard["templating"]["list"]:
        if variable["name"] in {"node", "gpu"}:
            assert variable["multi"] and variable["includeAll"]
            assert variable["allValue"] == ".*"


def test_variables_are_matched_as_patterns(dashboard: dict[str, Any]) -> None:
    """Grafana escapes the values of a variable for patterns, so `=` would miss a value with a dot."""
    for expr in expressions(dashboard):
        assert not re.search(r'=\s*"\$[a-z]', expr), expr


def test_a_card_is_named_with_its_node(dashboard: dict[str, Any]) -> None:
    """GPU 0 of one node is never drawn into GPU 0 of another: legends and groupings name both."""
    for panel in panels(dashboard):
        for query in asked(panel):
            assert "{{gpu}}" not in query.legend or "{{instance}}" in query.legend, panel["title"]
            for labels in re.findall(r"by \(([^)]*)\)", query.expr):
                names = {label.strip() for label in labels.split(",")}
                assert not names & {"gpu", "uuid"} or "instance" in names, query.expr


def test_counters_are_rates(dashboard: dict[str, Any]) -> None:
    """A counter stands only under rate or increase, over the interval variable or the range that is shown."""
    allowed = re.compile(r"(?:rate|increase)\((gpumon_\w+)\{[^{}]*\}\[\$__(?:rate_interval|range)\]")
    for expr in expressions(dashboard):
        for counter in metrics_in(expr) & COUNTERS:
            uses = len(re.findall(rf"\b{counter}\b", expr))
            assert uses == [found[1] for found in allowed.finditer(expr)].count(counter), expr


def test_no_zero_stands_for_nothing(dashboard: dict[str, Any]) -> None:
    """A missing series of hardware stays missing."""
    for expr in expressions(dashboard):
        assert "or vector(0)" not in expr or metrics_in(expr) == {"ALERTS"}, expr


def test_units_are_set(dashboard: dict[str, Any]) -> None:
    """Every panel of numbers has a unit; ratios are shown as per cent of 0..1."""
    for panel in panels(dashboard):
        if panel["type"] in {"timeseries", "bargauge", "barchart"}:
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


def test_every_name_is_exported(dashboard: dict[str, Any]) -> None:
    """Every series asked for is exported by gpumon, recorded by one of its rules, or Prometheus's own."""
    known = EXPORTED | recorded() | {"ALERTS", "scrape_duration_seconds"}
    queries = expressions(dashboard)
    queries += [v["definition"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    queries += [a["expr"] for a in dashboard["annotations"]["list"]]
    for query in queries:
        assert metrics_in(query) <= known, metrics_in(query) - known


def test_every_panel_says_what_to_do(dashboard: dict[str, Any]) -> None:
    """Each description says what is shown and what to do when it looks bad."""
    for panel in panels(dashboard):
        shows, _, when_bad = panel["description"].partition("**When it looks bad:**")
        assert len(shows.strip()) > 15 and len(when_bad.strip()) > 15, panel["title"]


def test_titles_differ(dashboard: dict[str, Any]) -> None:
    """A panel can be spoken of by its title."""
    titles = [panel["title"] for panel in panels(dashboard)]
    assert len(titles) == len(set(titles))


def test_alerts_are_listed_and_marked(dashboard: dict[str, Any]) -> None:
    """Alerts that fire stand in a list and as marks on the timelines."""
    assert any("ALERTS{" in expr and "alertname" in expr for expr in expressions(dashboard))
    assert [a["expr"].startswith("ALERTS{") for a in dashboard["annotations"]["list"]] == [True]


def test_links_carry_the_selection() -> None:
    """The operator's dashboards link to each other with variables and time range; the customer's links nowhere."""
    for name in NAMES:
        links = load(name).get("links", [])
        if name == "tenant":
            assert not links
        else:
            assert [(link["includeVars"], link["keepTime"], link["tags"]) for link in links] == [
                (True, True, ["gpumon"])
            ]


def test_the_tenant_asks_only_for_series_with_a_tenant() -> None:
    """Every series of the Tenant dashboard carries `tenant`, so a proxy that adds it to selectors is a lock."""
    for expr in expressions(load("tenant")):
        for name in metrics_in(expr):
            labelled = name.startswith(("gpumon_job_", "gpumon_tenant:")) or name == "ALERTS"
            assert labelled, name


def test_schema_is_the_classic_one(dashboard: dict[str, Any]) -> None:
    """Grafana 10 reads the file: classic schema, no panel type that came later."""
    assert dashboard["schemaVersion"] <= 39
    known = {"timeseries", "stat", "bargauge", "barchart", "table", "state-timeline", "heatmap"}
    assert {panel["type"] for panel in panels(dashboard)} <= known
