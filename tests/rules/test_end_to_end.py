"""Simulated nodes, gpumon, Prometheus, Alertmanager, and everybody's webhook: who is told what, in real time.

Both versions of the pair watch the same nodes, with the shipped rules and routes at thirty times their pace.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpumon.export.access import Access
from gpumon.export.answer import Site
from gpumon.export.publish import Publisher
from gpumon.export.server import Server
from gpumon.model.view import NodeView
from tests import views
from tests.app import daemon
from tests.rules import servers, stack

pytestmark = [pytest.mark.tools, pytest.mark.realtime]

PAIRS: dict[str, Callable[[str], str]] = {"2.42": servers.installed, "newest": servers.newest}
DEADLINE_S = 60.0  # from onset to the customer's webhook


def container(plan: str, number: int) -> str:
    """Return the start of the container id that the simulator gives to the job of a plan, by its place on the node."""
    return hashlib.sha256(f"{plan}/{number}".encode()).hexdigest()[:12]


def tenants(folder: Path, **owners: str) -> str:
    """Write a configuration that gives jobs to tenants by their container."""
    lines = ['[[tenant]]\nid = "acme"\n[[tenant]]\nid = "zeta"\n']
    lines += [f'[[rule]]\ntenant = "{tenant}"\ncgroup = "{pattern}"\n' for tenant, pattern in owners.items()]
    file = folder / "gpumon.toml"
    file.write_text("".join(lines), "utf-8")
    return str(file)


class Literal:
    """A node that shows one literal state, through gpumon's own exporter."""

    def __init__(self, view: NodeView) -> None:
        self.view = view
        self._publisher = Publisher(max_jobs=256)
        self._server = Server(
            "127.0.0.1:0",
            current=self._publish,
            mono_s=time.monotonic,
            site=Site(fixed={}, live={}),
            authorize=Access({}, {}, time.monotonic).authorize,
            handshake=None,
        )
        self.address = f"127.0.0.1:{self._server.start()}"
        self._started_s = time.monotonic()

    def _publish(self) -> object:
        age_s = time.monotonic() - self._started_s
        jobs = tuple(
            dataclasses.replace(
                job, class_seconds_total={job.verdict.job_class.value: age_s}, time_seconds_total={"compute": age_s}
            )
            for job in self.view.jobs
        )
        now = dataclasses.replace(self.view, mono_s=time.monotonic(), wall_s=time.time(), jobs=jobs)
        return self._publisher.publish(now, {})

    def stop(self) -> None:
        """Stop serving."""
        self._server.stop()


def literal(verdict: views.Verdict) -> NodeView:
    """Return a node with one job of acme."""
    return views.node_view(
        tuple(views.card_view(index) for index in range(4)), (views.job_view("container:lit", (0, 1, 2, 3), verdict),)
    )


BOUND = dataclasses.replace(views.COMMUNICATION, findings=(), scaling=None)


@contextlib.contextmanager
def simulated(folder: Path, scenario: str, **owners: str) -> Iterator[daemon.Running]:
    """Run gpumon on a simulated node whose jobs have owners."""
    folder.mkdir()
    with daemon.running(folder, "--simulate", scenario, "--config", tenants(folder, **owners)) as node:
        node.wait(lambda: node.port)
        yield node


