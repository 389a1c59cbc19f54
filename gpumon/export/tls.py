"""TLS on accepted sockets, from files that may be renewed while gpumon runs."""

from __future__ import annotations

import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

import structlog

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What a TLS context is made of. Paths are absolute."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client_auth: ssl.VerifyMode = ssl.CERT_NONE
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2

    def context(self) -> ssl.SSLContext:
        """Return a context with the files as they are now. Raises OSError (ssl.SSLError included)."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self.min_version
        context.load_cert_chain(self.cert_file, self.key_file)
        if self.client_ca_file is not None:
            context.load_verify_locations(self.client_ca_file)
        context.verify_mode = self.client_auth
        return context


class Handshake:
    """Wraps accepted sockets in TLS. Files that changed are reread; ones that cannot be used leave the old in force."""

    def __init__(self, tls: TlsSettings) -> None:
        self._tls = tls
        self._lock = threading.Lock()
        self._stamp = self._stamps()
        self._context = tls.context()

    def __call__(self, sock: socket.socket) -> ssl.SSLSocket:
        """Return the socket that speaks TLS, before its handshake. Takes the given one over. Raises OSError."""
        return self._current().wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def _current(self) -> ssl.SSLContext:
        stamp = self._stamps()
        with self._lock:
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._context = self._tls.context()
                    _log.info("certificate reread", file=str(self._tls.cert_file))
                except OSError as error:
                    _log.error("certificate cannot be used; the old one stays", error=str(error))
            return self._context

    def _stamps(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(
            _stamp(file) for file in (self._tls.cert_file, self._tls.key_file, self._tls.client_ca_file) if file
        )


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
