"""Whether the pids of a procfs are those the driver names: the host's."""

from __future__ import annotations

from pathlib import Path

from gpumon.hardware.procfs import files

# The kernel's fixed inode of the first pid namespace (PROC_PID_INIT_INO).
FIRST_PID_NAMESPACE = 0xEFFFFFFC


def has_host_pids(procfs_root: Path) -> bool:
    """Return True when the driver's pids mean processes of this procfs.

    Pid 2 is kthreadd in the first namespace and nowhere else. Where it is hidden (hidepid), our own namespace answers
    for /proc; a tree that was mounted elsewhere and named by the operator is trusted unless its first process tells
    otherwise, which takes root to read.
    """
    if files.text(f"{procfs_root}/2/comm") == "kthreadd\n":
        return True
    moved = procfs_root != Path("/proc")
    first = files.namespace(f"{procfs_root}/{'1' if moved else 'self'}/ns/pid")
    return first == FIRST_PID_NAMESPACE or (moved and first == 0)
