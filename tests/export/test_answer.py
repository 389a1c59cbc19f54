"""Which answer a request gets."""

from __future__ import annotations

import dataclasses
import gzip
import re

import pytest

from gpumon.export.answer import Answer, Site, answer
from gpumon.export.publish import Published, Publisher
from gpumon.export.request import Request, accepts_gzip, prefers_openmetrics
from gpumon.export.scope import EVERYTHING, Scope
from gpumon.model.document import Document
from gpumon.model.view import NodeView
from tests import views

PROMETHEUS_ACCEPT = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,"
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;"
    "q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
SITE = Site(
    fixed={"/": Document(b"<!doctype html>" + b" " * 2000, "text/html; charset=utf-8", {"X-Own": "yes"})},
    live={"/api/v1/state": lambda view: Document(f"{len(view.jobs)} jobs".encode(), "application/json")},
)


def request(path: str, method: str = "GET", **headers: str) -> Request:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, path, fields, keep_alive=True, client="127.0.0.1", secure=False)


def published(view: NodeView | None = None) -> Published:
    return Publisher(max_jobs=256).publish(view or views.geforce(), {})


def ask(
    asked: Request, *, age_s: float = 0.5, scope: Scope | None = EVERYTHING, tick: Published | None = None
) -> Answer:
    tick = tick or published()
    return answer(asked, scope, tick, tick.mono_s + age_s, SITE)


def test_metrics_by_negotiation() -> None:
    """Prometheus gets OpenMetrics, a browser and curl get text, each with its content type."""
    assert ask(request("/metrics", accept=PROMETHEUS_ACCEPT)).body.endswith(b"# EOF\n")
    for accept in ("", "*/*", "text/html,application/xhtml+xml,*/*;q=0.8", "text/plain;version=0.0.4"):
        got = ask(request("/metrics", accept=accept))
        assert got.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert b"gpumon_gpu_info gauge" in got.body


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;q=0", False),
        ("text/plain;q=0.9,application/openmetrics-text;q=0.1", False),
        ("application/openmetrics-text;q=broken", False),
        ("", False),
    ],
)
def test_prefers_openmetrics(accept: str, wanted: bool) -> None:
    """OpenMetrics is sent when it is asked for at least as much as text."""
    assert prefers_openmetrics(accept) is wanted


@pytest.mark.parametrize(
    ("header", "wanted"),
    [("gzip", True), ("deflate, gzip;q=0.5", True), ("gzip;q=0", False), ("br", False), ("", False)],
)
def test_accepts_gzip(header: str, wanted: bool) -> None:
    """Only who names gzip with a quality above 0 gets it."""
    assert accepts_gzip(header) is wanted


def test_gzip_is_made_once_a_tick() -> None:
    """A compressed answer holds the same page, and the second client gets the same bytes."""
    tick = published()
    first = ask(request("/metrics", accept_encoding="gzip"), tick=tick)
    second = ask(request("/metrics", accept_encoding="gzip"), tick=tick)
    assert first.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(first.body) == tick.pages.text
    assert first.body is second.body


def test_unknown_path_and_method() -> None:
    """What does not exist is 404; what exists but is not read is 405 and says what is allowed."""
    assert ask(request("/metric")).status == 404
    assert ask(request("/metric", "POST")).status == 404
    refused = ask(request("/metrics", "POST"))
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
    assert ask(request("/metrics", "HEAD")).status == 200


def test_stale_tick_serves_self_metrics_only() -> None:
    """When the newest tick is older than 5 s, no hardware or job series is served and health says so."""
    page = ask(request("/metrics"), age_s=5.1).body.decode()
    names = set(re.findall(r"^(gpumon_\w+)", page, re.MULTILINE))
    assert "gpumon_samples_total" in names
    assert "gpumon_last_sample_timestamp_seconds" in names
    assert not [
        name for name in names if name.startswith(("gpumon_gpu", "gpumon_job", "gpumon_pcie", "gpumon_nvml_up"))
    ]
    assert ask(request("/-/healthy"), age_s=5.1).status == 503
    assert ask(request("/-/healthy"), age_s=4.9).status == 200
    assert ask(request("/api/v1/state"), age_s=5.1).status == 503
    assert ask(request("/"), age_s=5.1).status == 200


