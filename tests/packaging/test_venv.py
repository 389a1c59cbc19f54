"""Installed with pip or pipx from a clean clone: the command is there, compiled, and starts without a network."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpumon
from tests.packaging.commands import PROJECT, call
from tests.packaging.page import blocks

pytestmark = [pytest.mark.tools, pytest.mark.realtime]

# Starts the daemon where there is no network but loopback, and prints its state once a verdict is out.
_SERVED_ALONE = """
import json, signal, subprocess, sys, time, urllib.request
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
daemon = subprocess.Popen([sys.argv[1], "run", "--simulate", "rtx5090-x8-ddp-bound", "--listen", "127.0.0.1:9836"])
until_s = time.monotonic() + 60
while time.monotonic() < until_s:
    time.sleep(0.2)
    try:
        with urllib.request.urlopen("http://127.0.0.1:9836/api/v1/state", timeout=5) as answer:
            state = json.load(answer)
    except OSError:
        continue
    if state["jobs"] and state["jobs"][0]["class"] != "unknown":
        break
daemon.send_signal(signal.SIGTERM)
print(json.dumps({"state": state, "code": daemon.wait(10)}))
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean clone of what is committed."""
    folder = tmp_path_factory.mktemp("clone") / "gpumon"
    call("git", "clone", "--quiet", "--no-hardlinks", str(PROJECT), str(folder))
    return folder


def works(command: Path, folder: Path) -> None:
    """Check the installed command: its version, and that it serves verdicts cut off from every network."""
    assert call(str(command), "--version", cwd=folder) == f"gpumon {gpumon.__version__}\n"
    said = call("unshare", "--net", sys.executable, "-c", _SERVED_ALONE, str(command), cwd=folder)
    result = json.loads(said)
    assert result["code"] == 0
    assert len(result["state"]["gpus"]) == 8
    assert result["state"]["jobs"][0]["class"] == "communication"


def test_a_virtual_environment(clone: Path, tmp_path: Path) -> None:
    """The page's commands in a clean clone: the command works, and every module of gpumon is compiled."""
    (commands,) = blocks("clone")
    call("sh", "-ec", commands, cwd=clone, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    works(clone / "venv/bin/gpumon", tmp_path)
    (package,) = (clone / "venv/lib").glob("python3.*/site-packages/gpumon")
    modules = list(package.rglob("*.py"))
    assert len(modules) > 100
    assert [m for m in modules if not Path(importlib.util.cache_from_source(str(m))).exists()] == []


def test_pipx(clone: Path, tmp_path: Path) -> None:
    """`pipx install .` puts the command where pipx puts commands."""
    call(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    call("venv/bin/pip", "install", "--quiet", "pipx", cwd=tmp_path)
    places = {"PIPX_HOME": str(tmp_path / "home"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    call("venv/bin/pipx", "install", str(clone), cwd=tmp_path, **places)
    works(tmp_path / "bin/gpumon", tmp_path)
    subprocess.run([tmp_path / "venv/bin/pipx", "uninstall", "gpumon-exporter"], env=places, check=True)
    assert not (tmp_path / "bin/gpumon").exists()
