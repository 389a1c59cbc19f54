"""The control socket: how `gpumon release` reaches a daemon on the same machine, by user and not by network.

A Unix socket in the service's runtime directory, mode 0600, that also asks the kernel who is calling: only root and the
daemon's own user may. One line in, one line out.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from gpumon.model.errors import GpumonError

_PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid
_TIMEOUT_S = 5.0
_LONGEST_LINE = 256

Handler = Callable[[str], str]  # takes the request line, returns the answer line


def socket_paths(environ: Mapping[str, str]) -> list[Path]:
    """Return where the socket may be, first choice first: the service's directory, then the user's own."""
    folders = [environ.get("RUNTIME_DIRECTORY", "").split(":")[0] or "/run/gpumon"]
    if environ.get("XDG_RUNTIME_DIR"):
        folders.append(f"{environ['XDG_RUNTIME_DIR']}/gpumon")
    folders.append(f"/tmp/gpumon-{os.getuid()}")
    chosen = environ.get("GPUMON_CONTROL")
    return [Path(chosen)] if chosen else [Path(folder) / "control" for folder in folders]


class ControlSocket:
    """Listens in a daemon thread. `path` is where, None when no place was writable."""

    def __init__(self, paths: list[Path], handle: Handler) -> None:
        """Bind to the first path that can be had."""
        self._handle = handle
        self._server: socket.socket | None = None
        self.path: Path | None = None
        for path in paths:
            with contextlib.suppress(OSError):
                self._server = _bind(path)
                self.path = path
                threading.Thread(target=self._serve, name="control", daemon=True).start()
                return

    def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None and self.path is not None:
            self._server.close()
            self.path.unlink(missing_ok=True)

    def _serve(self) -> None:
        assert self._server is not None
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:  # closed
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_TIMEOUT_S)
                _, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
                if uid not in (0, os.getuid()):
                    connection.sendall(b"error: only root and the daemon's own user may do this\n")
                    continue
                line = connection.recv(_LONGEST_LINE).decode("utf-8", "replace").strip()
                connection.sendall(f"{self._handle(line)}\n".encode())


def ask(paths: list[Path], line: str) -> str:
    """Send a line to the daemon and return its answer.

    Raises: GpumonError when no daemon listens, or it refuses.
    """
    for path in paths:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(_TIMEOUT_S)
                client.connect(str(path))
                client.sendall(f"{line}\n".encode())
                answer = client.recv(4096).decode("utf-8", "replace").strip()
        except PermissionError:
            raise GpumonError(f"{path}: not permitted: run this as root or as the daemon's user") from None
        except OSError:
            continue
        if answer.startswith("error: "):
            raise GpumonError(answer.removeprefix("error: "))
        return answer
    raise GpumonError(f"no running gpumon found at {', '.join(map(str, paths))}")


def _bind(path: Path) -> socket.socket:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    status = path.parent.lstat()
    if status.st_uid != os.getuid() and os.getuid() != 0:
        raise PermissionError(f"{path.parent} belongs to somebody else")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            if _answers(path):
                raise OSError("another daemon listens here")
            path.unlink()
        server.bind(str(path))
        path.chmod(0o600)
        server.listen(4)
    except OSError:
        server.close()
        raise
    return server


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            raise
        except OSError:
            return False
        return True
