"""Grafana's unit for a metric: from the unit in the metric table, so that a panel cannot disagree with a scrape."""

from __future__ import annotations

from gpumon.model.metrics import METRICS_BY_NAME, PREFIX

# Grafana's own names. Traffic in steps of 1000, as links are rated; memory in steps of 1024, as cards are sold.
_GRAFANA = {
    "": "short",
    "ratio": "percentunit",
    "bytes": "bytes",
    "bytes_per_second": "Bps",
    "watts": "watt",
    "joules": "joule",
    "celsius": "celsius",
    "hertz": "hertz",
    "seconds": "s",
}
SHARE = _GRAFANA["ratio"]


def unit_of(metric: str) -> str:
    """Return the unit of a metric by its full name."""
    return _GRAFANA[METRICS_BY_NAME[metric.removeprefix(PREFIX)].unit]
