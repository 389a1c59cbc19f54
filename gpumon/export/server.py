"""The HTTP server: one thread a connection, all of them bounded, so that no client can stop the others.

Every wait has an end (first byte, headers, writing, keep-alive), a request has at most 16 KiB and no body, and at most
`MAX_CONNECTIONS` are held: the next one takes the place of the connection that has been silent for longest, so silent
clients never keep a scraper out. A thread waits in the kernel; it touches neither hardware nor pipeline, only the
newest `Published`. A TLS handshake is made by the connection's own thread.
"""

from __future__ import annotations

import contextlib
import http
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from gpumon.export.answer import Answer, Site, answer, plain
from gpumon.export.listen import listening_sockets, parse_address
from gpumon.export.publish import Published
from gpumon.export.request import BadRequestError, Request, RequestReader
from gpumon.export.scope import EVERYTHING, Scope

if TYPE_CHECKING:
    import ssl  # 2 MiB that only a server with certificates pays

MAX_CONNECTIONS = 128  # ten scrapers, fifty viewers of the page, and room for as many strangers
WRITE_S = 10.0  # for a whole answer: a page of 100 kB at 10 kB/s
_STOP_S = 1.0
_LINGER_S = 0.5
_LINGER_BYTES = 262_144
_COPY_BELOW_BYTES = 16_384  # one packet less; larger bodies are never copied for each client

_METRICS_ALONE = Site()

_log = structlog.get_logger(__name__)


class _Connection:
    """An accepted socket. While `silent_since_s` is set a request is awaited, and it may be dropped for a newer one."""

    __slots__ = ("address", "silent_since_s", "sock")

    def __init__(self, sock: socket.socket, address: str, now_s: float) -> None:
        self.sock = sock
        self.address = address
        self.silent_since_s: float | None = now_s