def wait(condition: Callable[[], bool], timeout_s: float) -> None:
    """Wait until a condition holds; whoever asserts says what is wrong if it does not."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s and not condition():
        time.sleep(0.2)


# (alert, node) that each receiver must get. What else a slow job may be told of is in ALLOWED.
EXPECTED = {
    "customer-acme": {
        ("GpumonJobAddGpuSlowdown", "shared"),
        ("GpumonJobMisconfigured", "parallel"),
        ("GpumonJobGpuLost", "lost"),
        ("GpumonJobCommunicationBound", "slow"),
        ("GpumonJobCommunicationBound", "dying"),
    },
    "customer-zeta": {("GpumonJobAddGpuSlowdown", "shared")},
    "operations": {("GpumonGpuLost", "lost")},
}
ALLOWED = {
    (alert, node)
    for node in ("shared", "parallel")
    for alert in ("GpumonJobCommunicationBound", "GpumonJobMisconfigured", "GpumonJobAddGpuSlowdown")
}
LINK_ALERTS = {("GpumonPcieSaturated", "parallel"), ("GpumonUplinkSaturated", "shared")}


def test_the_right_person_is_told_once(tmp_path: Path) -> None:
    """Full links, a slowdown, tensor parallelism and a lost card: right receiver and text, each once, resolved once."""
    with contextlib.ExitStack() as keep:
        receiver = stack.Receiver()
        keep.callback(receiver.close)
        owners = {"acme": container("tenant-a", 0), "zeta": container("tenant-b", 1)}
        shared = keep.enter_context(simulated(tmp_path / "shared", "rtx4090-x8-two-tenants-one-uplink", **owners))
        parallel = keep.enter_context(simulated(tmp_path / "parallel", "rtx4090-x4-tp-prefill", acme="."))
        lost = keep.enter_context(simulated(tmp_path / "lost", "rtx5090-x4-card-lost", acme="."))
        slow, dying = Literal(literal(BOUND)), Literal(literal(BOUND))
        keep.callback(slow.stop)
        onset_s = time.monotonic()
        simulators = {"shared": shared, "parallel": parallel, "lost": lost}
        targets = {name: f"127.0.0.1:{node.port}" for name, node in simulators.items()}
        targets |= {"slow": slow.address, "dying": dying.address}
        for name, program in PAIRS.items():
            keep.enter_context(stack.running(tmp_path / name, targets, receiver, program, name))

        def got(name: str, who: str, status: str = "firing") -> set[tuple[str, str]]:
            return set(receiver.told(f"{name}/{who}", status))

        wait(lambda: all(alerts <= got(name, who) for name in PAIRS for who, alerts in EXPECTED.items()), 120.0)
        wait(lambda: False, 5.0)  # time for a second copy
        for name in PAIRS:
            for who, alerts in EXPECTED.items():
                assert alerts <= got(name, who), (name, who, got(name, who))
                assert got(name, who) <= alerts | ALLOWED, (name, who)
                assert not got(name, who, "resolved"), (name, who)
            assert got(name, "operations-info") & LINK_ALERTS, name
            assert receiver.first_s(f"{name}/customer-acme", "slow") - onset_s < DEADLINE_S
        _assert_separate(receiver, owners)
        _assert_no_copies(receiver)
        _assert_texts(receiver)

        # The cure of one job, and the death of a node's gpumon, which is not the end of what it told.
        slow.view = literal(views.COMPUTE)
        dying.stop()
        cured, down = {("GpumonJobCommunicationBound", "slow")}, {("GpumonDown", "dying")}
        wait(
            lambda: all(
                cured <= got(name, "customer-acme", "resolved") and down <= got(name, "operations") for name in PAIRS
            ),
            60.0,
        )
        wait(lambda: False, 15.0)  # by now the alert of the dead node has ended in Prometheus too
        for name in PAIRS:
            assert receiver.told(f"{name}/customer-acme", "resolved") == list(cured), name
            assert not got(name, "customer-zeta", "resolved"), name
            assert down <= got(name, "operations"), name
        _assert_no_copies(receiver)


def _assert_separate(receiver: stack.Receiver, owners: dict[str, str]) -> None:
    """No tenant got an alert about another's job."""
    for delivery in receiver.deliveries:
        for alert in delivery.document["alerts"]:
            labels = alert["labels"]
            if delivery.receiver.rpartition("/")[2].startswith("customer-"):
                assert delivery.receiver.endswith(f"customer-{labels['tenant']}")
                if labels["instance"] == "shared":
                    assert labels["gpu_job"].startswith(f"container:{owners[labels['tenant']]}")


def _assert_no_copies(receiver: stack.Receiver) -> None:
    """Every message says something that the one before about the same job did not."""
    seen: set[tuple[str, str, frozenset[tuple[str, str]]]] = set()
    for delivery in receiver.deliveries:
        said = frozenset((alert["fingerprint"], alert["status"]) for alert in delivery.document["alerts"])
        key = (delivery.receiver, delivery.document["groupKey"], said)
        assert key not in seen, key
        seen.add(key)


def _assert_texts(receiver: stack.Receiver) -> None:
    """Each message says what is so and what to do, in two languages, without leftovers."""
    texts = {
        (alert["labels"]["alertname"], alert["labels"]["instance"], alert["labels"].get("finding")): alert[
            "annotations"
        ]
        for delivery in receiver.deliveries
        for alert in delivery.alerts("firing")
    }
    slowdown = texts["GpumonJobAddGpuSlowdown", "shared", None]
    assert "It has 2 cards. 1 of them would be as fast." in slowdown["description"]
    assert "About 50 % of each step" in texts["GpumonJobCommunicationBound", "slow", None]["description"]
    assert "一张卡放得下模型" in texts["GpumonJobMisconfigured", "parallel", "tp_over_pcie"]["advice_zh"]
    assert "1 of the job's cards are lost. It has 4 cards." in texts["GpumonJobGpuLost", "lost", None]["description"]
    for each in texts.values():
        assert not [mark for text in each.values() for mark in ("<no value>", "error exp") if mark in text]
