"""The process table as a recording holds it: a value and its fault are two fields, since both may be text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import msgspec

from gpumon.model.fault import Fault
from gpumon.model.process import CgroupSample, Container, Process, ProcessTable

# Fields of Process and Container that hold either a value or a Fault.
_EITHER = ("cmdline", "cgroup", "environ", "gpu_minors")


class ProcessRecord(msgspec.Struct, array_like=True):
    """One Process; `faults` names the fields of _EITHER that could not be read."""

    plain: dict[str, int | float | str | list[int]]  # a list for a set of numbers
    cmdline: tuple[str, ...]
    cgroup: str
    environ: dict[str, str]
    gpu_minors: frozenset[int]
    faults: dict[str, Fault]


class ContainerRecord(msgspec.Struct, array_like=True):
    """One Container."""

    container_id: str
    name: str
    runtime: str
    image: str
    labels: dict[str, str]
    gpu_minors: frozenset[int] | Fault
    gpu_request: str | None = None
    owner_uid: int = -1


class ProcessTableRecord(msgspec.Struct, array_like=True):
    """One ProcessTable."""

    read_s: float
    processes: list[ProcessRecord]
    cgroups: dict[str, CgroupSample]
    containers: dict[str, ContainerRecord]
    hidden: int
    users: dict[int, str]
    configs: list[tuple[int, int, dict[str, str]]] = []  # (pid, start_ticks, values)
    foreign_pids: bool = False


_PLAIN = tuple(item.name for item in fields(Process) if item.name not in _EITHER)


def to_record(table: ProcessTable) -> ProcessTableRecord:
    """Return the table in the form that is written."""
    return ProcessTableRecord(
        read_s=table.read_s,
        processes=[_record(process) for process in table.processes],
        cgroups=dict(table.cgroups),
        containers={
            key: ContainerRecord(
                one.container_id,
                one.name,
                one.runtime,
                one.image,
                dict(one.labels),
                one.gpu_minors,
                one.gpu_request,
                one.owner_uid,
            )
            for key, one in table.containers.items()
        },
        hidden=table.hidden,
        users=dict(table.users),
        configs=[(pid, start_ticks, dict(values)) for (pid, start_ticks), values in table.configs.items()],
        foreign_pids=table.foreign_pids,
    )


def from_record(record: ProcessTableRecord) -> ProcessTable:
    """Return the table that was written."""
    return ProcessTable(
        read_s=record.read_s,
        processes=tuple(_process(one) for one in record.processes),
        cgroups=record.cgroups,
        containers={
            key: Container(
                one.container_id,
                one.name,
                one.runtime,
                one.image,
                one.labels,
                one.gpu_minors,
                one.gpu_request,
                one.owner_uid,
            )
            for key, one in record.containers.items()
        },
        hidden=record.hidden,
        users=record.users,
        configs={(pid, start_ticks): values for pid, start_ticks, values in record.configs},
        foreign_pids=record.foreign_pids,
    )


def _record(process: Process) -> ProcessRecord:
    faults = {name: fault for name in _EITHER if isinstance(fault := getattr(process, name), Fault)}
    return ProcessRecord(
        plain={name: _listed(getattr(process, name)) for name in _PLAIN},
        cmdline=() if isinstance(process.cmdline, Fault) else process.cmdline,
        cgroup="" if isinstance(process.cgroup, Fault) else process.cgroup,
        environ={} if isinstance(process.environ, Fault) else dict(process.environ),
        gpu_minors=frozenset() if isinstance(process.gpu_minors, Fault) else process.gpu_minors,
        faults=faults,
    )


def _process(record: ProcessRecord) -> Process:
    either: Mapping[str, object] = {name: record.faults.get(name, getattr(record, name)) for name in _EITHER}
    plain = {name: frozenset(one) if isinstance(one, list) else one for name, one in record.plain.items()}
    return Process(**{**plain, **either})  # type: ignore[arg-type]  # the record holds what _record took apart


def _listed(value: int | float | str | frozenset[int]) -> int | float | str | list[int]:
    return sorted(value) if isinstance(value, frozenset) else value
