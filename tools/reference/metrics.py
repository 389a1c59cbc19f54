"""docs/metrics.md, from the table of metrics and the table of readings."""

from __future__ import annotations

from gpumon.model.fields import READINGS
from gpumon.model.metrics import METRICS, PREFIX, Metric
from tools.reference.table import table

_HEAD = """\
# Metrics

Written by `make docs` from `gpumon/model/metrics.py` and `gpumon/model/fields.py`; a test compares. Names and labels
are kept: see `compatibility.md`.

- **Unknown is absent.** A reading that the card does not give has no series; there is no 0, -1 or NaN in its place.
  `gpumon_gpu_capability` and `gpumon_node_readings_missing` say what is missing and why.
- Base units: seconds, bytes, watts, joules, hertz, celsius; ratios are from 0 to 1. `rx` and `tx` are from the card's
  side.
- A *state set* has one series for each state, 1 for the one that holds; a *boolean* is 0 or 1; an *info* is always 1
  and carries its facts as labels. In the text format all three are gauges; in OpenMetrics an info is an `info`.
- Gauges of traffic are means over 15 s, peaks over 60 s. Counters (`_total`) restart at 0 with gpumon; use `rate()`.
- When a job ends, its gauges end with the next tick; its counters and `gpumon_job_info` stay for 5 minutes.
- To add a card's figure to a job, go from the job to the card, or a shared card breaks the query for the whole fleet:
  `gpumon_job_gpu_info * on (instance, uuid) group_left () max by (instance, uuid) (CARD_SERIES)`.
- Scrape with `honor_labels: true`: gpumon's own labels `pod`, `namespace`, `container` and `tenant` are the job's.
"""

_SECTIONS = (
    ("Cards", ("gpu_",)),
    ("PCIe", ("pcie_",)),
    ("NVLink", ("nvlink_",)),
    ("Jobs", ("job_",)),
    ("Node and gpumon itself", ("",)),
)


def metrics_page() -> str:
    """Return the page."""
    parts = [_HEAD]
    left = list(METRICS)
    for title, prefixes in _SECTIONS:
        rows = [metric for metric in left if metric.name.startswith(prefixes)]
        left = [metric for metric in left if metric not in rows]
        parts.append(f"## {title}\n\n{table(('metric', 'type', 'labels', 'meaning'), map(_row, rows))}\n")
    sources = [
        (f"`{reading.key}`", reading.unit, reading.source, f"`{PREFIX}{reading.metric}`" if reading.metric else "")
        for reading in READINGS
    ]
    parts.append(
        "## What is read from a card\n\nThe slow readings, each with the driver's call and the time it averages over. "
        "Traffic, power and utilization within the second come from the sources in `hardware.md`.\n\n"
        f"{table(('reading', 'unit', 'source', 'exported as'), sources)}\n"
    )
    return "\n".join(parts)


def _row(metric: Metric) -> tuple[str, str, str, str]:
    kind = {"stateset": "state set"}.get(metric.kind, metric.kind)
    return f"`{PREFIX}{metric.name}`", kind, " ".join(f"`{label}`" for label in metric.labels), metric.help
