"""What container runtimes say: over a socket that answers, lies or hangs, and from their files."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpumon.hardware.procfs import containers
from gpumon.hardware.procfs.container_api import ApiSource
from gpumon.hardware.procfs.container_files import FileSource
from gpumon.hardware.procfs.containers import RETRY_S, ContainerDirectory
from gpumon.model.process import Container

from .tree import IDS

ANSWER = {
    "Id": IDS[1],
    "Name": "/train-7",
    "Config": {"Image": "acme/train:1", "Labels": {"team": "acme", "odd": None}, "Env": ["A=1"]},
    "HostConfig": {"DeviceRequests": [{"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}]},
}


class Runtime:
    """A container runtime behind a Unix socket; `answer` gives the body for a path, None for 404."""

    def __init__(self, path: Path, answer: Callable[[str], object]) -> None:
        self.path, self.answer, self.requests = str(path), answer, []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen(16)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            line = client.recv(4096).partition(b"\r\n")[0].decode()
            self.requests.append(line)
            body = self.answer(line.split()[1])
            if body is ...:
                self._open.append(client)  # never answers
                continue
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            status = "404 Not Found" if body is None else "200 OK"
            client.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
            client.close()

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Callable[[Callable[[str], object]], Runtime]]:
    """Start runtimes."""
    started: list[Runtime] = []

    def start(answer: Callable[[str], object]) -> Runtime:
        started.append(Runtime(tmp_path / f"docker{len(started)}.sock", answer))
        return started[-1]

    yield start
    for one in started:
        one.close()


def test_a_container_by_its_id(runtime: Callable[..., Runtime]) -> None:
    """Name, image, labels and the cards asked for, by one read-only request."""
    server = runtime(lambda path: ANSWER if IDS[1] in path else None)
    source = ApiSource(server.path)
    found = source.lookup(IDS[1])
    assert found == Container(
        IDS[1], "train-7", "docker", "acme/train:1", {"team": "acme", "odd": ""}, found.gpu_minors, "all"
    )
    assert source.lookup(IDS[2]) is None
    assert source.lookup("../../evil") is None
    assert server.requests == [f"GET /containers/{IDS[1]}/json HTTP/1.1", f"GET /containers/{IDS[2]}/json HTTP/1.1"]


@pytest.mark.parametrize(
    ("host", "env", "want"),
    [
        ({"DeviceRequests": [{"DeviceIDs": ["0", "GPU-x"], "Capabilities": [["gpu"]]}]}, [], "0,GPU-x"),
        ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]}]}, [], "0,1"),
        ({"DeviceRequests": [{"Driver": "nvidia", "Count": 2, "Capabilities": [["gpu"]]}]}, [], "0,1"),
        ({"Runtime": "nvidia"}, ["NVIDIA_VISIBLE_DEVICES=1,2"], "1,2"),
        ({"Runtime": "nvidia"}, ["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=utility"], None),
        ({"Runtime": "runc"}, ["NVIDIA_VISIBLE_DEVICES=all"], None),
        ({}, [], None),
    ],
)
def test_cards_asked_for(runtime: Callable[..., Runtime], host: object, env: list[str], want: str | None) -> None:
    """Every way of giving cards to a container is understood; one that may only watch was given none."""
    server = runtime(lambda path: {**ANSWER, "HostConfig": host, "Config": {"Env": env}})
    found = ApiSource(server.path).lookup(IDS[1])
    assert found is not None
    assert found.gpu_request == want


@pytest.mark.parametrize(
    "body", [{"Id": IDS[9]}, [1], "text", b"{", b"[" * 100_000, {"Id": IDS[1], "Config": 5, "Name": 7}]
)
def test_a_runtime_that_lies(runtime: Callable[..., Runtime], body: object) -> None:
    """An answer for another container, or no answer at all, is nothing; odd types do no harm."""
    found = ApiSource(runtime(lambda path: body).path).lookup(IDS[1])
    assert found is None or (found.name, found.labels) == ("", {})


def test_a_runtime_that_hangs_costs_its_timeout(runtime: Callable[..., Runtime]) -> None:
    """A runtime that never answers costs one short timeout and is asked again later, more and more rarely."""
    server = runtime(lambda path: ...)
    directory = ContainerDirectory([ApiSource(server.path, timeout_s=0.05)])
    directory.want({IDS[1]})
    begun_s = time.monotonic()
    directory.work(100.0)
    assert time.monotonic() - begun_s < 1.0
    asked = len(server.requests)
    directory.work(100.0 + RETRY_S[0] / 2)
    assert len(server.requests) == asked
    directory.work(100.0 + RETRY_S[0])
    assert len(server.requests) == asked + 1


def test_a_socket_that_is_gone(tmp_path: Path) -> None:
    """Without a runtime there are no names."""
    assert ApiSource(str(tmp_path / "none.sock")).lookup(IDS[1]) is None
    assert list(ApiSource(str(tmp_path / "none.sock")).with_cards()) == []


def test_each_container_is_asked_for_once(runtime: Callable[..., Runtime]) -> None:
    """What is known is not asked again, however often it is wanted."""
    server = runtime(lambda path: [] if path == "/containers/json" else ANSWER)
    directory = ContainerDirectory([ApiSource(server.path)])
    now_s = time.monotonic()
    for second in range(20):
        directory.want({IDS[1]})
        directory.work(now_s + second)
    assert [line for line in server.requests if IDS[1] in line] == [f"GET /containers/{IDS[1]}/json HTTP/1.1"]
    assert directory.known()[IDS[1]].name == "train-7"
    assert directory.known() is directory.known()


def test_running_containers_with_cards_are_listed(runtime: Callable[..., Runtime]) -> None:
    """A container that was given cards is known although no process of it was met, and forgotten when it is gone."""
    running = [{"Id": IDS[1]}]
    server = runtime(lambda path: running if path == "/containers/json" else ANSWER)
    directory = ContainerDirectory([ApiSource(server.path)])
    directory.work(0.0)
    assert list(directory.known()) == [IDS[1]]
    directory.work(40.0)
    assert server.requests.count(f"GET /containers/{IDS[1]}/json HTTP/1.1") == 1
    running.clear()
    directory.work(80.0)
    assert directory.known() == {}


def test_a_runtime_that_starts_after_gpumon(
    runtime: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A socket that appears later is taken up, and one that is gone is let go."""
    sockets: list[str] = []
    monkeypatch.setattr(containers, "default_sockets", lambda: tuple(sockets))
    directory = ContainerDirectory()
    directory.work(0.0)
    sockets.append(runtime(lambda path: [{"Id": IDS[1]}] if path == "/containers/json" else ANSWER).path)
    directory.work(40.0)
    assert list(directory.known()) == [IDS[1]]
    sockets.clear()
    directory.work(80.0)
    assert directory.known() == {}


