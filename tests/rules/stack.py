"""Prometheus and Alertmanager as an operator runs them, on loopback: the shipped files at thirty times their pace."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.rules.unit import PROJECT, RULE_FILES

PACE = 30
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def paced(text: str) -> str:
    """Return an expression or duration with every duration in it shortened, to no less than a second."""
    return re.sub(
        r"(?<![\w.])(\d+)([smhd])(?!\w)", lambda found: f"{max(1, int(found[1]) * _UNITS[found[2]] // PACE)}s", text
    )


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass(frozen=True)
class Delivery:
    """One notification as Alertmanager posted it."""

    receiver: str
    at_s: float  # monotonic
    document: dict[str, Any]

    def alerts(self, status: str) -> list[dict[str, Any]]:
        """Return its alerts that fire or are resolved."""
        return [alert for alert in self.document["alerts"] if alert["status"] == status]


class Receiver:
    """Everybody's webhook: remembers who got what, and when."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.deliveries.append(Delivery(self.path[1:], time.monotonic(), json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def first_s(self, receiver: str, instance: str) -> float:
        """Return when a receiver first heard of a node."""
        return min(
            delivery.at_s
            for delivery in list(self.deliveries)
            if delivery.receiver == receiver
            and any(alert["labels"]["instance"] == instance for alert in delivery.document["alerts"])
        )

    def told(self, receiver: str, status: str) -> list[tuple[str, str]]:
        """Return (alert, instance) of every notification that a receiver got of a status, repeated as it was."""
        return [
            (alert["labels"]["alertname"], alert["labels"]["instance"])
            for delivery in list(self.deliveries)
            if delivery.receiver == receiver
            for alert in delivery.alerts(status)
        ]


@contextlib.contextmanager
def running(
    folder: Path, targets: dict[str, str], receiver: Receiver, program: Callable[[str], str], name: str
) -> Iterator[None]:
    """Run the pair over these targets; receivers get the path `name/receiver`.

    Args:
        targets: host and port by the instance it shall be called.
        program: path of a program by its name.
    """
    folder.mkdir()
    prometheus, alertmanager = free_port(), free_port()
    (folder / "alertmanager.yml").write_text(_alertmanager(receiver, name), "utf-8")
    for path in RULE_FILES:
        (folder / path.name).write_text(_rules(path), "utf-8")
    (folder / "prometheus.yml").write_text(_prometheus(folder, targets, alertmanager), "utf-8")
    commands = (
        [
            program("prometheus-alertmanager"),
            f"--config.file={folder}/alertmanager.yml",
            f"--storage.path={folder}/alertmanager",
            f"--web.listen-address=127.0.0.1:{alertmanager}",
            "--cluster.listen-address=",
        ],
        [
            program("prometheus"),
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/prometheus",
            f"--web.listen-address=127.0.0.1:{prometheus}",
            "--rules.alert.resend-delay=2s",
            "--rules.alert.for-grace-period=20s",
        ],
    )
    processes = []
    try:
        for number, command in enumerate(commands):
            with (folder / f"log{number}").open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder))
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(20)


def _rules(path: Path) -> str:
    document = yaml.safe_load(path.read_text("utf-8"))
    for group in document["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            for key in ("expr", "for", "keep_firing_for"):
                if key in rule:
                    rule[key] = paced(rule[key])
    return yaml.safe_dump(document, allow_unicode=True, width=10**9)


def _prometheus(folder: Path, targets: dict[str, str], alertmanager: int) -> str:
    document = yaml.safe_load((PROJECT / "deploy/prometheus/scrape.example.yml").read_text("utf-8"))
    document["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    document["rule_files"] = [str(folder / path.name) for path in RULE_FILES]
    document["alerting"]["alertmanagers"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{alertmanager}"]}]
    # A label that every target has: with honor_labels it does not touch the tenants of the jobs.
    document["scrape_configs"][0]["static_configs"] = [
        {"targets": [address], "labels": {"instance": instance, "tenant": "infrastructure"}}
        for instance, address in targets.items()
    ]
    return yaml.safe_dump(document)


def _alertmanager(receiver: Receiver, name: str) -> str:
    document = yaml.safe_load((PROJECT / "deploy/alertmanager/alertmanager.example.yml").read_text("utf-8"))
    del document["global"], document["templates"]
    document["route"] |= {"group_wait": "1s", "group_interval": "3s"}
    document["receivers"] = [
        {
            "name": each["name"],
            "webhook_configs": [
                {"url": f"http://127.0.0.1:{receiver.port}/{name}/{each['name']}", "send_resolved": True}
            ],
        }
        for each in document["receivers"]
    ]
    return yaml.safe_dump(document)
