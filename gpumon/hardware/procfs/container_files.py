"""What runtimes keep of their containers on disk, for root where no socket may be used.

Docker: config.v2.json. containerd (nerdctl, CRI), CRI-O and Podman: the OCI config.json of the bundle, whose
annotations carry Kubernetes' names and whose device list says which cards were made for the container; Podman's names
lie in the storage's list. Files of the host's own runtimes only; nothing below a user's home is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpumon.model.fault import Fault
from gpumon.model.process import Container

LARGEST = 1 << 20
_ID = re.compile(r"[0-9a-f]{64}")
_LONGEST_TEXT = 1024
_NAMES = ("io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name", "io.podman.name")
_NAMESPACES = ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace")
_NVIDIA_MAJOR, _CONTROL_MINOR = 195, 255
NAMESPACE_LABEL = "io.kubernetes.pod.namespace"


class FileSource:
    """The runtimes' own files."""

    def __init__(self, filesystem_root: Path = Path("/")) -> None:
        """Args: filesystem_root: where var and run lie."""
        self._docker = filesystem_root / "var/lib/docker/containers"
        self._containerd = filesystem_root / "run/containerd/io.containerd.runtime.v2.task"
        # CRI-O keeps the bundle in the first, Podman in the second.
        self._storage = tuple(
            filesystem_root / place / "containers/storage/overlay-containers" for place in ("run", "var/lib")
        )

    def lookup(self, container_id: str) -> Container | None:
        """Return what lies on disk of one container, None when nothing readable does."""
        if not _ID.fullmatch(container_id):
            return None
        return self._of_docker(container_id) or self._of_bundle(container_id)

    def with_cards(self) -> Iterable[Container]:
        """Return nothing: which of these containers run, the files do not tell."""
        return ()

    def _of_docker(self, container_id: str) -> Container | None:
        content = _json(self._docker / container_id / "config.v2.json")
        if content is None:
            return None
        config = content.get("Config")
        config = config if isinstance(config, dict) else {}
        return Container(
            container_id=container_id,
            name=_text(content.get("Name")).lstrip("/"),
            runtime="docker",
            image=_text(config.get("Image")),
            labels=_texts(config.get("Labels")),
        )

    def _of_bundle(self, container_id: str) -> Container | None:
        places = [(folder / container_id / "userdata/config.json", "podman") for folder in self._storage]
        places += [(path, "containerd") for path in _bundles(self._containerd, container_id)]
        for path, runtime in places:
            content = _json(path)
            if content is None:
                continue
            notes = _texts(content.get("annotations"))
            labels = dict(notes)
            namespace = next((notes[name] for name in _NAMESPACES if name in notes), "")
            if namespace:
                labels[NAMESPACE_LABEL] = namespace
            return Container(
                container_id=container_id,
                name=next((notes[name] for name in _NAMES if name in notes), "") or self._stored_name(container_id),
                runtime="cri-o" if notes.get("io.container.manager") == "cri-o" else runtime,
                image="",
                labels=labels,
                gpu_minors=_minors(content.get("linux")),
            )
        return None

    def _stored_name(self, container_id: str) -> str:
        """Return the name in the storage's list of containers."""
        for folder in self._storage:
            for one in _list(folder / "containers.json"):
                if isinstance(one, dict) and one.get("id") == container_id:
                    names = one.get("names")
                    return _text(names[0]) if isinstance(names, list) and names else ""
        return ""


def _bundles(folder: Path, container_id: str) -> list[Path]:
    """Return the bundle's config in each containerd namespace (default, moby, k8s.io)."""
    try:
        return [space / container_id / "config.json" for space in sorted(folder.iterdir())]
    except OSError:
        return []


def _minors(linux: object) -> frozenset[int] | Fault:
    """Return N of /dev/nvidiaN that the runtime makes for the container, if it also makes CUDA's file.

    Source: linux.devices of the OCI runtime specification; 195 is the NVIDIA driver's major number, 255 its control.
    """
    devices = linux.get("devices") if isinstance(linux, dict) else None
    entries = [one for one in devices if isinstance(one, dict)] if isinstance(devices, list) else []
    if not any(one.get("path") == "/dev/nvidia-uvm" for one in entries):
        return Fault.NOT_FOUND
    minors = (one.get("minor") for one in entries if one.get("major") == _NVIDIA_MAJOR)
    return frozenset(minor for minor in minors if isinstance(minor, int) and 0 <= minor < _CONTROL_MINOR)


def _content(path: Path) -> object:
    try:
        with path.open("rb") as file:
            return json.loads(file.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return None


def _json(path: Path) -> Mapping[str, object] | None:
    content = _content(path)
    return content if isinstance(content, dict) else None


def _list(path: Path) -> list[object]:
    content = _content(path)
    return content if isinstance(content, list) else []


def _text(value: object) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""


def _texts(value: object) -> Mapping[str, str]:
    entries = value.items() if isinstance(value, dict) else ()
    return {str(name)[:_LONGEST_TEXT]: _text(text) for name, text in list(entries)[:256]}
