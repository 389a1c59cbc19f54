"""What the surroundings hide is told with its remedy; what is there is not."""

from __future__ import annotations

from pathlib import Path

from gpumon.app.hidden import hidden


def tree(folder: Path, *files: str) -> Path:
    """Make empty files below a folder."""
    for name in files:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return folder


def test_nothing_is_hidden_where_everything_is(tmp_path: Path) -> None:
    """A node with its driver, all processes and the control groups gives no sentence."""
    root = tree(tmp_path, "proc/1/stat", "proc/driver/nvidia/version", "sys/fs/cgroup/cgroup.procs", "dev/nvidiactl")
    assert hidden(root / "proc", root / "sys", root / "dev") == {}


def test_a_node_without_a_driver_hides_nothing(tmp_path: Path) -> None:
    """Device nodes that do not exist are missing, not hidden, until the driver is loaded."""
    root = tree(tmp_path, "proc/1/stat", "sys/fs/cgroup/cgroup.procs")
    assert hidden(root / "proc", root / "sys", root / "dev") == {}
    tree(root, "proc/driver/nvidia/version")
    assert "nvidia-modprobe" in hidden(root / "proc", root / "sys", root / "dev")["devices"]


def test_missing_processes_and_control_groups_are_told(tmp_path: Path) -> None:
    """Without process 1 and with an empty control-group tree both are named, each with the setting that helps."""
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    found = hidden(tmp_path / "proc", tmp_path / "sys", tmp_path / "dev")
    assert set(found) == {"processes", "control_groups"}
    assert "ProtectProc=default" in found["processes"]
    assert "ProtectControlGroups=yes" in found["control_groups"]
