"""Listening sockets for an address as people write it; every failure is one sentence that names the address."""

from __future__ import annotations

import errno
import socket

from gpumon.model.address import split_address
from gpumon.model.errors import GpumonError

_BACKLOG = 128


class ListenError(GpumonError):
    """The address cannot be listened on: says which, why, and what to do."""


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, [IPV6]:PORT or :PORT. Raises ListenError."""
    try:
        return split_address(address)
    except ValueError as error:
        raise ListenError(f"listen: {address!r} {error}") from None


def listening_sockets(host: str, port: int) -> tuple[socket.socket, ...]:
    """Return bound, listening sockets for a host: one for each address the name stands for.

    Args:
        host: an address or name. `::` takes IPv4 as well; "" means every address, on a node without IPv6 those of
            IPv4.
        port: 0 lets the system choose; then all sockets share the port of the first.
    Raises: ListenError.
    """
    if not host:
        try:
            return listening_sockets("::", port)
        except ListenError:
            return listening_sockets("0.0.0.0", port)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ListenError(f"listen: no address is known for host {host!r} ({error})") from error
    sockets: list[socket.socket] = []
    refused: list[ListenError] = []
    for family, _, _, _, target in dict.fromkeys(found):
        bound_port = sockets[0].getsockname()[1] if sockets and port == 0 else port
        try:
            sockets.append(_bound(family, (target[0], bound_port, *target[2:]), dual=host == "::"))
        except OSError as error:
            refused.append(_refusal(host, bound_port, error))
    # A name may stand for an address family that this kernel has switched off: one that works is enough. A port that
    # somebody else holds on either family is a conflict all the same.
    taken = next((error for error in refused if "in use" in str(error)), None)
    if taken or not sockets:
        for opened in sockets:
            opened.close()
        raise taken or refused[0]
    return tuple(sockets)


def _bound(family: int, target: tuple[object, ...], dual: bool) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        # So that a restart need not wait for the connections of the last run to leave TIME_WAIT.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual else 1)
        opened.bind(target)
        opened.listen(_BACKLOG)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened


def _refusal(host: str, port: int, error: OSError) -> ListenError:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return ListenError(f"listen: {place} is already in use by another process; stop it or choose another port")
    if error.errno == errno.EADDRNOTAVAIL:
        return ListenError(f"listen: cannot assign {place}: this node has no such address")
    if error.errno == errno.EAFNOSUPPORT:
        return ListenError(f"listen: cannot listen on {place}: this kernel has no IPv6; use 0.0.0.0 or 127.0.0.1")
    if error.errno == errno.EACCES:
        return ListenError(f"listen: no permission for {place}; ports below 1024 need CAP_NET_BIND_SERVICE")
    return ListenError(f"listen: cannot listen on {place}: {error.strerror or error}")
