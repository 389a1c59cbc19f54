"""Write the dashboards, the rules that one of them needs, and Grafana's own alerts: `python -m grafana.generate`.

Development only: the library it uses asks for Python 3.11. A test compares what is committed with what this gives.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

with warnings.catch_warnings():
    # The library would rather have the second schema, which Grafana 10 and 11 cannot read.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana.source import alerting, fleet, itself, job, node, tenant, tenant_rules

from grafana_foundation_sdk.cog.encoder import JSONEncoder

PROJECT = Path(__file__).resolve().parents[1]

ALERTS = "deploy/prometheus/gpumon.alerts.yml"
DASHBOARDS = {"fleet": fleet, "node": node, "job": job, "tenant": tenant, "gpumon": itself}


def files() -> dict[str, str]:
    """Return every generated file: its path from the project's root, and its text."""
    made = {f"grafana/dashboards/{name}.json": _json(module.dashboard_()) for name, module in DASHBOARDS.items()}
    made["deploy/prometheus/gpumon.dashboards.rules.yml"] = tenant_rules.rules_file()
    made["grafana/provisioning/alerting/gpumon.yaml"] = alerting.provisioning(PROJECT / ALERTS)
    return made


def main() -> None:
    """Write them."""
    for name, text in files().items():
        path = PROJECT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def _json(model: object) -> str:
    return json.dumps(model, cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
