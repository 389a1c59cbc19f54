"""What the web-config file asks for: passwords and TLS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpumon.export.tls import Handshake


def from_file(path: str) -> tuple[Mapping[str, bytes], Handshake | None]:
    """Return (name -> bcrypt hash, what makes a socket speak TLS); nothing for an empty path. Raises ConfigError."""
    if not path:
        return {}, None
    from gpumon.export.tls import Handshake
    from gpumon.export.web_config import load_web_config

    web = load_web_config(path)
    return web.users, None if web.tls is None else Handshake(web.tls)
