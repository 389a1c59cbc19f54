"""TLS, basic auth and tenant tokens: who sees what, what guessing costs, certificates reread."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import ssl
import threading
from pathlib import Path

import bcrypt
import pytest

from gpumon.export.access import Access, read_tokens
from gpumon.export.request import Request
from gpumon.export.scope import EVERYTHING, Scope
from gpumon.export.tls import Handshake
from gpumon.export.web_config import WebConfig, load_web_config
from gpumon.model.errors import ConfigError
from tests.app.certificates import certificate

HASH = bcrypt.hashpw(b"right", bcrypt.gensalt(4))


def request(authorization: str = "", client: str = "10.0.0.1") -> Request:
    """A GET with or without credentials."""
    headers = {"authorization": authorization} if authorization else {}
    return Request("GET", "/metrics", headers, True, client, False)


def basic(name: str, password: str) -> str:
    """The header of basic auth."""
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


class Time:
    """A clock moved by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def access(users: bool = True, tokens: dict[str, bytes] | None = None) -> tuple[Access, Time]:
    """An Access with one user and the given tokens."""
    time = Time()
    return Access({"prom": HASH} if users else {}, tokens or {}, time), time


def test_without_users_everybody_sees_what_metrics_carry() -> None:
    """No web-config file: no password is asked for."""
    assert access(users=False)[0].authorize(request()) == EVERYTHING


def test_users_are_asked_for_their_password() -> None:
    """The right pair opens everything, all others nothing."""
    judge, _ = access()
    assert judge.authorize(request(basic("prom", "right"))) == EVERYTHING
    for wrong in (
        "",
        basic("prom", "wrong"),
        basic("nobody", "x"),
        "Basic ???",
        "Digest x",
        basic("prom", "right" * 20),
    ):
        assert judge.authorize(request(wrong)) is None


def test_a_token_opens_its_tenant_alone() -> None:
    """A bearer token shows one tenant's jobs, with and without users; a wrong one shows nothing."""
    for users in (True, False):
        judge, _ = access(users, {"acme": b"t" * 20, "beta": b"u" * 20})
        assert judge.authorize(request("Bearer " + "t" * 20)) == Scope(frozenset({"acme"}))
        assert judge.authorize(request("bearer " + "u" * 20)) == Scope(frozenset({"beta"}))
        assert judge.authorize(request("Bearer nonsense")) is None


def test_a_right_pair_is_checked_once() -> None:
    """A thousand scrapes cost one bcrypt check."""
    judge, _ = access()
    assert all(judge.authorize(request(basic("prom", "right"))) for _ in range(1000))
    assert judge.checks == 1


def test_guessing_costs_a_bounded_number_of_checks() -> None:
    """A hundred clients guessing cost about one check a second; the right pair still works."""
    judge, time = access()
    assert judge.authorize(request(basic("prom", "right")))
    for second in range(100):
        time.now_s = float(second)
        for client in range(100):
            assert judge.authorize(request(basic("prom", f"{second}-{client}"), f"10.0.1.{client}")) is None
    assert judge.checks <= 1 + 3 + 100
    assert judge.authorize(request(basic("prom", "right")))


def test_a_repeated_wrong_pair_is_checked_once() -> None:
    """A scraper with an old password costs one check, not one a scrape."""
    judge, time = access()
    for second in range(100):
        time.now_s = float(second * 15)
        assert judge.authorize(request(basic("prom", "old"))) is None
    assert judge.checks == 1


def test_wrong_files_name_every_mistake(tmp_path: Path) -> None:
    """Each mistake of a web-config file is told with its place, passwords never."""
    file = tmp_path / "web.yml"
    file.write_text(
        "tls_server_config:\n  cert_file: c.pem\n  cipher_suites: [x]\n  client_auth_type: RequireAnyClientCert\n"
        "basic_auth_users:\n  a: hunter2\n  'b:c': x\nhttp_server_config: {}\n"
    )
    with pytest.raises(ConfigError) as raised:
        load_web_config(str(file))
    text = "\n".join(raised.value.problems)
    for part in ("cipher_suites is not supported", "key_file = None", "RequireAnyClientCert", "http_server_config is"):
        assert part in text
    assert "a: must be a bcrypt hash" in text
    assert "hunter2" not in text
    file.write_text("a: [")
    with pytest.raises(ConfigError, match="no valid YAML"):
        load_web_config(str(file))
    file.write_text("")
    assert load_web_config(str(file)) == WebConfig()


