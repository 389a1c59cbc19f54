"""Rules name only what a running exporter serves, with the labels it has, and use each kind as it may be used."""

from __future__ import annotations

import dataclasses
import re
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpumon.export.access import Access
from gpumon.export.answer import Site
from gpumon.export.publish import Publisher
from gpumon.export.server import Server
from gpumon.model.findings import FINDINGS_BY_NAME
from gpumon.model.view import NodeView
from tests import views
from tests.rules.test_files import RULES

# Labels that Prometheus adds, or that mark a renamed one.
FOREIGN = {"instance", "job"}
SELECTOR = re.compile(r"\b(gpumon_[a-z0-9_]+)(?:\{([^}]*)\})?(\[[0-9a-z:]+\])?")


def full_views() -> Iterator[NodeView]:
    """Yield nodes that show, together, everything gpumon can show."""
    sxm = views.sxm()
    job = dataclasses.replace(sxm.jobs[0], gpus_lost=1)
    layout = dataclasses.replace(job.job.layout, group="slurm:81")
    job = dataclasses.replace(job, job=dataclasses.replace(job.job, layout=layout))
    node_finding = FINDINGS_BY_NAME["link_narrow"].found(("x4 of x16",))
    yield dataclasses.replace(sxm, jobs=(job,), findings=(node_finding,))
    yield views.lost_card()
    yield views.mig()


def page_of(view: NodeView) -> str:
    """Return /metrics of gpumon's own server for this node."""
    published = Publisher(max_jobs=256).publish(view, {("webhook", "sent"): 1, ("webhook", "failed"): 0})
    server = Server(
        "127.0.0.1:0",
        current=lambda: published,
        mono_s=lambda: view.mono_s,
        site=Site(fixed={}, live={}),
        authorize=Access({}, {}, lambda: view.mono_s).authorize,
        handshake=None,
    )
    port = server.start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())
    finally:
        server.stop()


@pytest.fixture(scope="module")
def exported() -> dict[str, tuple[str, set[str]]]:
    """Kind and labels of every family, read over HTTP."""
    found: dict[str, tuple[str, set[str]]] = {}
    for view in full_views():
        for family in text_string_to_metric_families(page_of(view)):
            for sample in family.samples:
                _, labels = found.setdefault(sample.name, (family.type, set()))
                labels.update(sample.labels)
    return found


def test_every_name_and_label_is_exported(exported: dict[str, tuple[str, set[str]]]) -> None:
    """No rule can stay silent for ever because it asks for something that does not exist."""
    for rule in RULES:
        for text in (rule["expr"], *rule.get("annotations", {}).values()):
            for name, matchers, _ in SELECTOR.findall(re.sub(r"gpumon:[a-z0-9_:]+", "", text)):
                assert name in exported, f"{name} in {rule.get('alert', rule.get('record'))} is not exported"
                labels = set(re.findall(r"([a-z_]+)(?:=~|!~|!=|=)", matchers))
                own = {label.removeprefix("exported_") for label in labels} - FOREIGN
                missing = own - exported[name][1] - {"tenant"}
                assert not missing, f"{name} has no {missing}"


def test_rates_are_of_counters_only(exported: dict[str, tuple[str, set[str]]]) -> None:
    """rate and increase stand over counters, ..._over_time over everything else (cases/rule-gauge.yaml)."""
    call = re.compile(r"\b(rate|irate|increase|delta|deriv|[a-z]+_over_time)\(\s*(gpumon_[a-z0-9_]+)")
    for rule in RULES:
        for function, name in call.findall(rule["expr"]):
            is_counter = exported[name][0] == "counter"
            wants_counter = function in {"rate", "irate", "increase"}
            allowed = wants_counter == is_counter or function in {"max_over_time", "last_over_time", "count_over_time"}
            assert allowed, f"{function}({name}) in {rule.get('alert', rule.get('record'))}"


def test_recorded_names_that_are_used_exist() -> None:
    """A rule that uses a recorded series uses one that is recorded."""
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    used = {name for rule in RULES for name in re.findall(r"gpumon:[a-z0-9_:]+", rule["expr"])}
    assert used <= recorded


def test_every_catalogue_row_has_its_rule() -> None:
    """Each finding is told by exactly one rule."""
    told = [rule["labels"]["finding"] for rule in RULES if "finding" in rule.get("labels", {})]
    assert sorted(told) == sorted(FINDINGS_BY_NAME)
