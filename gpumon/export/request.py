"""Reading one HTTP/1.1 request from a socket: little, bounded in bytes and in time.

The standard library's parser allows 100 headers of 64 KiB and a time-out for each read, so a client that sends a byte
a minute keeps its thread for hours. gpumon answers GET and HEAD only, so a request is a line, a few headers, no body.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

# Prometheus sends about 300 bytes; a browser with cookies of other services on the same host name a few thousand.
MAX_REQUEST_BYTES = 16_384
FIRST_BYTE_S = 10.0  # from connecting to the first byte
REQUEST_S = 5.0  # from the first byte to the empty line
KEEP_ALIVE_S = 90.0  # between requests: longer than the usual longest scrape interval of 60 s

_END = b"\r\n\r\n"
_CHUNK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked. Header names are lower case; of a repeated header the values are joined by a comma."""

    method: str
    path: str
    headers: Mapping[str, str]
    keep_alive: bool
    client: str  # address, for the log and for `authorize`
    secure: bool


class BadRequestError(Exception):
    """The request is refused; the connection is closed after saying so. Stays within `export`."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class RequestReader:
    """Reads the requests of one connection, one after the other."""

    def __init__(self, sock: socket.socket, client: str, secure: bool) -> None:
        self._sock = sock
        self._client = client
        self._secure = secure
        self._buffer = b""
        self._first = True

    def next_request(self) -> Request | None:
        """Return the next request, None when the client left or stayed silent for too long.

        Raises: BadRequestError; OSError when the connection broke.
        """
        self._sock.settimeout(FIRST_BYTE_S if self._first else KEEP_ALIVE_S)
        self._first = False
        deadline_s = None
        while (end := self._buffer.find(_END)) < 0:
            if len(self._buffer) > MAX_REQUEST_BYTES:
                raise _too_long()
            try:
                received = self._sock.recv(_CHUNK_BYTES)
            except TimeoutError:
                if self._buffer:
                    raise BadRequestError(408, f"request headers took longer than {REQUEST_S:g} s") from None
                return None
            if not received:
                return None
            now_s = time.monotonic()
            if deadline_s is None:
                deadline_s = now_s + REQUEST_S
            self._buffer += received
            # A time-out of zero would mean "do not block"; the smallest positive one ends the wait all the same.
            self._sock.settimeout(max(deadline_s - now_s, 0.001))
        if end > MAX_REQUEST_BYTES:
            raise _too_long()
        head, self._buffer = self._buffer[:end], self._buffer[end + len(_END) :]
        return _parsed(head, self._client, self._secure)


def _too_long() -> BadRequestError:
    return BadRequestError(431, f"request headers are longer than {MAX_REQUEST_BYTES} bytes")


def _parsed(head: bytes, client: str, secure: bool) -> Request:
    """Return the request of these bytes. Raises BadRequestError."""
    line, *rest = head.decode("latin-1").split("\r\n")
    parts = line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequestError(400, "not an HTTP/1 request line")
    headers: dict[str, str] = {}
    for field in rest:
        name, colon, value = field.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequestError(400, "malformed header")
        key, text = name.lower(), value.strip()
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise BadRequestError(413, "a request body is not accepted")
    connection = headers.get("connection", "").lower()
    keep_alive = "close" not in connection if parts[2] == "HTTP/1.1" else "keep-alive" in connection
    return Request(parts[0], parts[1].partition("?")[0], headers, keep_alive, client, secure)


def prefers_openmetrics(accept: str) -> bool:
    """Return whether an Accept header would rather have OpenMetrics 1.0 than text 0.0.4."""
    best = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for entry in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in entry.split(";"))
        if kind in best:
            best[kind] = max(best[kind], _quality(parameters))
    openmetrics = best["application/openmetrics-text"]
    return openmetrics > 0 and openmetrics >= best["text/plain"]


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an Accept-Encoding header allows gzip."""
    for entry in accept_encoding.lower().split(","):
        coding, *parameters = (part.strip() for part in entry.split(";"))
        if coding in {"gzip", "*"}:
            return _quality(parameters) > 0
    return False


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0
