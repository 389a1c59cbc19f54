"""The container image: small, an ordinary user, read-only, healthy, stopped at once; and the stack around it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.commands import PROJECT, call
from tests.packaging.engine import IMAGE, Engine

pytestmark = [pytest.mark.tools, pytest.mark.realtime]

DOCKER = PROJECT / "deploy/docker"
# Newer than the docker-compose that Debian has; the compose specification has both.
LATER_KEYS = ("name", "cgroup")
LARGEST_MIB = 200  # over the base


@pytest.fixture(scope="module")
def engine(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Images of gpumon, built as the Dockerfile says."""
    # Beside the tree, in memory.
    folder = bare.parent / "engine"
    folder.mkdir()
    made = Engine(folder)
    try:
        made.import_base(bare)
        made.build(DOCKER / "Dockerfile", PROJECT, IMAGE, *made.wheels())
        yield made
    finally:
        made.end()


def get(url: str) -> str:
    """Return a document."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return str(answer.read().decode())


def wait(condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    """Return the first true value of the condition."""
    until_s = time.monotonic() + timeout_s
    problem: object = "it stayed false"
    while time.monotonic() < until_s:
        try:
            if value := condition():
                return value
        except (OSError, subprocess.CalledProcessError) as error:
            problem = error
        time.sleep(0.2)
    raise AssertionError(f"not within {timeout_s} s: {problem}")


def test_the_image_runs_with_nothing_granted(engine: Engine) -> None:
    """Read-only, without capabilities, as an ordinary user: serves, is healthy, releases, and stops within 3 s."""
    engine.run(
        "gpumon",
        *("--read-only", "--tmpfs", "/tmp", "--cap-drop", "all", "--security-opt", "no-new-privileges"),
        command=("run", "--listen", "127.0.0.1:9836", "--simulate", "rtx5090-x8-ddp-bound"),
    )
    wait(lambda: "gpumon_job_bottleneck{" in get("http://127.0.0.1:9836/metrics"))
    status = engine.call("exec", "gpumon", "cat", "/proc/1/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert fields["Name"] == "gpumon"
    assert fields["Uid"].split() == ["10836"] * 4
    assert fields["CapEff"] == "0000000000000000"
    assert "Read-only" in _refused(engine, "touch", "/opt/gpumon/x")
    engine.call("exec", "gpumon", "touch", "/var/lib/gpumon/x")
    engine.call("exec", "gpumon", *health_check(engine))
    assert "released for 2 s" in engine.call("exec", "gpumon", "gpumon", "release", "--for", "2s")
    start_s = time.monotonic()
    engine.call("stop", "--time", "10", "gpumon")
    assert time.monotonic() - start_s < 3.0
    assert engine.call("inspect", "--format", "{{.State.ExitCode}}", "gpumon") == "0\n"
    engine.call("rm", "gpumon")


def _refused(engine: Engine, *command: str) -> str:
    with pytest.raises(subprocess.CalledProcessError) as raised:
        engine.call("exec", "gpumon", *command)
    return str(raised.value.stderr)


def test_an_unhealthy_container_is_found(engine: Engine) -> None:
    """The health check fails where nothing serves."""
    program, *arguments = health_check(engine)
    with pytest.raises(subprocess.CalledProcessError):
        engine.try_once(IMAGE, program, *arguments)


def health_check(engine: Engine) -> list[str]:
    """Return the command of the image's health check."""
    (image,) = json.loads(engine.call("image", "inspect", IMAGE))
    kind, *command = image["Healthcheck"]["Test"]
    assert kind == "CMD"
    return list(command)


def test_the_image_is_small(engine: Engine) -> None:
    """Over its base it brings Python's packages and nothing to build with."""
    (image,) = json.loads(engine.call("image", "inspect", IMAGE))
    (base,) = json.loads(engine.call("image", "inspect", "localhost/debian:12"))
    assert (image["Size"] - base["Size"]) / 2**20 < LARGEST_MIB
    assert image["Config"]["User"] == "10836:10836"
    environ = dict(entry.split("=", 1) for entry in image["Config"]["Env"])
    assert environ["NVIDIA_DRIVER_CAPABILITIES"] == "utility"