class Server:
    """Serves the newest tick. `start` binds in the caller's thread, so a taken port is the caller's error."""

    def __init__(
        self,
        address: str,
        current: Callable[[], Published],
        mono_s: Callable[[], float],
        *,
        site: Site = _METRICS_ALONE,
        authorize: Callable[[Request], Scope | None] = lambda _: EVERYTHING,
        handshake: Callable[[socket.socket], ssl.SSLSocket] | None = None,
    ) -> None:
        """
        Args:
            address: HOST:PORT, [IPV6]:PORT or :PORT.
            current: returns the newest tick; called for each request, from any thread.
            mono_s: the clock of `Published.mono_s`.
            site: what there is beside /metrics and the health endpoints.
            authorize: says what a client may see, None for nothing.
            handshake: makes an accepted socket one that speaks TLS. The handshake itself is made by the connection's
                thread, with a time-out.
        """
        self._host, self._port = parse_address(address)
        self._current = current
        self._mono_s = mono_s
        self._site = site
        self._authorize = authorize
        self._handshake = handshake
        self._lock = threading.Lock()
        self._connections: dict[_Connection, threading.Thread] = {}
        self._told: set[tuple[str, str]] = set()  # (path, error) already logged
        self._listeners: tuple[socket.socket, ...] = ()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._acceptor = threading.Thread(target=self._accept_all, name="http-accept", daemon=True)

    def start(self) -> int:
        """Listen and serve. Return the port. Raises ListenError."""
        self._listeners = listening_sockets(self._host, self._port)
        self._acceptor.start()
        return int(self._listeners[0].getsockname()[1])

    def stop(self) -> None:
        """Close all sockets and wait up to a second for the threads."""
        self._wake_writer.close()
        if self._acceptor.is_alive():
            self._acceptor.join(_STOP_S)
        for listener in self._listeners:
            listener.close()
        self._wake_reader.close()
        with self._lock:
            held = list(self._connections.items())
        for connection, _ in held:
            _shut(connection.sock)
        deadline_s = time.monotonic() + _STOP_S
        for _, thread in held:
            thread.join(max(0.0, deadline_s - time.monotonic()))

    def _accept_all(self) -> None:
        with selectors.DefaultSelector() as selector:
            for listener in self._listeners:
                selector.register(listener, selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    ready = key.fileobj
                    if ready is self._wake_reader:
                        return
                    if isinstance(ready, socket.socket):
                        self._accept(ready)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, target = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:  # out of descriptors, or the client gave up in the queue: the next one may do better
            self._tell("accept", error)
            time.sleep(0.05)
            return
        sock.setblocking(True)
        connection = _Connection(sock, str(target[0]), time.monotonic())
        thread = threading.Thread(target=self._serve, args=(connection,), name="http", daemon=True)
        with self._lock:
            if len(self._connections) >= MAX_CONNECTIONS and not self._drop_most_silent():
                _refuse(sock)
                return
            self._connections[connection] = thread
        try:
            thread.start()
        except RuntimeError as error:  # the control group's limit of tasks is reached
            self._tell("accept", error)
            with self._lock:
                self._connections.pop(connection, None)
            _refuse(sock)

    def _drop_most_silent(self) -> bool:
        """Close the connection that has been silent for longest; return False when all are being answered."""
        silent = [held for held in self._connections if held.silent_since_s is not None]
        if not silent:
            return False
        oldest = min(silent, key=lambda held: held.silent_since_s or 0.0)
        del self._connections[oldest]
        _shut(oldest.sock)
        return True

    def _serve(self, connection: _Connection) -> None:
        try:
            self._converse(connection)
        except OSError as error:  # the client hung up, timed out or broke TLS: its business
            _log.debug("http_client_gone", client=connection.address, error=str(error))
        finally:
            with self._lock:
                self._connections.pop(connection, None)
            connection.sock.close()

    def _converse(self, connection: _Connection) -> None:
        if self._handshake is not None:
            # Held from here on, so that a client stuck in its handshake can be dropped like a silent one.
            connection.sock = secured = self._handshake(connection.sock)
            secured.settimeout(WRITE_S)
            secured.do_handshake()
        sock = connection.sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = RequestReader(sock, connection.address, secure=self._handshake is not None)
        keep_alive = True
        while keep_alive:
            connection.silent_since_s = time.monotonic()
            try:
                request = reader.next_request()
            except BadRequestError as error:
                _send(sock, plain(error.status, error.reason), keep_alive=False, with_body=True)
                _linger(sock)
                return
            if request is None:
                return
            connection.silent_since_s = None
            keep_alive = request.keep_alive
            _send(sock, self._answer(request), keep_alive, with_body=request.method != "HEAD")

    def _answer(self, request: Request) -> Answer:
        try:
            return answer(request, self._authorize(request), self._current(), self._mono_s(), self._site)
        except Exception as error:  # noqa: BLE001 - the edge: a fault in one document is a 500, never a cut 200
            self._tell(request.path, error)
            return plain(500, "internal error; see gpumon's log")

    def _tell(self, place: str, error: Exception) -> None:
        """Log a fault the first time it is seen at a place; scrapes would repeat it for ever."""
        key = (place, repr(error)[:200])
        if key not in self._told and len(self._told) < 100:
            self._told.add(key)
            _log.error("http_fault", place=place, error=key[1])


def _send(sock: socket.socket, what: Answer, keep_alive: bool, with_body: bool) -> None:
    sock.settimeout(WRITE_S)
    phrase = http.HTTPStatus(what.status).phrase
    fields = "".join(f"{name}: {value}\r\n" for name, value in what.headers.items())
    head = (
        f"HTTP/1.1 {what.status} {phrase}\r\n{fields}X-Content-Type-Options: nosniff\r\n"
        f"Content-Length: {len(what.body)}\r\nConnection: {'keep-alive' if keep_alive else 'close'}\r\n\r\n"
    ).encode("latin-1")
    if not with_body:
        sock.sendall(head)
    elif len(what.body) < _COPY_BELOW_BYTES:
        sock.sendall(head + what.body)
    else:
        sock.sendall(head)
        sock.sendall(what.body)


def _linger(sock: socket.socket) -> None:
    """Let the client read the refusal: closing with unread bytes resets the connection before it can."""
    deadline_s = time.monotonic() + _LINGER_S
    sock.shutdown(socket.SHUT_WR)
    left = _LINGER_BYTES
    while left > 0 and (remaining_s := deadline_s - time.monotonic()) > 0:
        sock.settimeout(remaining_s)
        received = len(sock.recv(16_384))
        if not received:
            return
        left -= received


def _refuse(sock: socket.socket) -> None:
    """Say 503 without waiting and close: every place is taken by a client that is being answered."""
    sock.setblocking(False)
    try:
        sock.send(
            b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    except OSError:
        pass
    finally:
        sock.close()


def _shut(sock: socket.socket) -> None:
    """End a connection from another thread: its owner's read returns and it closes the socket itself."""
    with contextlib.suppress(OSError):  # already gone
        sock.shutdown(socket.SHUT_RDWR)
