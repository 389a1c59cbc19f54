"""Every query of every panel against a real Prometheus: no panel in error, none empty."""

from __future__ import annotations

from typing import Any

import pytest

from tests.grafana.conftest import HOUR_S, WEEK_S, Watched
from tests.grafana.dashboards import NAMES, Asked, asked, filled, load, panels

# The first test waits for the simulation, the imports and the scrapes of all.
pytestmark = [pytest.mark.tools, pytest.mark.realtime, pytest.mark.timeout(600)]

# Empty where nothing has happened, which the panel says in words: with all nodes together only gpumon's own troubles.
# Simulated time costs no CPU that could be counted.
SILENT = {
    "gpumon": {
        "Alerts that fire",
        "CPU",
        "Messages sent by gpumon",
        "Readings thrown away a second",
        "Series left out",
    }
}
# On one healthy node without NVLink and ECC also these.
SILENT_ON_THE_LIVE_NODE = SILENT["gpumon"] - {"CPU"} | {
    "Card-hours held back, by job",
    "Card-hours held back, by reason",
    "Card-hours held back, by tenant",
    "Failed driver calls a second",
    "Findings about nodes",
    "Findings: what to change",
    "Memory errors",
    "Shared links with their cards",
    "Verdicts of the jobs that are held back most",
    "Xid errors",
}


def results(watched: Watched, query: Asked, span_s: float, end_s: float, **variables: str) -> list[dict[str, Any]]:
    """Return what Grafana would get for a query over a range."""
    step_s = max(15.0, span_s / 400)
    expr = filled(query.expr, span=f"{span_s:g}s", rate_interval=f"{max(60.0, step_s + 15):g}s", **variables)
    if query.instant:
        return watched.prometheus.instant(expr, end_s)
    return watched.prometheus.over(expr, end_s - span_s, end_s, step_s)


def empty_panels(watched: Watched, name: str, span_s: float, end_s: float, **variables: str) -> set[str]:
    """Return the panels of which no query gives anything; an error of the server fails the test."""
    found = set()
    for panel in panels(load(name)):
        answers = [results(watched, query, span_s, end_s, **variables) for query in asked(panel)]
        if not any(answers):
            found.add(panel["title"])
            assert panel["fieldConfig"]["defaults"].get("noValue"), f"{panel['title']} is empty and says nothing"
    return found


@pytest.mark.parametrize("name", NAMES)
def test_over_the_last_hour(watched: Watched, name: str) -> None:
    """Over an hour of all nodes no panel is in error, and none is empty but those about what never happened."""
    variables = {"tenant": "acme"} if name == "tenant" else {}
    assert empty_panels(watched, name, HOUR_S, watched.end_s, **variables) <= SILENT.get(name, set())


@pytest.mark.parametrize("name", NAMES)
def test_over_a_week(watched: Watched, name: str) -> None:
    """A week works as well, with steps and rates as long as Grafana takes them then."""
    variables = {"tenant": "acme"} if name == "tenant" else {}
    assert empty_panels(watched, name, WEEK_S, watched.end_s, **variables) <= SILENT.get(name, set())


@pytest.mark.parametrize("name", NAMES)
def test_on_the_node_that_is_really_scraped(watched: Watched, name: str) -> None:
    """A daemon scraped for a minute fills the panels; those that stay empty say why in words."""
    variables = {"tenant": "acme"} if name == "tenant" else {"node": watched.live}
    now_s = float(watched.prometheus.instant(f'timestamp(up{{instance="{watched.live}"}})')[0]["value"][1])
    assert empty_panels(watched, name, 120.0, now_s, **variables) <= SILENT_ON_THE_LIVE_NODE
