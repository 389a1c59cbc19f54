"""What jobs say of themselves, as it is read: sockets, files, servers. Everything a tenant writes may be hostile."""

from __future__ import annotations

import http.server
import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpumon.hardware import server_metrics
from gpumon.hardware.reported import MOST_BYTES, ReportSocket, ReportSocketError, parse, read_folder
from gpumon.hardware.server_metrics import ServerCount
from gpumon.model.report import ReportSource
from gpumon.model.settings import ReportSettings
from gpumon.sampling.reported import Listener

CONTAINER = "0123456789ab"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (b"samples_per_second 812.5\nstep 1200\n", {"samples_per_second": 812.5, "step": 1200.0}),
        (b"tokens_per_second=7", {"tokens_per_second": 7.0}),
        (b"tokens_per_second: 7\r\n", {"tokens_per_second": 7.0}),
        (b"loss 0.3\nstep 4", {"step": 4.0}),
        (b"step nan\nstep -4\nstep 1e9\nstep inf\nstep 0x10", {}),
        (b"samples_per_second 99999999999999", {}),
        (b"\xff\xfe\x00step 4", {}),
        (b"step 1 step 2", {}),
        (b"", {}),
        (b"\n" * MOST_BYTES + b"step 4", {}),
    ],
)
def test_parse(text: bytes, numbers: dict[str, float]) -> None:
    """Known names with plain numbers count; everything else is ignored without a word."""
    assert parse(text) == numbers


def test_the_kernel_names_the_sender(tmp_path: Path) -> None:
    """A datagram carries the pid of the process that sent it, whatever its text claims."""
    listening = ReportSocket(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"samples_per_second 5\npid 1\n", str(tmp_path / "socket"))
    report = listening.receive(7.0)
    assert report is not None
    assert (report.pid, report.samples_per_second, report.mono_s) == (os.getpid(), 5.0, 7.0)
    assert report.source is ReportSource.SOCKET
    assert listening.receive(8.0) is None
    listening.close()
    assert not (tmp_path / "socket").exists()


def test_another_process_is_told_apart(tmp_path: Path) -> None:
    """A child that sends is named by its own pid."""
    listening = ReportSocket(tmp_path / "socket")
    child = os.fork()
    if child == 0:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"step 1", str(tmp_path / "socket"))
        os._exit(0)
    os.waitpid(child, 0)
    report = listening.receive(0.0)
    assert report is not None
    assert report.pid == child
    listening.close()


def test_any_user_may_send(tmp_path: Path) -> None:
    """The socket is open to all for writing, whatever the service's umask."""
    before = os.umask(0o077)
    try:
        listening = ReportSocket(tmp_path / "socket")
    finally:
        os.umask(before)
    assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o666
    listening.close()


def test_a_socket_that_cannot_be_made(tmp_path: Path) -> None:
    """A path in the way is not deleted: the sentence says what is wrong."""
    (tmp_path / "socket").write_text("something of value")
    with pytest.raises(ReportSocketError, match=r"report\.socket = .* cannot be made"):
        ReportSocket(tmp_path / "socket")
    assert (tmp_path / "socket").read_text() == "something of value"