def test_before_the_first_tick() -> None:
    """Before the first tick the build is all there is, ready is 503, and healthy allows a slow start."""
    tick = Publisher(max_jobs=256).before_first_tick(100.0)
    assert re.findall(rb"^(gpumon_\w+)", ask(request("/metrics"), tick=tick).body, re.MULTILINE) == [
        b"gpumon_build_info"
    ]
    assert ask(request("/-/ready"), tick=tick).status == 503
    assert ask(request("/-/ready")).status == 200
    assert ask(request("/-/healthy"), tick=tick, age_s=30.0).status == 200
    assert ask(request("/-/healthy"), tick=tick, age_s=61.0).status == 503
    assert ask(request("/api/v1/state"), tick=tick).status == 503


def test_documents() -> None:
    """A fixed document comes with its own headers, compressed where that pays; a live one is made once a tick."""
    got = ask(request("/", accept_encoding="gzip"))
    assert (got.headers["X-Own"], got.headers["Content-Encoding"]) == ("yes", "gzip")
    made = []

    def make(view: NodeView) -> Document:
        made.append(view)
        return Document(b"{}", "application/json")

    tick = published()
    site = Site(live={"/x": make})
    for _ in range(3):
        assert answer(request("/x"), EVERYTHING, tick, tick.mono_s, site).body == b"{}"
    assert len(made) == 1


def test_nobody_unauthorised_sees_anything() -> None:
    """Without a scope every path answers 401."""
    for path in ("/metrics", "/", "/api/v1/state", "/nowhere"):
        assert ask(request(path), scope=None).status == 401


def _two_tenants() -> NodeView:
    view = views.geforce(2)
    other = dataclasses.replace(view.jobs[1], job=dataclasses.replace(view.jobs[1].job, tenant="globex"))
    operator = dataclasses.replace(views.COMMUNICATION.findings[0], audience="operator", finding="uplink_full")
    verdict = dataclasses.replace(view.jobs[0].verdict, findings=(*view.jobs[0].verdict.findings, operator))
    return dataclasses.replace(view, jobs=(dataclasses.replace(view.jobs[0], verdict=verdict), other))


def test_a_tenant_sees_its_jobs_and_nothing_else() -> None:
    """A tenant's scrape holds its jobs' series alone, without operators' findings; its documents get that view."""
    tick = published(_two_tenants())
    acme = Scope(frozenset({"acme"}))
    page = ask(request("/metrics"), scope=acme, tick=tick).body.decode()
    assert {line.split("{")[0][:11] for line in page.splitlines() if not line.startswith("#")} == {"gpumon_job_"}
    assert 'tenant="acme"' in page
    assert "globex" not in page
    assert "uplink_full" not in page
    assert ask(request("/api/v1/state"), scope=acme, tick=tick).body == b"1 jobs"
    assert ask(request("/api/v1/state"), tick=tick).body == b"2 jobs"
    assert ask(request("/metrics"), scope=acme, tick=tick, age_s=6.0).status == 503


def test_a_shared_card_shows_a_tenant_its_name_only() -> None:
    """Of a card that another tenant's job uses too, a tenant sees who it is and no reading."""
    seen = []

    def make(view: NodeView) -> Document:
        seen.append(view)
        return Document(b"", "text/plain")

    view = _two_tenants()
    both = dataclasses.replace(
        view.jobs[1], job=dataclasses.replace(view.jobs[1].job, cards=view.jobs[0].job.cards[:1])
    )
    tick = published(dataclasses.replace(view, jobs=(view.jobs[0], both)))
    answer(request("/x"), Scope(frozenset({"acme"})), tick, tick.mono_s, Site(live={"/x": make}))
    cards = seen[0].cards
    assert [card.card.identity.index for card in cards] == [0, 1, 2, 3]
    assert not cards[0].tick.readings
    assert cards[1].tick.readings
    assert (seen[0].uplinks, seen[0].node.kernel, seen[0].sampler.samples) == ((), "", {})
