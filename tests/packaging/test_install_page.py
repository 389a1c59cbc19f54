"""docs/install.md, followed word for word on a bare Debian 12."""

from __future__ import annotations

import json
import time

import pytest

from tests.packaging.commands import PROJECT
from tests.packaging.container import Booted
from tests.packaging.page import blocks

pytestmark = [pytest.mark.tools, pytest.mark.realtime]


def test_a_stranger_with_a_bare_debian(node: Booted) -> None:
    """From the page to a hardened service on a simulated node, reached over TLS, in less than five minutes."""
    node.call("dpkg", "--purge", "gpumon-exporter")
    start_s = time.monotonic()
    install, simulate, settings, attribution, secure = blocks("node")

    assert "gpumon_nvml_up 0" in shell(node, install)
    # The state is asked for in the instant the service is ready: a verdict takes longer.
    state = json.loads(shell(node, simulate))
    assert state["node"]["simulated"] is True
    assert len(state["gpus"]) == 8
    shell(node, settings)
    node.wait(lambda: "gpumon_node_gpus_expected 8" in node.page("/metrics"), "the reload")
    shell(node, attribution)
    assert "cap_sys_ptrace" in node.property("AmbientCapabilities")
    metrics = shell(node, secure)
    assert "gpumon_node_simulated 1" in metrics
    assert "curl: (22)" in shell(
        node, "curl --silent --show-error --fail --insecure https://localhost:9836/metrics 2>&1 || true"
    )
    assert node.property("ActiveState") == "active"
    assert time.monotonic() - start_s < 120


def shell(node: Booted, commands: str) -> str:
    """Run lines of the page as root in root's home, stopping at the first that fails."""
    return node.call("sh", "-ec", f"cd /root\n{commands}")


def test_what_the_page_builds_is_what_is_tested() -> None:
    """The build commands of the page are those the fixtures run."""
    page = (PROJECT / "docs/install.md").read_text("utf-8")
    assert "deploy/debian/build 3.11 dist" in page
    assert blocks("image") == ["docker build --tag gpumon --file deploy/docker/Dockerfile .\n"]
