"""Nodes behind NAT: the agent's configuration as shipped, against a real Prometheus that receives."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from tests.app.certificates import certificate
from tests.app.daemon import PROJECT, running

pytestmark = [pytest.mark.tools, pytest.mark.realtime]

AGENT = PROJECT / "deploy/prometheus/agent.yml"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def prometheus(folder: Path, config: Path, *flags: str) -> Iterator[int]:
    """Run Prometheus and yield its port."""
    port = free_port()
    with (folder / f"{config.stem}.log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}", *flags],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        try:
            yield port
        finally:
            process.kill()
            process.wait()


def test_samples_arrive_over_tls_under_the_nodes_name(tmp_path: Path) -> None:
    """What gpumon serves on loopback arrives at the receiver by remote write, labels kept, `instance` the node's."""
    certificate(tmp_path, "receiver")
    (tmp_path / "password").write_text("secret\n")
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    web = tmp_path / "web.yml"
    web.write_text(
        f"tls_server_config: {{cert_file: cert.pem, key_file: key.pem}}\nbasic_auth_users: {{node-7: '{hashed}'}}\n"
    )
    (tmp_path / "receiver.yml").write_text("global: {}\n")
    with running(tmp_path, "--simulate", "rtx5090-x8-ddp-bound") as daemon:
        daemon.wait(lambda: daemon.value("nvml_up") == 1)
        receiving = ("--web.enable-remote-write-receiver", f"--web.config.file={web}", "--storage.tsdb.path=tsdb")
        with prometheus(tmp_path, tmp_path / "receiver.yml", *receiving) as receiver:
            text = AGENT.read_text("utf-8")
            for shipped, here in {
                "NODE_NAME": "node-7",
                "https://RECEIVER/": f"https://localhost:{receiver}/",
                "127.0.0.1:9836": f"127.0.0.1:{daemon.port}",
                "scrape_interval: 15s": "scrape_interval: 1s",
                "/etc/prometheus/gpumon-receiver.password": str(tmp_path / "password"),
                "    queue_config:": f"    tls_config: {{ca_file: {tmp_path / 'cert.pem'}}}\n    queue_config:",
            }.items():
                assert shipped in text
                text = text.replace(shipped, here)
            config = tmp_path / "agent.yml"
            config.write_text(text)
            with prometheus(tmp_path, config, "--enable-feature=agent", "--storage.agent.path=agent"):
                asked = Asked(receiver, tmp_path)
                daemon.wait(lambda: len(asked.series('gpumon_gpu_up{instance="node-7"} == 1')) == 8)
                (job,) = daemon.wait(lambda: asked.series("count by (instance, gpu_job) (gpumon_job_bottleneck)"))
                assert job["metric"]["instance"] == "node-7"
                assert job["metric"]["gpu_job"] == daemon.state()["jobs"][0]["gpu_job"]
                assert asked.series('up{job="gpumon"}')
                assert not asked.series('{__name__=~"go_.*|prometheus_.*"}')


class Asked:
    """Queries a Prometheus that wants TLS and a password."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port = port
        self._folder = folder

    def series(self, query: str) -> list[dict[str, Any]]:
        """Return the instant vector of a query."""
        said = subprocess.run(
            [
                *("curl", "--silent", "--fail", "--cacert", self._folder / "cert.pem", "--user", "node-7:secret"),
                f"https://localhost:{self._port}/api/v1/query?query={urllib.parse.quote(query)}",
            ],
            capture_output=True,
            check=False,
        )
        if said.returncode != 0:
            raise ConnectionError(said.stderr)
        return list(json.loads(said.stdout)["data"]["result"])


def test_the_shipped_file_is_valid() -> None:
    """The file passes promtool's check of an agent's configuration as it is."""
    done = subprocess.run(
        ["promtool", "check", "config", "--agent", "--syntax-only", str(AGENT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "SUCCESS" in done.stdout
