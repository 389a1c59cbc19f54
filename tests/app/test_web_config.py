"""TLS and passwords from outside: a daemon with a web-config file under silent, half-open and guessing clients."""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from tests.app.certificates import certificate
from tests.app.daemon import Running, running

pytestmark = [pytest.mark.tools, pytest.mark.realtime]

SCENARIO = ("--simulate", "rtx5090-x8-ddp-bound")
COST = 11  # one check: about 0.1 s of CPU
WRONG = "not this one"


def web_config(folder: Path, password: str) -> Path:
    """Write a web-config file with TLS and one user."""
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(COST)).decode()
    file = folder / "web.yml"
    file.write_text(
        "tls_server_config: {cert_file: cert.pem, key_file: key.pem, min_version: TLS13}\n"
        f"basic_auth_users: {{prometheus: '{hashed}'}}\n"
    )
    return file


class Client:
    """Scrapes over TLS, each time over a connection of its own unless one is kept."""

    def __init__(self, folder: Path, port: int) -> None:
        self._trusted = str(folder / "cert.pem")
        self.port = port

    def scrape(self, password: str, path: str = "/metrics") -> tuple[int, bytes, float]:
        """Return status, body, and how long it took with its handshake."""
        pair = base64.b64encode(f"prometheus:{password}".encode()).decode()
        start_s = time.monotonic()
        context = ssl.create_default_context(cafile=self._trusted)
        connection = http.client.HTTPSConnection("localhost", self.port, context=context, timeout=20)
        try:
            connection.request("GET", path, headers={"Authorization": f"Basic {pair}"})
            answer = connection.getresponse()
            return answer.status, answer.read(), time.monotonic() - start_s
        finally:
            connection.close()

    def subject(self) -> str:
        """Return the common name of the certificate that is served."""
        context = ssl.create_default_context(cafile=self._trusted)
        with (
            socket.create_connection(("localhost", self.port), 20) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            return str(dict(part[0] for part in secured.getpeercert()["subject"])["commonName"])  # type: ignore[index]


def threads(daemon: Running) -> int:
    """Return how many threads the daemon has."""
    return sum(1 for _ in Path(f"/proc/{daemon.process.pid}/task").iterdir())


def cpu_s(daemon: Running) -> float:
    """Return the CPU time that the daemon has used."""
    fields = Path(f"/proc/{daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Client, Path]]:
    """A daemon with TLS and the password "first", ready to be scraped."""
    folder = tmp_path_factory.mktemp("web")
    certificate(folder, "first")
    with running(folder, *SCENARIO, "--web.config.file", str(web_config(folder, "first"))) as daemon:
        daemon.wait(lambda: daemon.port)
        client = Client(folder, daemon.port)
        daemon.wait(lambda: client.scrape("first")[0] == 200 and b"gpumon_gpu_up" in client.scrape("first")[1])
        yield daemon, client, folder


def test_silent_and_half_open_clients_do_not_delay_a_scrape(served: tuple[Running, Client, Path]) -> None:
    """With 100 silent TLS connections and 300 half-open handshakes a scrape stays fast, and none of them is kept."""
    daemon, client, folder = served
    before = threads(daemon)
    context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    with contextlib.ExitStack() as held:
        for _ in range(100):
            plain = held.enter_context(socket.create_connection(("localhost", client.port), 20))
            held.enter_context(context.wrap_socket(plain, server_hostname="localhost"))
        hello = bytes.fromhex("160301020001")  # the first bytes of a ClientHello, and nothing after them
        for _ in range(300):
            half = held.enter_context(socket.create_connection(("localhost", client.port), 20))
            half.sendall(hello)
        took = []
        for _ in range(40):
            status, body, seconds = client.scrape("first")
            assert status == 200
            assert b"gpumon_job_bottleneck" in body
            took.append(seconds)
        assert threads(daemon) <= before + 128 + 4
    assert sorted(took)[-2] < 0.25, took
    daemon.wait(lambda: threads(daemon) <= before + 2, 15)


def test_verified_scrapes_cost_no_password_check(served: tuple[Running, Client, Path]) -> None:
    """A hundred scrapes with the right password cost less CPU than ten checks of it would."""
    daemon, client, _ = served
    client.scrape("first")
    start_s, begin_s = cpu_s(daemon), time.monotonic()
    for _ in range(100):
        assert client.scrape("first")[0] == 200
    idle_s = 0.15 * (time.monotonic() - begin_s)  # what the simulated node itself costs, generously
    assert cpu_s(daemon) - start_s - idle_s < 10 * one_check_s()


def one_check_s() -> float:
    """Return the CPU time of one password check on this machine."""
    hashed = bcrypt.hashpw(b"x", bcrypt.gensalt(COST))
    start_s = time.process_time()
    bcrypt.checkpw(b"y", hashed)
    return time.process_time() - start_s


def test_guessing_is_refused_at_a_bounded_cost(served: tuple[Running, Client, Path]) -> None:
    """Two hundred guesses are refused for the CPU of a handful of checks, and the right password still opens."""
    daemon, client, _ = served
    assert client.scrape("first")[0] == 200
    start_s, begin_s = cpu_s(daemon), time.monotonic()
    assert {client.scrape(f"{WRONG} {n}")[0] for n in range(200)} == {401}
    took_s = time.monotonic() - begin_s
    checks = 3 + took_s / 2  # the burst, and one in two seconds
    assert cpu_s(daemon) - start_s < checks * one_check_s() + 200 * 0.01 + 0.15 * took_s
    assert client.scrape("first")[0] == 200


def test_a_new_certificate_and_a_new_password_need_no_restart(served: tuple[Running, Client, Path]) -> None:
    """A renewed certificate serves the next connection; after SIGHUP the new password opens and the old does not."""
    daemon, client, folder = served
    assert client.subject() == "first"
    certificate(folder, "second")
    assert client.subject() == "second"

    web_config(folder, "second")
    assert client.scrape("second")[0] == 401
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait(lambda: client.scrape("second")[0] == 200)
    assert client.scrape("first")[0] == 401

    (folder / "web.yml").write_text("basic_auth_users: {prometheus: plain}\n")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait(lambda: any(line["event"] == "configuration not reloaded" for line in daemon.lines))
    assert client.scrape("second")[0] == 200, "a broken file must leave the old one in force"
