"""What the service's surroundings hide from gpumon, each as one sentence with its remedy.

A sandbox takes things away without a trace: the driver answers nothing, other users' processes do not exist, pressure
files are missing. Everything else keeps working, so the daemon says once what is hidden and goes on. The kernel log is
not looked for: Xid errors come from the driver's event call.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

# The driver's control node: opening it touches no card, which opening /dev/nvidia0 would wake.
_CONTROL_NODE = "nvidiactl"


def hidden(procfs_root: Path, sysfs_root: Path, devices: Path = Path("/dev")) -> dict[str, str]:
    """Return what cannot be seen: one of `devices`, `processes`, `control_groups` -> the sentence for the log.

    About ten system calls; opens no file of a card.
    """
    found = {
        "devices": _devices(procfs_root, devices),
        "processes": _processes(procfs_root),
        "control_groups": _control_groups(sysfs_root),
    }
    return {what: sentence for what, sentence in found.items() if sentence}


def _devices(proc: Path, devices: Path) -> str:
    node = devices / _CONTROL_NODE
    try:
        os.close(os.open(node, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EPERM:
            return (
                f"{node} is closed by the control group's device rules: no card can be read. "
                "Give the unit DeviceAllow=char-195 rw, or the container the NVIDIA runtime."
            )
        if error.errno == errno.EACCES:
            return (
                f"{node} is closed to user {os.getuid()}: no card can be read. Make it mode 0666, the driver's default."
            )
        if error.errno == errno.ENOENT and (proc / "driver/nvidia/version").exists():
            return (
                f"the driver is loaded, but {node} does not exist here: no card can be read. On a host run "
                "nvidia-modprobe or nvidia-persistenced as root; in a unit set PrivateDevices=no; in a container use "
                "the NVIDIA runtime."
            )
    return ""


def _processes(proc: Path) -> str:
    try:
        (proc / "1/stat").read_bytes()
    except OSError:
        return (
            "processes of other users are hidden: their jobs cannot be named. "
            "Set ProtectProc=default in the unit and mount /proc without hidepid."
        )
    return ""


def _control_groups(sysfs: Path) -> str:
    tree = sysfs / "fs/cgroup"
    try:
        if any(tree.iterdir()):
            return ""
    except OSError:
        pass  # the same answer as an empty one
    return (
        f"the control-group tree {tree} cannot be read: disk traffic and throttling of jobs are unknown. "
        "Keep /sys/fs/cgroup readable; ProtectControlGroups=yes does."
    )
