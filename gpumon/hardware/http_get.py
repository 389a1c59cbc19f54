"""One GET to a service on this machine, bounded in time and bytes: over a Unix socket or a loopback port."""

from __future__ import annotations

import http.client
import socket


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def over_socket(path: str, target: str, *, timeout_s: float, most_bytes: int) -> bytes | None:
    """Return the body that a service on a Unix socket answers with; None unless it is 200 and short enough."""
    return _get(_UnixConnection(path, timeout_s), target, most_bytes)


def over_loopback(port: int, target: str, *, timeout_s: float, most_bytes: int) -> bytes | None:
    """Return the body that a service on a loopback port answers with; None unless it is 200 and short enough."""
    return _get(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s), target, most_bytes)


def _get(connection: http.client.HTTPConnection, target: str, most_bytes: int) -> bytes | None:
    try:
        connection.request("GET", target, headers={"Host": "localhost", "User-Agent": "gpumon"})
        answer = connection.getresponse()
        body = answer.read(most_bytes + 1)
        return body if answer.status == http.client.OK and len(body) <= most_bytes else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
