"""The dashboards drawn by Grafana's own front-end packages: no panel in error, unsupported, or empty without a word.

Collected only where DASHBOARD_PREVIEW names the folder of the drawing tool with its packages installed.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.grafana.conftest import HOUR_S, Watched
from tests.grafana.dashboards import FOLDER, NAMES

# The first test waits for the simulation, the imports and the scrapes of all.
pytestmark = [pytest.mark.tools, pytest.mark.realtime, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def drawn(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The tool's report on all five dashboards over the last hour of the made-up history."""
    folder = tmp_path_factory.mktemp("drawn")
    report = folder / "report.json"
    command = [
        str(Path(os.environ["DASHBOARD_PREVIEW"]) / "preview"),
        *(str(FOLDER / f"{name}.json") for name in NAMES),
        *("--prometheus", watched.prometheus.url),
        *("--out", str(folder / "pictures"), "--json", str(report)),
        *("--from", str(round((watched.end_s - HOUR_S) * 1000)), "--to", str(round(watched.end_s * 1000))),
        *("--expand-rows", "--fail-on-empty", "--fail-on-unsupported", "--timeout", "120", "--quiet"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return list(json.loads(report.read_text("utf-8"))["dashboards"])


def test_every_dashboard_is_drawn(drawn: list[dict[str, Any]]) -> None:
    """All are drawn, and Grafana knows every option and transformation that they use."""
    assert len(drawn) == len(NAMES)
    for dashboard in drawn:
        assert dashboard["ok"]
        assert [note for note in dashboard["notes"] if "annotation" not in note] == []


def test_tables_fit(drawn: list[dict[str, Any]]) -> None:
    """No table is wider than its panel: nothing is hidden until somebody scrolls."""
    for dashboard in drawn:
        wide = [panel["title"] for panel in dashboard["panels"] if "x" in (panel.get("scrolls") or "")]
        assert wide == [], dashboard["title"]
