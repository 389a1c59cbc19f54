"""The server over real loopback sockets: good clients are served whatever the bad ones do."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpumon.export import request as request_module
from gpumon.export import server as server_module
from gpumon.export.answer import Site
from gpumon.export.listen import ListenError, listening_sockets, parse_address
from gpumon.export.publish import Publisher
from gpumon.export.request import Request
from gpumon.export.scope import EVERYTHING, Scope
from gpumon.export.server import Server
from gpumon.model.document import Document
from gpumon.model.view import NodeView
from tests import views

TICK = Publisher(max_jobs=256).publish(views.geforce(4), {})


def broken(_: NodeView) -> Document:
    raise RuntimeError("half-way")


SITE = Site(live={"/broken": broken})


@contextlib.contextmanager
def serving(
    address: str = "127.0.0.1:0",
    authorize: Callable[[Request], Scope | None] = lambda _: EVERYTHING,
    handshake: Callable[[socket.socket], Any] | None = None,
) -> Iterator[tuple[Server, int]]:
    server = Server(
        address,
        current=lambda: TICK,
        mono_s=lambda: TICK.mono_s + 1.0,
        site=SITE,
        authorize=authorize,
        handshake=handshake,
    )
    port = server.start()
    try:
        yield server, port
    finally:
        server.stop()


def get(port: int, path: str = "/metrics", host: str = "127.0.0.1", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(host, port, timeout=5)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    response.body = response.read()  # type: ignore[attr-defined]
    connection.close()
    return response


def raw(port: int, text: bytes) -> bytes:
    """Send bytes, return all that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
        sock.sendall(text)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def until(condition: Callable[[], bool]) -> None:
    """Wait for something another thread is about to do."""
    deadline_s = time.monotonic() + 5.0
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen within 5 s"
        threading.Event().wait(0.002)


def test_a_scrape() -> None:
    """GET /metrics returns the rendered page with its length; HEAD the same without a body."""
    with serving() as (_, port):
        response = get(port)
        assert response.status == 200
        assert response.body == TICK.pages.text  # type: ignore[attr-defined]
        assert response.headers["Content-Length"] == str(len(TICK.pages.text))
        head = raw(port, b"HEAD /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert head.endswith(b"\r\n\r\n")
        assert f"Content-Length: {len(TICK.pages.text)}".encode() in head


def test_keep_alive_and_pipelining() -> None:
    """Several requests on one connection, even sent at once, are answered in order; close is obeyed."""
    with serving() as (_, port):
        got = raw(
            port,
            b"GET /-/healthy HTTP/1.1\r\n\r\nGET /-/ready?x=1 HTTP/1.1\r\n\r\n"
            b"GET /no HTTP/1.1\r\nConnection: close\r\n\r\n",
        )
        statuses = [part[:3] for part in got.split(b"HTTP/1.1 ")[1:]]
        assert statuses == [b"200", b"200", b"404"]
        assert raw(port, b"GET /-/ready HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nName : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n" + b"x" * 100_000, 413),
        (b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n", 413),
        (b"POST /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", 405),
    ],
)
def test_refusals(sent: bytes, status: int) -> None:
    """What is not a small GET or HEAD is refused with its status, and the connection is closed."""
    with serving() as (_, port):
        assert raw(port, sent).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_broken_document_is_a_500() -> None:
    """A fault while a document is made is a whole 500, and the metrics are served on."""
    with serving() as (_, port):
        assert get(port, "/broken").status == 500
        assert get(port).status == 200


def test_silent_clients_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """More silent connections than there are places: a scrape is answered, the oldest silent ones are dropped."""
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 16)
    with serving() as (server, port), contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5)) for _ in range(40)]
        assert get(port).status == 200
        assert silent[0].recv(1) == b""
        until(lambda: len(server._connections) <= 16)
        silent[-1].sendall(b"GET /-/ready HTTP/1.1\r\n\r\n")
        assert silent[-1].recv(100).startswith(b"HTTP/1.1 200")


def test_busy_places_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """When every place is being answered, the next client hears 503 at once."""
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    release = threading.Event()

    def slow(_: Request) -> Scope:
        release.wait(5)
        return EVERYTHING

    with serving(authorize=slow) as (server, port), contextlib.ExitStack() as stack:
        busy = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5)) for _ in range(2)]
        for sock in busy:
            sock.sendall(b"GET /-/ready HTTP/1.1\r\n\r\n")
        until(lambda: sum(held.silent_since_s is None for held in list(server._connections)) == 2)
        assert raw(port, b"").startswith(b"HTTP/1.1 503 ")
        release.set()
        assert all(sock.recv(100).startswith(b"HTTP/1.1 200") for sock in busy)


def test_waits_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that says nothing is let go; one whose headers never end is told 408, however steadily it sends."""
    monkeypatch.setattr(request_module, "FIRST_BYTE_S", 0.05)
    monkeypatch.setattr(request_module, "REQUEST_S", 0.1)
    with serving() as (server, port):
        assert raw(port, b"") == b""
        with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n")
            got = b""
            sock.settimeout(0.02)
            for _ in range(100):
                with contextlib.suppress(OSError):
                    sock.sendall(b"X-More: x\r\n")
                try:
                    got = sock.recv(100)
                    break
                except TimeoutError:
                    continue
        assert got.startswith(b"HTTP/1.1 408 ")
        until(lambda: not server._connections)


def test_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the system gives no more threads, the client hears 503, and the next one is served once there are."""
    with serving() as (_, port):
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse_to_start)
            assert raw(port, b"").startswith(b"HTTP/1.1 503 ")
        assert get(port).status == 200


