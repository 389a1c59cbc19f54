"""One Prometheus for all: a simulated daemon that is really scraped, and made-up history of other nodes beside it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.app.daemon import running
from tests.grafana import history, servers
from tests.grafana.dashboards import NAMES, RULES, asked, load, metrics_in, panels
from tests.grafana.history import Node, Phase, Span
from tests.grafana.servers import Answers

collect_ignore = []
if sys.version_info < (3, 11):
    collect_ignore.append("test_generated.py")  # the library that writes dashboards asks for 3.11
if "DASHBOARD_PREVIEW" not in os.environ:
    collect_ignore.append("test_drawn.py")  # needs the drawing tool, which is no part of this project: see .ci/run

HOUR_S = 3600.0
WEEK_S = 7 * 24 * HOUR_S
# Several tenants on one shared link, a week of three tenants, a lost card, and cards with NVLink, GPM and ECC.
NODES = (
    Node("node-1:9836", (Phase("rtx4090-x8-two-tenants-one-uplink", 40, 70),)),
    Node("node-2:9836", (Phase("mixed-node", 40, 70),)),
    Node(
        "node-3:9836",
        (Phase("rtx5090-x4-card-lost", 25, 44, until_s=0.6 * HOUR_S), Phase("rtx5090-x4-card-lost", 60, 80)),
    ),
    Node("node-4:9836", (Phase("h100-sxm-x8-ddp", 40, 60),)),
)
LAST_HOUR = (Span(HOUR_S, 15),)
WEEK = (Span(WEEK_S, 300), Span(HOUR_S, 15))
RULE_FILES = tuple(RULES / name for name in ("gpumon.rules.yml", "gpumon.dashboards.rules.yml", "gpumon.alerts.yml"))


@dataclass(frozen=True, slots=True)
class Watched:
    """What was set up."""

    prometheus: Answers
    live: str  # instance of the daemon
    end_s: float  # of the made-up history
    samples: tuple[Path, ...]  # OpenMetrics files of the history's last hour, and of what rules make of it


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Simulate, import, evaluate the rules, scrape a running daemon until its jobs are judged."""
    folder = tmp_path_factory.mktemp("prometheus")
    tenants = folder / "gpumon.toml"
    tenants.write_text(history.TENANTS, "utf-8")
    arguments = ("--simulate", "rtx5090-x8-mixed-jobs", "--config", str(tenants))
    with running(folder, *arguments) as daemon:
        live = f"127.0.0.1:{daemon.wait(lambda: daemon.port)}"
        end_s = float(int(time.time()))
        samples = _history(folder, tenants, end_s)
        with servers.prometheus(folder, targets=[live], rules=RULE_FILES) as answers:
            # Three scrapes after the verdicts: rates over a minute, and the recording rules, have their values.
            judged = f'count_over_time(gpumon_job_time_ratio{{instance="{live}",state="idle"}}[1m]) >= 3'
            ruled = f'gpumon_tenant:gpu_power{{instance="{live}"}}'
            daemon.wait(lambda: answers.instant(judged) and answers.instant(ruled), 120)
            yield Watched(answers, live, end_s, samples)


def _history(folder: Path, tenants: Path, end_s: float) -> tuple[Path, ...]:
    seconds = {phase.scenario: 0 for node in NODES for phase in node.phases}
    for node in NODES:
        for phase in node.phases:
            seconds[phase.scenario] = max(seconds[phase.scenario], phase.to_s)
    with ProcessPoolExecutor(2) as pool:
        simulate = partial(history.simulate, tenants=tenants)
        pages = dict(zip(seconds, pool.map(simulate, seconds, seconds.values()), strict=True))
    used = _names_used()
    made = []
    for node in NODES:
        at = history.times(end_s, WEEK if node.instance == "node-2:9836" else LAST_HOUR)
        wanted = (line for line in history.lines(node, pages, at) if line.partition("{")[0] in used)
        made.append(history.written(folder / f"{node.instance}.om", wanted))
        servers.import_blocks(made[-1], folder / "data")
    with servers.prometheus(folder) as answers:
        evaluated = servers.evaluated(answers, RULE_FILES, end_s - HOUR_S, end_s, 30)
        made.append(history.written(folder / "rules.om", evaluated))
    servers.import_blocks(made[-1], folder / "data")
    return tuple(made)


def _names_used() -> set[str]:
    """Return the series that dashboards and rules ask for: a week of all others would only cost time."""
    names = {"up"}
    for file in RULE_FILES:
        names |= metrics_in(file.read_text("utf-8").replace('"', "'").replace("'", " "))
    for name in NAMES:
        dashboard = load(name)
        for variable in dashboard["templating"]["list"]:
            names |= metrics_in(variable.get("definition", ""))
        for panel in panels(dashboard):
            for query in asked(panel):
                names |= metrics_in(query.expr)
    return names