def test_a_flood_and_a_long_text_do_no_harm(tmp_path: Path) -> None:
    """More than a statement may hold is cut; a sender that sends more than once a second is heard once."""
    listener = Listener(ReportSettings(socket=str(tmp_path / "socket")), (), Path("/proc"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sent = 0
        try:
            for _ in range(5000):
                sender.sendto(b"x" * 3000 + b"\nstep 5", str(tmp_path / "socket"))
                sent += 1
        except BlockingIOError:
            pass  # the kernel's own queue is short: a sender is refused, gpumon is not filled
    assert 0 < sent < 5000
    listener._drain()
    (report,) = listener.take()
    assert math.isnan(report.step)
    assert listener.take() == ()


def _files(folder: Path) -> dict[tuple[str, str, int], float]:
    found = read_folder(folder, ("acme", "globex"), 100.0, time.time())
    return {(report.tenant, report.container, report.pid): report.samples_per_second for report in found}


def test_files_say_for_whom(tmp_path: Path) -> None:
    """A pid in the folder itself; in a tenant's folder a pid or the container's id; a tenant of the list alone."""
    for place in (
        "4711.txt",
        f"acme/{CONTAINER}.txt",
        "acme/4712.txt",
        f"{CONTAINER}.txt",
        "nobody/4713.txt",
        "note.md",
    ):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text("samples_per_second 5\n")
    assert _files(tmp_path) == {("", "", 4711): 5.0, ("acme", CONTAINER, 0): 5.0, ("acme", "", 4712): 5.0}


def test_only_plain_fresh_files_of_one_name_are_read(tmp_path: Path) -> None:
    """Links, second names, pipes, folders and what is a minute old are not opened or say nothing."""
    secret = tmp_path / "secret"
    secret.write_text("samples_per_second 5\n")
    (tmp_path / "1.txt").symlink_to(secret)
    (tmp_path / "2.txt").hardlink_to(secret)
    os.mkfifo(tmp_path / "3.txt")
    (tmp_path / "4.txt").mkdir()
    old = tmp_path / "5.txt"
    old.write_text("samples_per_second 5\n")
    os.utime(old, (1.0, 1.0))
    (tmp_path / "6.txt").write_text("samples_per_second 6\n")
    assert _files(tmp_path) == {("", "", 6): 6.0}


def test_a_full_folder_is_cut(tmp_path: Path) -> None:
    """Ten thousand files cost as much as the few that are read."""
    for number in range(1000):
        (tmp_path / f"{number + 1}.txt").write_text("step 1")
    assert len(_files(tmp_path)) == 256


def test_a_missing_folder_is_empty(tmp_path: Path) -> None:
    """A folder that does not exist yet is no error."""
    assert _files(tmp_path / "later") == {}


PAGES = {
    "vllm": (
        b'vllm:num_requests_running{model_name="m"} 32.0\nvllm:num_requests_waiting{model_name="m"} 4.0\n'
        b'vllm:generation_tokens_total{engine="0",model_name="m"} 7.307144e+06\n'
        b'vllm:generation_tokens_total{engine="1",model_name="m"} 1.0e+06\n',
        ServerCount(8307144.0, 4.0),
    ),
    "sglang": (
        b'sglang:num_queue_reqs{model_name="m"} 0.0\nsglang:generation_tokens_total{model_name="m"} 337.0\n',
        ServerCount(337.0, 0.0),
    ),
    "tgi": (b"tgi_queue_size 3\ntgi_request_generated_tokens_sum 4096\n", ServerCount(4096.0, 3.0)),
}


@pytest.mark.parametrize("server", PAGES)
def test_pages_of_servers(server: str) -> None:
    """Generated tokens are summed over labels; the queue is read beside them."""
    page, count = PAGES[server]
    assert server_metrics.parse(page) == count


@pytest.mark.parametrize("page", [b"", b"up 1\n", b"\xff" * 1000, b"vllm:generation_tokens_total 1e\n"])
def test_pages_of_something_else(page: bytes) -> None:
    """A page of no known server, or with a number that is none, says nothing."""
    assert server_metrics.parse(page) is None


class _Server(http.server.BaseHTTPRequestHandler):
    tokens = 0.0
    waiting = 2

    def do_GET(self) -> None:
        """Serve the page, or a redirect elsewhere."""
        if self.path != "/metrics":
            self.send_error(404)
            return
        type(self).tokens += 500.0
        body = f"vllm:generation_tokens_total {self.tokens}\nvllm:num_requests_waiting {self.waiting}\n".encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[int]:
    """A server of this very process on loopback; its port."""
    _Server.tokens, _Server.waiting = 0.0, 2
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield running.server_address[1]
        running.shutdown()


def test_only_the_jobs_own_ports_are_known(server: int) -> None:
    """The ports of a process are those it listens on itself; another process has none of them."""
    assert server in server_metrics.listening_ports(Path("/proc"), os.getpid())
    assert server not in server_metrics.listening_ports(Path("/proc"), 1)
    assert server_metrics.listening_ports(Path("/proc"), 2**22 + 1) == ()


def test_the_rate_of_a_server(server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens between two looks over the time between them, said for the process that listens."""
    times = iter((10.0, 20.0, 30.0))
    monkeypatch.setattr("gpumon.sampling.reported.time.monotonic", lambda: next(times))
    listener = Listener(ReportSettings(servers=True), (), Path("/proc"))
    listener.follow([os.getpid()])
    monkeypatch.setattr(server_metrics, "listening_ports", lambda _procfs, _pid: (server,))
    listener.ask_servers()
    assert listener.take() == ()
    listener.ask_servers()
    (report,) = listener.take()
    assert (report.pid, report.tokens_per_second, report.source) == (os.getpid(), 50.0, ReportSource.SERVER)
    _Server.waiting = 0
    listener.ask_servers()
    assert listener.take() == (), "without a queue a server is as fast as it is asked to be"


def test_a_port_that_does_not_answer() -> None:
    """A port nobody listens on, or whose listener says something else, is None."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert server_metrics.ask(closed.getsockname()[1]) is None
