"""What jobs say of their own throughput: datagrams on a Unix socket, and text files in a folder.

Everything here was written by a tenant. A statement is at most 1 KiB of `name value` lines; who made it is what the
kernel says: the credentials of the datagram's sender, the owner of the file. Format: docs/reporting.md.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import socket
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gpumon.model.errors import GpumonError
from gpumon.model.report import Report, ReportSource

MOST_BYTES = 1024  # of one statement
MOST_FILES = 256  # of a folder and its tenants' folders together
FRESH_S = 60.0  # a file that was not written for so long says nothing
_MOST_VALUE = 1e12
_LINE = re.compile(
    r"\s*(samples_per_second|tokens_per_second|step)\s*[ =:]\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*", re.ASCII
)
_CONTAINER = re.compile(r"[0-9a-f]{12,64}", re.ASCII)
_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid
_SCM_CREDENTIALS = 2  # socket.h; the socket module has no name for it


class ReportSocketError(GpumonError):
    """The socket cannot be made."""


def parse(data: bytes) -> dict[str, float]:
    """Return the numbers of a statement by name; unknown lines and impossible numbers are left out."""
    found: dict[str, float] = {}
    for line in data[:MOST_BYTES].decode("ascii", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match and float(match[2]) <= _MOST_VALUE:
            found[match[1]] = float(match[2])
    return found


def report(said: Mapping[str, float], source: ReportSource, mono_s: float, *, pid: int = 0, uid: int = -1) -> Report:
    """Return a statement's numbers as a report of a process."""
    return Report(
        mono_s=mono_s,
        source=source,
        pid=pid,
        uid=uid,
        samples_per_second=said.get("samples_per_second", math.nan),
        tokens_per_second=said.get("tokens_per_second", math.nan),
        step=said.get("step", math.nan),
    )


class ReportSocket:
    """A datagram socket anybody may write to. Raises ReportSocketError where it cannot be made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            if path.is_socket():
                path.unlink()
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.bind(str(path))
            path.chmod(0o666)  # every job's user writes here, and nobody can read
        except OSError as error:
            self._socket.close()
            raise ReportSocketError(
                f"report.socket = {str(path)!r} cannot be made: {error.strerror or error}"
            ) from None

    def fileno(self) -> int:
        """Return the descriptor, for waiting."""
        return self._socket.fileno()

    def receive(self, mono_s: float) -> Report | None:
        """Return the next statement; None for an empty queue. One that says nothing has no numbers."""
        try:
            data, ancillary, _, _ = self._socket.recvmsg(MOST_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
        except BlockingIOError:
            return None
        pid = 0
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == _SCM_CREDENTIALS and len(content) == _CREDENTIALS.size:
                pid, _, _ = _CREDENTIALS.unpack(content)
        return report(parse(data), ReportSource.SOCKET, mono_s, pid=pid)

    def close(self) -> None:
        """Close the socket and take it away."""
        self._socket.close()
        with contextlib.suppress(OSError):
            self._path.unlink()


def read_folder(folder: Path, tenants: tuple[str, ...], mono_s: float, wall_s: float) -> Iterator[Report]:
    """Yield what the files of a folder say: `NAME.txt` in it, and in the folder of each tenant.

    NAME is the pid on the host, or in a tenant's folder also the container's id (12 characters or more: what
    `hostname` prints inside). Folders are those of the closed list of tenants, so that nobody makes one.
    """
    left = MOST_FILES
    for tenant in ("", *tenants):
        for name in _names(folder / tenant):
            if left == 0:
                return
            left -= 1
            read = _read(folder / tenant / name, wall_s)
            if read is None:
                continue
            stem = name.removesuffix(".txt")
            # All digits may be a container's id too, but never one as short as a pid.
            pid = int(stem) if stem.isdigit() and len(stem) <= 10 else 0
            container = stem[:12] if tenant and _CONTAINER.fullmatch(stem) else ""
            if not pid and not container:
                continue
            said = report(parse(read[0]), ReportSource.FILE, mono_s - read[2], pid=pid, uid=read[1])
            yield replace(said, tenant=tenant, container=container)


def _names(folder: Path) -> list[str]:
    """Return the text files of a folder; never more than are read, so that a full folder costs nothing."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".txt"):
                    found.append(entry.name)
                if len(found) >= MOST_FILES:
                    break
    except OSError:
        return []
    return sorted(found)


def _read(path: Path, wall_s: float) -> tuple[bytes, int, float] | None:
    """Return a file's beginning, its owner and its age; None for old ones and for anything but a plain file."""
    try:
        # A link could point at a secret, a pipe could block for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        facts = os.fstat(descriptor)
        age_s = wall_s - facts.st_mtime
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1 or not -FRESH_S <= age_s <= FRESH_S:
            return None
        return os.read(descriptor, MOST_BYTES), facts.st_uid, max(0.0, age_s)
    except OSError:
        return None
    finally:
        os.close(descriptor)
