"""Families become the two pages Prometheus reads: text 0.0.4 and OpenMetrics 1.0.

Both pages carry the same sample lines; only the lines about a family differ (an info is a gauge in text, a counter's
family is named without `_total` in OpenMetrics). So samples are rendered once a tick and joined twice. What stands
before a value (name and labels, escaped) rarely changes and is kept from the last tick.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gpumon.export.family import Family, Labels
from gpumon.model.metrics import METRICS, PREFIX, Metric

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

# Booleans and state sets are gauges in both formats: `== 1` and transitions then work the same everywhere.
_TEXT_KINDS = {"counter": "counter", "info": "gauge", "gauge": "gauge", "boolean": "gauge", "stateset": "gauge"}
_OPENMETRICS_KINDS = {**_TEXT_KINDS, "info": "info"}
_OPENMETRICS_SUFFIXES = {"counter": "_total", "info": "_info"}


class Pages(NamedTuple):
    """One snapshot in both formats."""

    text: bytes
    openmetrics: bytes


class Renderer:
    """Renders pages; remembers the beginnings of the last tick's lines, so its memory is that of one page."""

    def __init__(self) -> None:
        self._starts: dict[str, dict[Labels, str]] = {}

    def render(self, families: list[Family], dropped: Counter[str]) -> Pages:
        """Return both pages of one snapshot.

        Args:
            dropped: counts, under "duplicates", samples left out because the same labels came before in the family:
                a page with a repeated series is refused as a whole by the reader.
        """
        text: list[str] = []
        openmetrics: list[str] = []
        kept: dict[str, dict[Labels, str]] = {}
        for metric, samples in families:
            name = metric.name
            old = self._starts.get(name, {})
            new: dict[Labels, str] = {}
            lines = []
            for labels, value in samples:
                if labels in new:
                    dropped["duplicates"] += 1
                    continue
                start = old.get(labels)
                if start is None:
                    start = _start(metric, labels)
                new[labels] = start
                lines.append(f"{start}{float(value)!r}\n")
            kept[name] = new
            body = "".join(lines)
            head_text, head_openmetrics = _HEADS[name]
            text += (head_text, body)
            openmetrics += (head_openmetrics, body)
        self._starts = kept
        openmetrics.append("# EOF\n")
        return Pages("".join(text).encode(), "".join(openmetrics).encode())


def _start(metric: Metric, labels: Labels) -> str:
    """Return a sample line up to its value."""
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(metric.labels, labels, strict=True))
    return f"{PREFIX}{metric.name}{{{pairs}}} " if pairs else f"{PREFIX}{metric.name} "


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _heads(metric: Metric) -> tuple[str, str]:
    """Return the lines before a family's samples, in text and in OpenMetrics."""
    full = PREFIX + metric.name
    family = full.removesuffix(_OPENMETRICS_SUFFIXES.get(metric.kind, ""))
    unit = f"# UNIT {family} {metric.unit}\n" if metric.unit and family.endswith("_" + metric.unit) else ""
    help_text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
    help_openmetrics = help_text.replace('"', '\\"')
    return (
        f"# HELP {full} {help_text}\n# TYPE {full} {_TEXT_KINDS[metric.kind]}\n",
        f"# HELP {family} {help_openmetrics}\n# TYPE {family} {_OPENMETRICS_KINDS[metric.kind]}\n{unit}",
    )


_HEADS: dict[str, tuple[str, str]] = {metric.name: _heads(metric) for metric in METRICS}
