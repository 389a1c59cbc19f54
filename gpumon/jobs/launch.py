"""One launch is one job: its root process, and which processes belong to it.

The root is looked for upwards from a GPU process, within the same container, step, unit or user:

- the topmost launcher (torchrun, mpirun, a server that starts workers), through shells and wrappers; else
- the nearest pool (a notebook's kernel, Slurm's step daemon, Ray's raylet); else
- the topmost process of the same program (multiprocessing's parent).

A process keeps its launch for life: a launcher that dies first does not change the name of what it started.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from gpumon.jobs import roles
from gpumon.jobs.facts import Facts, Key
from gpumon.jobs.roles import Role
from gpumon.model.job import JobKind, Layout

_HIGHEST = 64  # generations; a longer chain is a loop made of reused pids
# A launcher between two rounds of ranks (elastic restart, a crash) keeps its job this long without a GPU process.
WITHOUT_RANKS_S = 60.0


@dataclass(frozen=True, slots=True)
class Launch:
    """A job of processes. Who it is was fixed at first sight; below `roots` is what changes."""

    gpu_job: str
    kind: JobKind
    tenant: str
    tenant_rule: str
    root: Facts
    container: str
    namespace: str
    user: str
    start_wall_s: float
    first_seen_s: float
    meeting: tuple[Hashable, ...] | None
    workload: str
    # Roots of all processes that met here -> (rank, node rank) they claimed, -1 when not said.
    roots: Mapping[Key, tuple[int, int]]
    learnt_from: tuple[object, ...] = ()  # layout and slice_hook follow from these
    layout: Layout = field(default_factory=Layout)
    slice_hook: str = ""
    stuck_since_s: float = math.nan

    @property
    def restarts_ranks(self) -> bool:
        """True when the root starts ranks and is none itself."""
        return self.root.role in (Role.LAUNCHER, Role.KERNEL)


def root_of(process: Facts, shown: Mapping[int, Facts], unread: frozenset[int]) -> Facts | None:
    """Return the root of the launch a process belongs to, None when an ancestor has not been read yet.

    Args:
        shown: by pid, the processes that procfs shows now.
        unread: pids that procfs shows and nobody has read yet.
    """
    launcher = process if process.role is Role.LAUNCHER else None
    pool = process if process.role in (Role.KERNEL, Role.POOL) else None
    top, linked, current = process, True, process
    for _ in range(_HIGHEST):
        if current.role is Role.KERNEL:
            break
        if current.ppid in unread:
            return None
        parent = shown.get(current.ppid)
        if parent is None or not _is_above(parent, current, process):
            break
        if parent.role is Role.LAUNCHER:
            launcher = parent
        elif parent.role in (Role.KERNEL, Role.POOL):
            pool = pool or parent
        linked = linked and parent.role is Role.PLAIN and _same_program(current, parent)
        top = parent if linked else top
        current = parent
    return launcher or pool or top


def _is_above(parent: Facts, child: Facts, process: Facts) -> bool:
    """A parent started after its child is another process with a reused pid."""
    return (
        parent.scope == process.scope and parent.role is not Role.BOUNDARY and parent.start_ticks <= child.start_ticks
    )


def _same_program(child: Facts, parent: Facts) -> bool:
    return roles.is_branch(child.source, child.command, parent.source, parent.command)


def owner_of(process: Facts, shown: Mapping[int, Facts], launch_of: Mapping[Key, str], roots: Mapping[Key, str]) -> str:
    """Return the job whose CPU work a process does, "" for none: it is a root, or stands below a rank or a root.

    Args:
        launch_of: GPU processes by key -> gpu_job.
        roots: roots by key -> gpu_job.
    """
    current: Facts | None = process
    for _ in range(_HIGHEST):
        if current is None:
            break
        key = current.key
        name = launch_of.get(key) or roots.get(key)
        if name:
            return name
        parent = shown.get(current.ppid)
        current = parent if parent is not None and parent.start_ticks <= current.start_ticks else None
    return ""
