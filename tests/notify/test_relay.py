"""Alertmanager's notifications passed on once, whoever repeats them (cases/notify-duplicates.json)."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from gpumon.notify import relay
from gpumon.notify.outbox import Waiting
from gpumon.notify.relay_server import MOST_BYTES, RelayServer
from gpumon.notify.target import OPERATOR, Secret, Target

HERE = Secret(file="/nowhere")
TARGETS = (
    Target("acme-1", "acme", "wecom", HERE, language="zh"),
    Target("zeta-2", "zeta", "webhook", HERE),
    Target("@operator-3", OPERATOR, "webhook", HERE),
)
DAY_S = 86_400.0


def body(fingerprints: list[str], status: str, starts_s: float, **labels: str) -> bytes:
    """Return a notification as Alertmanager posts it."""
    stamp = datetime.fromtimestamp(starts_s, timezone.utc).isoformat()
    alerts = [
        {
            "status": status,
            "labels": {"alertname": "GpumonJobHung", "audience": "customer", "tenant": "acme", **labels},
            "annotations": {
                "summary": f"Job {name} is stuck",
                "summary_zh": f"任务 {name} 卡住了",
                "advice_zh": "看日志。",
            },
            "startsAt": stamp,
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus.example",
            "fingerprint": name,
        }
        for name in fingerprints
    ]
    return json.dumps({"version": "4", "groupKey": "g", "receiver": "r", "status": status, "alerts": alerts}).encode()


class Passing:
    """A relay's memory over several notifications."""

    def __init__(self) -> None:
        self.relayed: dict[str, float] = {}

    def post(self, now_s: float, text: bytes) -> list[Waiting]:
        """Return what one notification gives."""
        passed = relay.passed_on(relay.read(text), self.relayed, TARGETS, now_s=now_s, repeat_s=DAY_S)
        self.relayed = dict(passed.relayed)
        return list(passed.messages)


def test_duplicates_and_stale_batches(shared_dir: Path) -> None:
    """Retries and a second Alertmanager give one message; what began long ago is the operator's to know."""
    case = json.loads((shared_dir / "cases" / "notify-duplicates.json").read_text("utf-8"))
    passing, told = Passing(), []
    for row in case["deliveries"]:
        if "body" in row:
            with pytest.raises(ValueError, match=r"version|no notification"):
                passing.post(
                    row["t"], b'{"version": "4", ' if "truncated" in row["body"] else b'{"version":"9","alerts":[]}'
                )
            continue
        text = body(row["fingerprints"], row["status"], row.get("starts_at", 0.0))
        told += [(row["t"], each.target, each.message.title) for each in passing.post(row["t"], text)]
    assert told == [
        (0, "acme-1", "任务 f1 卡住了"),
        (300, "acme-1", "任务 f2 卡住了"),
        (400, "acme-1", "已恢复：任务 f1 卡住了"),
        (90000, "@operator-3", "Old alerts were not passed on"),
    ]


def test_repeats_after_the_configured_time_only() -> None:
    """Alertmanager's own repeats pass once a day, however often they come."""
    passing = Passing()
    hours = [n for n in range(49) if passing.post(n * 3600.0, body(["f1"], "firing", 0.0))]
    assert hours == [0, 24, 48]


def test_a_late_copy_of_what_is_over_is_nothing() -> None:
    """A firing copy that overtakes nothing is not told after the end; a new beginning is."""
    passing = Passing()
    passing.post(0.0, body(["f1"], "firing", 0.0))
    passing.post(60.0, body(["f1"], "resolved", 0.0))
    assert passing.post(65.0, body(["f1"], "firing", 0.0)) == []
    assert passing.post(66.0, body(["f1"], "resolved", 0.0)) == []
    assert len(passing.post(600.0, body(["f1"], "firing", 590.0))) == 1


@pytest.mark.parametrize(
    ("labels", "target"),
    [
        ({"tenant": "acme"}, "acme-1"),
        ({"tenant": "zeta"}, "zeta-2"),
        ({"tenant": "acme\n"}, "@operator-3"),
        ({"tenant": "@operator"}, "@operator-3"),
        ({"tenant": ""}, "@operator-3"),
        ({"audience": "operator"}, "@operator-3"),
    ],
)
def test_owners(labels: dict[str, str], target: str) -> None:
    """Each alert goes to its tenant's targets alone; what has none is the operator's."""
    (message,) = Passing().post(0.0, body(["f1"], "firing", 0.0, **labels))
    assert message.target == target


def test_words() -> None:
    """Summary and advice come in the target's language, several alerts in one message."""
    (message,) = Passing().post(0.0, body(["f1", "f2"], "firing", 0.0, severity="critical"))
    assert message.message.title == "任务 f1 卡住了 (+1)"
    assert message.message.text == "任务 f1 卡住了\n怎么办：看日志。\n\n任务 f2 卡住了\n怎么办：看日志。"
    assert message.message.severity == "critical"


class Listening:
    """A relay's server on loopback."""

    def __init__(self, token: str = "") -> None:
        self.bodies: list[bytes] = []
        self.server = RelayServer("127.0.0.1", 0, self._accept, token)
        threading.Thread(target=self.server.serve, daemon=True).start()

    def _accept(self, text: bytes) -> None:
        relay.read(text)
        self.bodies.append(text)

    def post(self, text: bytes, path: str = "/alertmanager", **headers: Any) -> int:
        """Return the status of a post."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", text, headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture
def listening() -> Iterator[Listening]:
    """A server without a token."""
    one = Listening()
    yield one
    one.server.close()


def test_bad_bodies_are_refused_for_good(listening: Listening) -> None:
    """What cannot be read is answered 4xx, so that it is not repeated, and gives nothing."""
    good = body(["f1"], "firing", 0.0)
    assert listening.post(good) == 200
    assert listening.post(good[:-20]) == 400
    assert listening.post(b'{"version": "5", "alerts": []}') == 400
    assert listening.post(b'{"version": "4", "alerts": [{"status": 3}]}') == 400
    assert listening.post(good, path="/") == 404
    assert listening.bodies == [good]


def test_huge_bodies_are_not_read(listening: Listening) -> None:
    """A length beyond the bound is refused before its body."""
    assert listening.post(b"x", **{"Content-Length": str(MOST_BYTES + 1)}) == 413


def test_token() -> None:
    """With a token only those who have it may post."""
    guarded = Listening(token="s3cret")
    good = body(["f1"], "firing", 0.0)
    assert guarded.post(good) == 401
    assert guarded.post(good, Authorization="Bearer wrong") == 401
    assert guarded.post(good, Authorization="Bearer s3cret") == 200
    guarded.server.close()
