"""The Docker Engine API over a Unix socket, which Podman speaks too. GET requests only.

Being able to open the socket is being root on the host, so gpumon uses it only where it was given access anyway.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping

from gpumon.model.fault import Fault
from gpumon.model.process import Container

TIMEOUT_S = 2.0
MOST_CONTAINERS = 256
LARGEST = 4 << 20  # bytes of an answer; 1000 containers are about 2 MB
_DEVICE = re.compile(r"/dev/nvidia([0-9]{1,4})")
_ID = re.compile(r"[0-9a-f]{64}")
_LONGEST_TEXT = 1024
_MOST_LABELS = 256


def default_sockets() -> tuple[str, ...]:
    """Return the sockets that gpumon may open: the host's, or as an ordinary user one's own."""
    own = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    paths = ["/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock"]
    if os.getuid() != 0:
        paths += [f"{own}/docker.sock", f"{own}/podman/podman.sock"]
    found = {os.path.realpath(path): path for path in paths if os.access(path, os.R_OK | os.W_OK)}
    return tuple(found)


class ApiSource:
    """One runtime's API."""

    def __init__(self, path: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Args: path: of the socket."""
        self.path = path
        self._with_cards: dict[str, Container | None] = {}  # running containers; None: was given no cards
        self._timeout_s = timeout_s
        self.runtime = "podman" if "podman" in path else "docker"
        self._owner_uid = os.getuid() if path.startswith("/run/user/") else -1

    def lookup(self, container_id: str) -> Container | None:
        """Return what the runtime says of one container; None when it does not know it or does not answer."""
        if not _ID.fullmatch(container_id):
            return None
        answer = self._get(f"/containers/{container_id}/json")
        if not isinstance(answer, dict) or answer.get("Id") != container_id:
            return None
        config, host = _mapping(answer.get("Config")), _mapping(answer.get("HostConfig"))
        return Container(
            container_id=container_id,
            name=_text(answer.get("Name")).lstrip("/"),
            runtime=self.runtime,
            image=_text(config.get("Image")),
            labels=_labels(config.get("Labels")),
            gpu_minors=_minors(host.get("Devices")),
            gpu_request=_request(host, config),
            owner_uid=self._owner_uid,
        )

    def with_cards(self) -> Iterable[Container]:
        """Return the running containers that were given cards. One request, and one more for each new container."""
        answer = self._get("/containers/json")
        listed = [one.get("Id") for one in answer if isinstance(one, dict)] if isinstance(answer, list) else []
        ids = [one for one in listed if isinstance(one, str)][:MOST_CONTAINERS]
        known = {one: self._with_cards[one] for one in ids if one in self._with_cards}
        for one in ids:
            if one not in known:
                container = self.lookup(one)
                known[one] = container if container is not None and _has_cards(container) else None
        self._with_cards = known
        return [container for container in known.values() if container is not None]

    def _get(self, path: str) -> object:
        from gpumon.hardware.http_get import over_socket  # noqa: PLC0415 - 3 MiB that a node without a runtime keeps

        body = over_socket(self.path, path, timeout_s=self._timeout_s, most_bytes=LARGEST)
        try:
            return None if body is None else json.loads(body)
        except (ValueError, RecursionError):
            return None


def _has_cards(container: Container) -> bool:
    return bool(container.gpu_request) or (not isinstance(container.gpu_minors, Fault) and bool(container.gpu_minors))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""


def _labels(value: object) -> Mapping[str, str]:
    labels = list(_mapping(value).items())[:_MOST_LABELS]
    return {_text(name): _text(text) for name, text in labels}


def _minors(devices: object) -> frozenset[int] | Fault:
    """Return cards given as single devices: `docker run --device /dev/nvidia0`."""
    if not isinstance(devices, list):
        return Fault.NOT_FOUND
    matches = (_DEVICE.fullmatch(_text(_mapping(one).get("PathOnHost"))) for one in devices)
    return frozenset(int(match.group(1)) for match in matches if match)


def _request(host: Mapping[str, object], config: Mapping[str, object]) -> str | None:
    """Return the cards asked for with `--gpus`, CDI, or the NVIDIA runtime's variable; None when none were.

    A container that may only watch (capability "utility" alone) was given no cards to compute on.
    """
    requests = host.get("DeviceRequests")
    for one in requests if isinstance(requests, list) else ():
        request = _mapping(one)
        capabilities = [word for group in _list(request.get("Capabilities")) for word in _list(group)]
        ids = [_text(device) for device in _list(request.get("DeviceIDs"))]
        if request.get("Driver") == "cdi":
            cards = [device.partition("=")[2] for device in ids if device.startswith("nvidia.com/gpu=")]
            return ",".join(cards) or None
        if "gpu" in capabilities or request.get("Driver") == "nvidia":
            count = request.get("Count")
            return ",".join(ids) if ids else "all" if count == -1 else ",".join(map(str, range(_count(count))))
    if host.get("Runtime") == "nvidia":
        variables = dict(_text(entry).partition("=")[::2] for entry in _list(config.get("Env")))
        if variables.get("NVIDIA_DRIVER_CAPABILITIES", "compute,utility") != "utility":
            return variables.get("NVIDIA_VISIBLE_DEVICES") or None
    return None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _count(value: object) -> int:
    return min(value, 64) if isinstance(value, int) and value > 0 else 0
