"""The support bundle: what it holds, and what it never holds."""

from __future__ import annotations

import http.server
import json
import sys
import tarfile
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpumon.doctor.bundle import BundleError, daemon_minute, device_query, write_bundle


@pytest.fixture
def daemon() -> Iterator[str]:
    """A loopback server that answers the state as the daemon does; yields its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"schema": 1,\n "jobs": []}')

        def log_message(self, *_arguments: object) -> None:
            return

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_bundle_holds_what_has_content(tmp_path: Path) -> None:
    """Entries with content are written under one folder; empty ones are left out."""
    file = tmp_path / "bundle.tar.gz"
    assert write_bundle(file, {"doctor.txt": lambda: "fine", "smi.json": str}) == ("doctor.txt",)
    with tarfile.open(file) as archive:
        assert archive.getnames() == ["gpumon-bundle/doctor.txt"]
        stream = archive.extractfile("gpumon-bundle/doctor.txt")
        assert stream is not None
        assert stream.read() == b"fine"


def test_unwritable_file_is_one_sentence(tmp_path: Path) -> None:
    """A bundle that cannot be written says which file and why, before anything slow is asked for it."""
    asked: list[str] = []
    with pytest.raises(BundleError, match=r"no-such-folder.*cannot be written"):
        write_bundle(tmp_path / "no-such-folder/bundle.tar.gz", {"a": lambda: asked.append("a") or "b"})
    assert asked == []


def test_minute_of_a_running_daemon(daemon: str) -> None:
    """Twelve states five seconds apart, one JSON object a line."""
    waited: list[float] = []
    lines = daemon_minute(daemon, waited.append).splitlines()
    assert [json.loads(line) for line in lines] == [{"schema": 1, "jobs": []}] * 12
    assert waited == [5.0] * 11


def test_without_a_daemon_there_is_no_minute() -> None:
    """Nobody listening: nothing is waited for."""
    waited: list[float] = []
    assert daemon_minute("http://127.0.0.1:9", waited.append) == ""
    assert waited == []


def test_device_query_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pynvml_utils is not installed there is no query and no error."""
    monkeypatch.setitem(sys.modules, "pynvml_utils", None)
    assert device_query() == ""


def test_device_query_leaves_processes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query goes in whole, but for what tells what other people run."""

    class Smi:
        @staticmethod
        def getInstance() -> Smi:  # noqa: N802 - the foreign module's name
            return Smi()

        def DeviceQuery(self) -> dict[str, object]:  # noqa: N802
            return {"gpu": [{"product_name": "RTX 4090", "processes": [{"process_name": "secret"}]}]}

    module = types.ModuleType("pynvml_utils")
    module.nvidia_smi = Smi  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml_utils", module)
    assert json.loads(device_query()) == {"gpu": [{"product_name": "RTX 4090"}]}


def test_device_query_that_fails_does_not_stop_the_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that refuses the query leaves the name of the error."""

    class Smi:
        @staticmethod
        def getInstance() -> Smi:  # noqa: N802
            raise RuntimeError("driver not loaded")

    module = types.ModuleType("pynvml_utils")
    module.nvidia_smi = Smi  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pynvml_utils", module)
    assert json.loads(device_query()) == {"error": "RuntimeError"}
