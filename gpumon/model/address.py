"""An address to listen on, as people write it."""

from __future__ import annotations

import ipaddress
import re


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, [IPV6]:PORT or :PORT. An empty host means all addresses.

    Raises: ValueError naming what is allowed.
    """
    host, colon, port = text.rpartition(":")
    allowed = "must be HOST:PORT, [IPV6]:PORT or :PORT, with a port from 0 to 65535"
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or int(port) > 65535:
        raise ValueError(allowed)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            raise ValueError(f"{allowed}; {host} is no IPv6 address") from None
    elif ":" in host:
        raise ValueError(f"{allowed}; put an IPv6 address in brackets")
    elif host and not re.fullmatch(r"[A-Za-z0-9._-]{1,253}", host, re.ASCII):
        raise ValueError(f"{allowed}; the host part is no name or address")
    return host, int(port)
