"""A support bundle: what somebody else needs to understand this node, in one tar.gz, without secrets.

Put in: the doctor's answer, the topology, versions, a minute of the daemon's state where a daemon answers, and the full
device query of pynvml_utils where that extra is installed. Left out on purpose: the configuration (it names tenants
and token files), command lines, environments, process names, and everything behind authentication.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from gpumon.model.errors import GpumonError

_MINUTE_SAMPLES = 12
_SAMPLE_PERIOD_S = 5.0
_ANSWER_TIMEOUT_S = 2.0
_LARGEST_ANSWER_BYTES = 4 << 20
# Keys of the device query that tell what other people run.
_PRIVATE_KEYS = frozenset({"processes", "accounted_processes"})


class BundleError(GpumonError):
    """The support file cannot be written."""


def daemon_minute(url: str, wait: Callable[[float], object]) -> str:
    """Return a minute of the daemon's state, one JSON object a line; "" when no daemon answers.

    Args:
        url: of the daemon, "http://127.0.0.1:9836".
        wait: waits for that many seconds between two questions.
    """
    lines: list[str] = []
    for number in range(_MINUTE_SAMPLES):
        if number:
            wait(_SAMPLE_PERIOD_S)
        answer = _get(f"{url}/api/v1/state")
        if answer is None:
            break
        lines.append(" ".join(answer.split("\n")))
    return "\n".join(lines)


def device_query() -> str:
    """Return pynvml_utils' full device query as JSON, "" where the extra `smi` is not installed or cannot ask."""
    try:
        from pynvml_utils import nvidia_smi  # noqa: PLC0415 - optional, and importing it hooks the process
    except ImportError:
        return ""
    try:
        answer = nvidia_smi.getInstance().DeviceQuery()
    except Exception as error:  # noqa: BLE001 - foreign code around a driver; the bundle matters more than its reason
        return json.dumps({"error": type(error).__name__})
    return json.dumps(_public(answer), indent=1, default=str)


def write_bundle(file: Path, entries: Mapping[str, Callable[[], str]]) -> tuple[str, ...]:
    """Write the entries that have content as a tar.gz and return their names.

    Args:
        entries: name inside the archive -> what makes its text; asked only once the file could be opened, since some
            take a minute.
    Raises: BundleError when the file cannot be written.
    """
    written = []
    try:
        with tarfile.open(file, "w:gz") as archive:
            for name, make in entries.items():
                data = make().encode("utf-8")
                if data:
                    info = tarfile.TarInfo(f"gpumon-bundle/{name}")
                    info.size = len(data)
                    info.mode = 0o600
                    archive.addfile(info, io.BytesIO(data))
                    written.append(name)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BundleError(f"--bundle {file}: cannot be written: {reason}. Give a file you may create.") from None
    return tuple(written)


def _get(url: str) -> str | None:
    try:
        with urlopen(url, timeout=_ANSWER_TIMEOUT_S) as answer:
            return str(answer.read(_LARGEST_ANSWER_BYTES).decode("utf-8", "replace"))
    except (URLError, OSError, ValueError):
        return None


def _public(value: object) -> object:
    if isinstance(value, dict):
        return {key: _public(entry) for key, entry in value.items() if key not in _PRIVATE_KEYS}
    if isinstance(value, list):
        return [_public(entry) for entry in value]
    return value