def test_tokens_are_read_and_checked(tmp_path: Path) -> None:
    """Short, missing and doubled tokens are told and left out."""
    for name, content in (("a", "x" * 20 + "\n"), ("b", "short"), ("c", "x" * 20)):
        (tmp_path / name).write_text(content)
    tokens, problems = read_tokens({name: str(tmp_path / name) for name in "abcd"})
    assert tokens == {"a": b"x" * 20}
    assert [problem.split(":")[0] for problem in problems] == ["tenant b", "tenant c", "tenant d"]


def peer_name(handshake: Handshake, trusted: Path) -> str:
    """Shake hands over a socket pair and return the certificate's name as the client sees it."""
    context = ssl.create_default_context(cafile=str(trusted))
    ours, theirs = socket.socketpair()
    served: list[ssl.SSLSocket] = []

    def serve() -> None:
        served.append(handshake(theirs))
        served[0].do_handshake()

    thread = threading.Thread(target=serve)
    thread.start()
    with context.wrap_socket(ours, server_hostname="localhost") as client:
        subject = dict(part[0] for part in client.getpeercert()["subject"])  # type: ignore[index]
    thread.join()
    served[0].close()
    return subject["commonName"]


@pytest.mark.tools
def test_a_changed_certificate_is_reread(tmp_path: Path) -> None:
    """A renewed certificate serves the next connection; a broken one leaves the old in force."""
    certificate(tmp_path, "first")
    (tmp_path / "web.yml").write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")
    web = load_web_config(str(tmp_path / "web.yml"))
    assert web.tls is not None
    handshake = Handshake(web.tls)
    assert peer_name(handshake, tmp_path / "cert.pem") == "first"
    certificate(tmp_path, "second")
    assert peer_name(handshake, tmp_path / "cert.pem") == "second"
    shutil.copy(tmp_path / "cert.pem", tmp_path / "good.pem")
    (tmp_path / "cert.pem").write_text("broken")
    os.utime(tmp_path / "cert.pem", ns=(1, 1))
    assert peer_name(handshake, tmp_path / "good.pem") == "second"


@pytest.mark.tools
def test_a_client_certificate_can_be_asked_for(tmp_path: Path) -> None:
    """With RequireAndVerifyClientCert only a client whose certificate the CA file vouches for gets through."""
    for name in ("server", "client", "stranger"):
        (tmp_path / name).mkdir()
        certificate(tmp_path / name, name)
    (tmp_path / "web.yml").write_text(
        "tls_server_config: {cert_file: server/cert.pem, key_file: server/key.pem, client_ca_file: client/cert.pem,"
        " client_auth_type: RequireAndVerifyClientCert, min_version: TLS12}\n"
    )
    web = load_web_config(str(tmp_path / "web.yml"))
    assert web.tls is not None

    def passes(who: str) -> bool:
        """Say whether a client with this certificate, "" for none, gets an answer."""
        ours, theirs = socket.socketpair()
        context = ssl.create_default_context(cafile=str(tmp_path / "server/cert.pem"))
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # there a refusal ends the handshake itself
        if who:
            context.load_cert_chain(tmp_path / who / "cert.pem", tmp_path / who / "key.pem")
        outcome: list[bool] = []

        def serve() -> None:
            with Handshake(web.tls)(theirs) as secured:  # type: ignore[arg-type]  # checked above
                try:
                    secured.do_handshake()
                except OSError:
                    outcome.append(False)
                else:
                    outcome.append(True)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            context.wrap_socket(ours, server_hostname="localhost").close()
        except OSError:
            ours.close()
        thread.join()
        return outcome[0]

    assert passes("client")
    assert not passes("")
    assert not passes("stranger")
