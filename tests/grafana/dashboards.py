"""The dashboards as they are committed, and what their panels ask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = PROJECT / "grafana" / "dashboards"
NAMES = ("fleet", "node", "job", "tenant", "gpumon")
RULES = PROJECT / "deploy" / "prometheus"


@dataclass(frozen=True, slots=True)
class Asked:
    """One expression of a panel."""

    panel: str
    expr: str
    instant: bool
    legend: str


def load(name: str) -> dict[str, Any]:
    """Return a dashboard."""
    return dict(json.loads((FOLDER / f"{name}.json").read_text("utf-8")))


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the panels that draw something, also those in collapsed rows."""
    found = []
    for panel in dashboard["panels"]:
        found += [panel] if panel["type"] != "row" else panel.get("panels") or []
    return found


def asked(panel: Mapping[str, Any]) -> Iterator[Asked]:
    """Yield the panel's expressions."""
    for target in panel["targets"]:
        yield Asked(panel["title"], target["expr"], bool(target.get("instant")), target.get("legendFormat", ""))


def filled(expr: str, *, span: str, rate_interval: str, **variables: str) -> str:
    """Return an expression with Grafana's variables filled in; those not given match everything."""
    known = {"node": ".*", "tenant": ".*", "gpu": ".*", "job": ".*", **variables}
    expr = expr.replace("$__rate_interval", rate_interval).replace("$__range", span)
    return re.sub(r"\$([a-z]+)", lambda found: known[found[1]], expr)


def metrics_in(expr: str) -> set[str]:
    """Return the names of series in an expression."""
    without_text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expr)
    named = set(re.findall(r"\b(?:gpumon[a-z0-9_:]*|ALERTS|scrape_[a-z_]+)\b", without_text))
    for pattern in re.findall(r'__name__=~"([^"]*)"', expr):
        named |= _alternatives(pattern)
    return named


def _alternatives(pattern: str) -> set[str]:
    found = re.fullmatch(r"(\w+)\(([\w|]+)\)(\w+)", pattern)
    assert found, f"a pattern of names that this test cannot read: {pattern}"
    return {f"{found[1]}{middle}{found[3]}" for middle in found[2].split("|")}