def test_the_stack_answers(engine: Engine, tmp_path: Path) -> None:
    """The services find each other: Prometheus has the series of the node and our rules, and knows Alertmanager."""
    server_image(engine, "prometheus", "prometheus", tmp_path)
    server_image(engine, "alertmanager", "prometheus-alertmanager", tmp_path)
    # In place of the registry's images and of a network between containers.
    for service in ("simulated", "prometheus", "alertmanager"):
        run_service(engine, service)
    wait(lambda: "gpumon_job_bottleneck{" in get("http://127.0.0.1:9836/metrics"))
    query = "http://127.0.0.1:9090/api/v1/query?query=gpumon_gpu_up%7Binstance%3D%22node%22%7D"
    wait(lambda: len(json.loads(get(query))["data"]["result"]) == 8)
    rules = json.loads(get("http://127.0.0.1:9090/api/v1/rules"))["data"]["groups"]
    assert any(rule["name"] == "GpumonDown" for group in rules for rule in group["rules"])
    found = json.loads(get("http://127.0.0.1:9090/api/v1/alertmanagers"))["data"]["activeAlertmanagers"]
    assert [manager["url"] for manager in found] == ["http://alertmanager:9093/api/v2/alerts"]
    assert (
        "receiver: page" in json.loads(wait(lambda: get("http://127.0.0.1:9093/api/v2/status")))["config"]["original"]
    )


def server_image(engine: Engine, name: str, program: str, folder: Path) -> None:
    """Make an image like the registry's of a server that this machine has: its program, an ordinary user."""
    context = folder / name
    context.mkdir()
    found = shutil.which(program)
    assert found, f"{program} is missing"
    shutil.copy(found, context / "program")
    # Debian's programs look for their web pages and templates here.
    shutil.copytree("/usr/share/prometheus", context / "share")
    (context / "Dockerfile").write_text(
        "ARG BASE\nFROM ${BASE}\n"
        f"COPY program /bin/{name}\nCOPY share /usr/share/prometheus\n"
        f"RUN install -d -o 65534 -g 65534 /{name}\n"
        f'USER 65534\nENTRYPOINT ["/bin/{name}"]\n'
    )
    engine.build(context / "Dockerfile", context, f"localhost/{name}")


def run_service(engine: Engine, name: str) -> None:
    """Start a service of the compose file with podman, each of its settings kept but image and network."""
    service = composed()["services"][name]
    options = [f"--security-opt={option}" for option in service["security_opt"]]
    options += [f"--cap-drop={capability}" for capability in service["cap_drop"]]
    options += [f"--tmpfs={path}" for path in service.get("tmpfs", ())]
    options += [f"--add-host={host}:127.0.0.1" for host in ("node", "alertmanager")]
    for volume in service["volumes"]:
        source, _, target = volume.partition(":")
        path = (DOCKER / source).resolve() if source.startswith(".") else f"gpumon_{source}"
        options.append(f"--volume={path}:{target}")
    assert service["read_only"] is True
    image = IMAGE if service["image"] == "gpumon" else f"localhost/{name}"
    engine.run(name, "--read-only", *options, image=image, command=tuple(service["command"]))


def composed() -> dict[str, Any]:
    """Return the compose file with its variables at their defaults."""
    text = (DOCKER / "compose.yaml").read_text("utf-8")
    text = text.replace("${SCENARIO:-rtx5090-x8-ddp-bound}", "rtx5090-x8-ddp-bound")
    return dict(yaml.safe_load(text))


def test_the_compose_file_is_valid_and_private(tmp_path: Path) -> None:
    """docker-compose takes it; every port is on loopback, every root read-only, nothing is privileged, paths exist."""
    stack = composed()
    for service in stack["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "privileged" not in service
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert not source.startswith(".") or (DOCKER / source).resolve().exists(), source
            assert source.startswith(".") or source in stack["volumes"]
    assert stack["services"]["gpumon"]["pid"] == "host"
    older = (DOCKER / "compose.yaml").read_text("utf-8").splitlines()
    older = [line for line in older if not line.strip().startswith(tuple(f"{key}: " for key in LATER_KEYS))]
    (tmp_path / "compose.yaml").write_text("\n".join(older))
    command = ("docker-compose", "--project-directory", str(DOCKER), "--file", str(tmp_path / "compose.yaml"))
    call(*command, "config", "--quiet", GRAFANA_PASSWORD="x")
    with pytest.raises(subprocess.CalledProcessError, match="choose a password"):
        call(*command, "config", "--quiet")


def test_hadolint_finds_nothing() -> None:
    """The Dockerfile follows hadolint's rules, its exceptions explained beside them."""
    call(str(Path(sys.executable).with_name("hadolint")), str(DOCKER / "Dockerfile"))