def refuse_to_start(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_clients_that_hang_up_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing after the request line, after the headers or mid-body frees the place and raises nothing."""
    faults: list[object] = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    with serving() as (server, port):
        for sent in (b"", b"GET /metrics HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\r\n\r\n"):
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset, not a polite end
                    sock.sendall(sent)
        until(lambda: not server._connections)
        assert get(port).status == 200
    assert faults == []


def test_a_slow_reader_does_not_hold_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not take the answer in time is let go, and scrapes go on meanwhile."""
    monkeypatch.setattr(server_module, "WRITE_S", 0.2)
    with serving() as (server, port), socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", port))
        # More answers than both socket buffers hold.
        with contextlib.suppress(OSError):
            sock.settimeout(0.5)
            sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 400)
        assert get(port).status == 200
        until(lambda: not server._connections)


def test_handshake_is_made_by_the_worker() -> None:
    """A client whose handshake never ends holds its own thread and nobody else's scrape."""
    release = threading.Event()
    first = threading.Event()

    class Speaking(socket.socket):
        def do_handshake(self) -> None:
            if not first.is_set():
                first.set()
                release.wait(5)

    def handshake(sock: socket.socket) -> Speaking:
        return Speaking(fileno=sock.detach())

    with serving(handshake=handshake) as (_, port), socket.create_connection(("127.0.0.1", port)):
        until(first.is_set)
        assert get(port).status == 200
        release.set()


def test_authorize_decides() -> None:
    """The hook sees the request and decides what is shown: everything, one tenant's jobs, or nothing."""
    scopes = {"all": EVERYTHING, "acme": Scope(frozenset({"acme"}))}
    with serving(authorize=lambda asked: scopes.get(asked.headers.get("x-who", ""))) as (_, port):
        assert get(port).status == 401
        assert get(port, **{"X-Who": "all"}).body == TICK.pages.text  # type: ignore[attr-defined]
        tenant = get(port, **{"X-Who": "acme"}).body  # type: ignore[attr-defined]
        assert b"gpumon_job_info" in tenant
        assert b"gpumon_gpu_up" not in tenant


def test_port_in_use_is_the_callers_error() -> None:
    """A taken port raises in `start` and names address and port; after a stop the port is free again at once."""
    with serving() as (_, port):
        get(port)
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{port} is already in use"):
            serving(f"127.0.0.1:{port}").__enter__()
    with serving(f"127.0.0.1:{port}") as (_, again):
        assert again == port
        assert get(port).status == 200


def test_nothing_is_left_after_stop() -> None:
    """Starting and stopping three times leaves no thread, and all threads are daemons meanwhile."""
    before = set(threading.enumerate())
    for _ in range(3):
        with serving() as (_, port), socket.create_connection(("127.0.0.1", port)):
            get(port)
            assert all(thread.daemon for thread in set(threading.enumerate()) - before)
    until(lambda: set(threading.enumerate()) <= before)


def test_listen_addresses(shared_dir: Path) -> None:
    """Each address of the case file is served where it says, or refused in one sentence that names it."""
    hosts = [row["host"] for row in json.loads((shared_dir / "cases" / "listen-addresses.json").read_text())["cases"]]
    reach = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1", "localhost": "127.0.0.1"}
    for host in hosts:
        address = f"[{host}]:0" if ":" in host else f"{host}:0"
        if host in {"no.such.host.invalid", "192.0.2.1", "fe80::1%lo"}:
            with pytest.raises(ListenError, match="listen: "):
                serving(address).__enter__()
            continue
        if ":" in host and not _has_ipv6():
            with pytest.raises(ListenError, match=r"IPv6|assign"):
                serving(address).__enter__()
            continue
        with serving(address) as (_, port):
            assert get(port, "/-/ready", reach.get(host, host)).status == 200


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_dual_stack_takes_both_families() -> None:
    """`::` answers IPv4 as well; without IPv6 in the kernel `:PORT` still listens, on IPv4."""
    with serving(":0") as (_, port):
        assert get(port, "/-/ready", "127.0.0.1").status == 200


def test_no_ipv6_in_the_kernel_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With IPv6 switched off `::` is refused in words, and an empty host falls back to IPv4."""
    import errno

    real = socket.socket

    def without_ipv6(family: int = -1, *args: int, **kwargs: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, *args, **kwargs)

    monkeypatch.setattr(socket, "socket", without_ipv6)
    with pytest.raises(ListenError, match="this kernel has no IPv6"):
        listening_sockets("::", 0)
    sockets = listening_sockets("", 0)
    assert [opened.family for opened in sockets] == [socket.AF_INET]
    for opened in sockets:
        opened.close()


@pytest.mark.parametrize("address", ["", "9836", "host", "::1:9836", "host:99999", "[::1]", "host:-1", "host:x"])
def test_nonsense_addresses(address: str) -> None:
    """What is not HOST:PORT is refused in a sentence that shows it."""
    with pytest.raises(ListenError, match="must be HOST:PORT"):
        parse_address(address)


def test_good_addresses() -> None:
    """Brackets hold an IPv6 address; an empty host stays empty."""
    assert parse_address("[::1]:9836") == ("::1", 9836)
    assert parse_address(":9836") == ("", 9836)
    assert parse_address("localhost:0") == ("localhost", 0)


def test_a_limit_of_threads_refuses_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be had the client gets 503, and the next one is answered once there are threads again."""
    with serving() as (server, port):
        start = threading.Thread.start

        def refused(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refused)
        assert get(port).status == 503
        monkeypatch.setattr(threading.Thread, "start", start)
        assert get(port).status == 200
        until(lambda: len(server._connections) <= 1)
