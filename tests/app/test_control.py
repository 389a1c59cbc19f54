"""The control socket: private, answers its own user, refuses others, and says when nobody is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpumon.app.control import ControlSocket, ask, socket_paths
from gpumon.app.service_manager import notify
from gpumon.app.timers import Timers
from gpumon.model.errors import GpumonError


def test_question_and_answer(tmp_path: Path) -> None:
    """A line reaches the handler and its answer comes back."""
    control = ControlSocket([tmp_path / "d" / "control"], lambda line: f"got {line}")
    assert control.path is not None
    assert control.path.stat().st_mode & 0o777 == 0o600
    assert ask([tmp_path / "none", control.path], "release 120") == "got release 120"
    control.close()
    assert not control.path.exists()


def test_refusals_and_absence_are_sentences(tmp_path: Path) -> None:
    """An error answer and a missing daemon are each one sentence."""
    control = ControlSocket([tmp_path / "control"], lambda _: "error: no such thing")
    with pytest.raises(GpumonError, match=r"^no such thing$"):
        ask([tmp_path / "control"], "x")
    control.close()
    with pytest.raises(GpumonError, match="no running gpumon found"):
        ask([tmp_path / "control"], "x")


def test_a_socket_left_behind_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    """After a crash the old socket does not block; a second daemon takes the next place."""
    first = ControlSocket([tmp_path / "a"], lambda _: "first")
    second = ControlSocket([tmp_path / "a", tmp_path / "b"], lambda _: "second")
    assert second.path == tmp_path / "b"
    assert ask([tmp_path / "a"], "x") == "first"
    second.close()
    first.close()
    (tmp_path / "c").touch()
    third = ControlSocket([tmp_path / "c"], lambda _: "third")
    assert ask([tmp_path / "c"], "x") == "third"
    third.close()


def test_places_in_order() -> None:
    """The service's directory comes before the user's; GPUMON_CONTROL before all."""
    assert socket_paths({"RUNTIME_DIRECTORY": "/run/x"})[0] == Path("/run/x/control")
    assert socket_paths({"XDG_RUNTIME_DIR": "/run/user/1"})[1] == Path("/run/user/1/gpumon/control")
    assert socket_paths({"GPUMON_CONTROL": "/c"}) == [Path("/c")]


def test_notify_without_a_manager_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No NOTIFY_SOCKET, or one that nobody serves: nothing happens."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "@nobody-listens-here")
    notify("READY=1")


@pytest.mark.parametrize("zone", ["Nonsense/Zone", "Europe/Berlin", ":UTC", ""])
def test_timers_start_in_any_time_zone(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    """Report 119: no zone data, or a wrong zone, does not stop the timers from starting."""
    monkeypatch.setenv("TZ", zone)
    timers = Timers({"x": (3600.0, os.getpid)})  # type: ignore[dict-item]
    timers.start()
    timers.clock_stepped()
    timers.stop()
