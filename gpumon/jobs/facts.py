"""What is known of one process: read once from its texts, again only when they change."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from gpumon.jobs import cgroup, layout, roles
from gpumon.jobs.cgroup import Place
from gpumon.jobs.layout.command import Command
from gpumon.jobs.layout.command import read as read_command
from gpumon.jobs.layout.parts import Said, both
from gpumon.jobs.roles import Role
from gpumon.model.fault import Fault
from gpumon.model.job import JobKind
from gpumon.model.process import Process

Key: TypeAlias = tuple[int, int]  # (pid, start_ticks)
Scope: TypeAlias = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """A process as its texts tell of it. `source` is the reading they were taken from; its figures are old."""

    key: Key
    ppid: int
    session: int
    uid: int
    place: Place
    kind: JobKind  # UNATTRIBUTED where nothing may be said
    scope: Scope  # processes of one launch share it
    paths: tuple[str, ...]  # of its control groups, as written
    role: Role
    command: Command
    said: Said
    source: Process
    config: Mapping[str, str] | None

    @property
    def pid(self) -> int:
        """The process's number."""
        return self.key[0]

    @property
    def start_ticks(self) -> int:
        """When it started: clock ticks since boot."""
        return self.key[1]

    @property
    def owner_uid(self) -> int:
        """Whose it is on this host: the owner of the session or job, else the process's user; -1 inside containers.

        A process in a container may take any user id: only the host's own view of the container counts.
        """
        if self.place.owner_uid >= 0:
            return self.place.owner_uid
        return -1 if self.place.chain or self.place.pod_uid else self.uid


def is_current(facts: Facts, process: Process, config: Mapping[str, str] | None) -> bool:
    """Return True when the texts that the facts were read from are the process's texts still."""
    source = facts.source
    return (
        (process.cmdline is source.cmdline or process.cmdline == source.cmdline)
        and (process.cgroup is source.cgroup or process.cgroup == source.cgroup)
        and (process.environ is source.environ or process.environ == source.environ)
        and config == facts.config
        and process.ppid == facts.ppid
        and process.comm == source.comm
    )


def read(process: Process, config: Mapping[str, str] | None, before: Facts | None) -> Facts:
    """Read a process's texts.

    Args:
        before: what was known of it; a dead process loses its control group but not its job.
    """
    if isinstance(process.cgroup, Fault) or (before is not None and process.state in ("Z", "X")):
        place, paths = (before.place, before.paths) if before is not None else (Place(), ())
    else:
        place, paths = _of_group(process.cgroup)
    command, said = (Command(), Said()) if isinstance(process.cmdline, Fault) else _of_words(process.cmdline)
    role = roles.of(process, command)
    said = _said(said, role, process, config)
    kind = _kind(place, process)
    return Facts(
        key=(process.pid, process.start_ticks),
        ppid=process.ppid,
        session=process.session,
        uid=process.uid,
        place=place,
        kind=kind,
        scope=_scope(kind, place, process),
        paths=paths,
        role=role,
        command=command,
        said=said,
        source=process,
        config=config,
    )


def _said(of_command: Said, role: Role, process: Process, config: Mapping[str, str] | None) -> Said:
    """Return what all sources together say: command line, then variables, then config files."""
    said, privileges = of_command, set()
    if not isinstance(process.cmdline, Fault):
        privileges.add("cmdline")
    if not isinstance(process.environ, Fault):
        said = both(said, layout.environment.read(process.environ, starts_ranks=role is Role.LAUNCHER))
        privileges.add("environ")
    if config:
        said = both(said, layout.configs.read(config))
        privileges.add("config")
    return replace(said, layout=replace(said.layout, privileges=frozenset(privileges)))


@lru_cache(maxsize=64)  # the ranks of a launch have one command line and are read one after the other
def _of_words(words: tuple[str, ...]) -> tuple[Command, Said]:
    command = read_command(words)
    return command, layout.of_command(command)


@lru_cache(maxsize=64)
def _of_group(text: str) -> tuple[Place, tuple[str, ...]]:
    return cgroup.parse(text), cgroup.paths_of(text)


def _kind(place: Place, process: Process) -> JobKind:
    if place.ambiguous or cgroup.is_host_service(place):
        return JobKind.UNATTRIBUTED
    if place.kind is not None:
        return place.kind
    # The root group, or a folder of no known manager: all that is left is the login session and its user.
    return JobKind.UNATTRIBUTED if isinstance(process.cgroup, Fault) and not place.path else JobKind.SESSION


def _scope(kind: JobKind, place: Place, process: Process) -> Scope:
    if kind is JobKind.SLURM:
        return kind, place.slurm_job_id, place.slurm_step, place.chain
    if kind in (JobKind.CONTAINER, JobKind.POD):
        return kind, place.owner_uid, place.chain, place.pod_uid
    if kind is JobKind.UNIT:
        return kind, place.unit
    if kind is JobKind.VM:
        return kind, place.machine
    return kind, place.owner_uid if place.owner_uid >= 0 else process.uid
