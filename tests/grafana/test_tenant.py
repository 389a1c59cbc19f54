"""The Tenant dashboard behind a lock: a VictoriaMetrics that adds tenant="acme" to every selector."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.grafana.conftest import HOUR_S, Watched
from tests.grafana.dashboards import asked, filled, load, panels
from tests.grafana.servers import Answers, victoria

# The first test waits for the simulation, the imports and the scrapes of all.
pytestmark = [pytest.mark.tools, pytest.mark.realtime, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def locked(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    """The last hour of all nodes and all tenants, asked through a lock on acme."""
    with victoria(tmp_path_factory.mktemp("victoria"), extra_label="tenant=acme") as answers:
        for file in watched.samples:
            for chunk in _chunks(file, since_s=watched.end_s - HOUR_S):
                request = urllib.request.Request(f"{answers.url}/api/v1/import/prometheus", chunk)
                with urllib.request.urlopen(request, timeout=60):
                    pass
        with urllib.request.urlopen(f"{answers.url}/internal/force_flush", timeout=60):
            pass
        yield answers


def everything(locked: Answers, watched: Watched, tenant: str) -> dict[str, list[dict[str, Any]]]:
    """Return what each panel gets when its tenant variable is set to this."""
    found: dict[str, list[dict[str, Any]]] = {}
    for panel in panels(load("tenant")):
        got = found.setdefault(panel["title"], [])
        for query in asked(panel):
            expr = filled(query.expr, span="1h", rate_interval="60s", tenant=tenant)
            if query.instant:
                got += locked.instant(expr, watched.end_s)
            else:
                got += locked.over(expr, watched.end_s - HOUR_S, watched.end_s, 30)
    return found


def test_no_panel_is_empty(locked: Answers, watched: Watched) -> None:
    """Behind the lock every panel has data."""
    assert [title for title, got in everything(locked, watched, "acme").items() if not got] == []


@pytest.mark.parametrize("tenant", ["globex", "initech", "unassigned"])
def test_nothing_of_another_tenant(locked: Answers, watched: Watched, tenant: str) -> None:
    """Who sets the variable to another tenant gets nothing at all: no value of any panel is another's."""
    assert {title: got for title, got in everything(locked, watched, tenant).items() if got} == {}


def test_all_tenants_is_one_tenant(locked: Answers, watched: Watched) -> None:
    """Who sets the variable to a pattern that matches all gets what acme gets, value by value."""
    assert _rounded(everything(locked, watched, ".*")) == _rounded(everything(locked, watched, "acme"))


def test_the_lists_to_choose_from(locked: Answers) -> None:
    """Tenant and job variables offer what is acme's, and something."""
    for variable in load("tenant")["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = variable["definition"].removeprefix("label_values(").rstrip(")").rsplit(", ", 1)
            match = filled(metric, span="1h", rate_interval="1m")
            series = locked.get("/api/v1/series", **{"match[]": match})
            assert series
            assert {entry["tenant"] for entry in series} == {"acme"}
            assert all(label in entry for entry in series)


def test_the_lock_is_what_locks(watched: Watched) -> None:
    """Without the lock the same questions do find other tenants: the data is there to be leaked."""
    assert watched.prometheus.instant('count(gpumon_tenant:gpu_power{tenant="globex"}) > 0', watched.end_s)


def _rounded(panels_got: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, list[tuple[float, str]]]]:
    """Return the values by panel and series, without the last digits: a sum depends on the order of its parts."""
    return {
        title: {
            str(sorted(series["metric"].items())): [
                (when_s, f"{float(value):.9g}") for when_s, value in series.get("values") or [series["value"]]
            ]
            for series in got
        }
        for title, got in panels_got.items()
    }


def _chunks(file: Path, since_s: float) -> Iterator[bytes]:
    """Yield lines of an OpenMetrics file with times in milliseconds, from a time on."""
    lines: list[str] = []
    with file.open(encoding="utf-8") as text:
        for line in text:
            series, _, when = line.rpartition(" ")
            if not line.startswith("#") and float(when) >= since_s:
                lines.append(f"{series} {round(float(when) * 1000)}")
            if len(lines) == 50_000:
                yield "\n".join(lines).encode()
                lines.clear()
    yield "\n".join(lines).encode()
