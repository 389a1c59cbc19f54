"""Where procfs and sysfs are read: movable, for a container that has the host's trees mounted, and for tests."""

from __future__ import annotations

import os
from pathlib import Path

PROCFS_VARIABLE = "GPUMON_PROCFS_ROOT"
SYSFS_VARIABLE = "GPUMON_SYSFS_ROOT"


def default_procfs_root() -> Path:
    """Return GPUMON_PROCFS_ROOT, else /proc."""
    return Path(os.environ.get(PROCFS_VARIABLE) or "/proc")


def default_sysfs_root() -> Path:
    """Return GPUMON_SYSFS_ROOT, else /sys."""
    return Path(os.environ.get(SYSFS_VARIABLE) or "/sys")