def test_the_thread_answers_soon_and_stops(runtime: Callable[..., Runtime]) -> None:
    """A container is pending until its thread has asked, then known."""
    server = runtime(lambda path: [] if path == "/containers/json" else ANSWER)
    directory = ContainerDirectory([ApiSource(server.path)])
    directory.want({IDS[1]})
    assert directory.pending() == frozenset()  # nobody asks, so nobody should wait
    directory.start()
    deadline_s = time.monotonic() + 5.0
    while IDS[1] not in directory.known() and time.monotonic() < deadline_s:
        threading.Event().wait(0.005)
    assert directory.known()[IDS[1]].labels["team"] == "acme"
    assert directory.pending() == frozenset()
    directory.stop()


def test_docker_files(tmp_path: Path) -> None:
    """Docker's own file of a container gives its name and labels."""
    folder = tmp_path / "var/lib/docker/containers" / IDS[1]
    folder.mkdir(parents=True)
    (folder / "config.v2.json").write_text(json.dumps({"Name": "/a", "Config": {"Image": "i", "Labels": {"x": "y"}}}))
    found = FileSource(tmp_path).lookup(IDS[1])
    assert found is not None
    assert (found.name, found.image, found.labels, found.runtime) == ("a", "i", {"x": "y"}, "docker")


def test_bundles_of_containerd_and_crio(tmp_path: Path) -> None:
    """A bundle's annotations give the container's name and its pod's namespace."""
    place = tmp_path / "run/containerd/io.containerd.runtime.v2.task/k8s.io" / IDS[1]
    place.mkdir(parents=True)
    notes = {"io.kubernetes.cri.container-name": "main", "io.kubernetes.cri.sandbox-namespace": "acme-prod"}
    (place / "config.json").write_text(json.dumps({"annotations": notes}))
    found = FileSource(tmp_path).lookup(IDS[1])
    assert found is not None
    assert (found.name, found.labels["io.kubernetes.pod.namespace"], found.runtime) == (
        "main",
        "acme-prod",
        "containerd",
    )
    place = tmp_path / "run/containers/storage/overlay-containers" / IDS[2] / "userdata"
    place.mkdir(parents=True)
    notes = {"io.kubernetes.container.name": "c", "io.kubernetes.pod.namespace": "n", "io.container.manager": "cri-o"}
    (place / "config.json").write_text(json.dumps({"annotations": notes}))
    found = FileSource(tmp_path).lookup(IDS[2])
    assert found is not None
    assert (found.name, found.runtime) == ("c", "cri-o")
    assert FileSource(tmp_path).lookup(IDS[3]) is None


def test_podmans_files(tmp_path: Path) -> None:
    """Podman's storage gives the name, and the bundle the cards whose files the runtime makes."""
    storage = tmp_path / "var/lib/containers/storage/overlay-containers"
    (storage / IDS[1] / "userdata").mkdir(parents=True)
    devices = [
        {"path": "/dev/nvidia3", "type": "c", "major": 195, "minor": 3},
        {"path": "/dev/nvidiactl", "type": "c", "major": 195, "minor": 255},
        {"path": "/dev/nvidia-uvm", "type": "c", "major": 511, "minor": 0},
    ]
    bundle = {"annotations": {"io.container.manager": "libpod"}, "linux": {"devices": devices}}
    (storage / IDS[1] / "userdata/config.json").write_text(json.dumps(bundle))
    (storage / "containers.json").write_text(json.dumps([{"id": IDS[2]}, {"id": IDS[1], "names": ["acme-7"]}]))
    found = FileSource(tmp_path).lookup(IDS[1])
    assert found is not None
    assert (found.name, found.runtime, found.gpu_minors) == ("acme-7", "podman", {3})
