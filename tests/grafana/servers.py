"""A real Prometheus and a real VictoriaMetrics as child processes, and what is asked of them."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml


def program(name: str) -> str:
    """Return the path of a program; fails with how to get it."""
    found = shutil.which(name)
    assert found, f"{name} is missing: apt-get install {name}"
    return found


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Answers:
    """The query API of one server."""

    def __init__(self, url: str, **always: str) -> None:
        self.url = url
        self._always = always

    def get(self, path: str, **params: str) -> Any:
        """Return the `data` of an answer; an error of the server is raised with its sentence."""
        query = urllib.parse.urlencode({**params, **self._always}).encode()
        try:
            with urllib.request.urlopen(f"{self.url}{path}", query, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.read().decode()}\n{params.get('query', '')}") from None

    def instant(self, expr: str, at_s: float | None = None) -> list[dict[str, Any]]:
        """Return the result of an instant query."""
        when = {} if at_s is None else {"time": f"{at_s:.3f}"}
        return list(self.get("/api/v1/query", query=expr, **when)["result"])

    def over(self, expr: str, start_s: float, end_s: float, step_s: float) -> list[dict[str, Any]]:
        """Return the result of a range query."""
        span = {"start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:g}"}
        return list(self.get("/api/v1/query_range", query=expr, **span)["result"])


@contextlib.contextmanager
def prometheus(
    folder: Path, *, targets: Sequence[str] = (), rules: Sequence[Path] = (), scrape_s: int = 5
) -> Iterator[Answers]:
    """Run Prometheus on the blocks that lie in `folder`/data, scraping the targets."""
    settings = {
        "global": {"scrape_interval": f"{scrape_s}s", "evaluation_interval": "5s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {"job_name": "gpumon", "honor_labels": True, "static_configs": [{"targets": list(targets)}]}
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings), "utf-8")
    port = free_port()
    command = [
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--storage.tsdb.retention.time=30d",
        "--log.level=warn",
    ]
    with _running(command, folder / "prometheus.log", f"http://127.0.0.1:{port}", "/-/ready") as answers:
        yield answers


@contextlib.contextmanager
def victoria(folder: Path, **always: str) -> Iterator[Answers]:
    """Run VictoriaMetrics; `always` are parameters added to every question, as a proxy would."""
    port = free_port()
    command = [
        program("victoria-metrics"),
        f"-storageDataPath={folder}",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-retentionPeriod=3",
        "-loggerLevel=ERROR",
        "-search.latencyOffset=0s",
    ]
    with _running(command, folder.with_suffix(".log"), f"http://127.0.0.1:{port}", "/health") as answers:
        answers._always.update(always)
        yield answers


def import_blocks(file: Path, data: Path) -> None:
    """Import an OpenMetrics file as blocks, as anybody backfills a Prometheus."""
    command = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(file), str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def evaluated(
    answers: Answers, rule_files: Sequence[Path], start_s: float, end_s: float, step_s: float
) -> Iterator[str]:
    """Yield `series value time` of what recording and alerting rules would have written, had they run all the time.

    Prometheus backfills recording rules only; this also gives ALERTS, firing once `for` has passed.
    """
    for file in rule_files:
        for group in yaml.safe_load(file.read_text("utf-8"))["groups"]:
            for rule in group["rules"]:
                yield from _of_rule(answers, rule, start_s, end_s, step_s)


def _of_rule(answers: Answers, rule: Mapping[str, Any], start_s: float, end_s: float, step_s: float) -> Iterator[str]:
    own = {key: str(value) for key, value in rule.get("labels", {}).items()}
    pending_s = _seconds(rule.get("for", "0s"))
    for series in answers.over(rule["expr"], start_s, end_s, step_s):
        labels = {key: value for key, value in series["metric"].items() if key != "__name__"} | own
        if "alert" in rule:
            labels = {"alertname": rule["alert"], "alertstate": "firing"} | labels
        text = ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(labels.items()))
        name = f"{rule.get('record', 'ALERTS')}{{{text}}}"
        since_s = last_s = None
        for when_s, value in series["values"]:
            if last_s is None or when_s - last_s > 2 * step_s:
                since_s = when_s
            last_s = when_s
            assert since_s is not None
            if "record" in rule:
                yield f"{name} {value} {when_s}"
            elif when_s - since_s >= pending_s:
                yield f"{name} 1 {when_s}"


def _seconds(text: str) -> float:
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


@contextlib.contextmanager
def _running(command: Sequence[str], log: Path, url: str, ready: str) -> Iterator[Answers]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            deadline_s = time.monotonic() + 60
            while True:
                assert process.poll() is None and time.monotonic() < deadline_s, log.read_text("utf-8")
                with contextlib.suppress(OSError), urllib.request.urlopen(url + ready, timeout=5):
                    break
                time.sleep(0.1)
            yield Answers(url)
        finally:
            process.terminate()
            process.wait(20)
