"""What one source (a command line, an environment, a config file) says of a launch, and how sources are joined."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from gpumon.jobs.layout.command import Command
from gpumon.model.job import Layout


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the ranks of a launch meet. "" and 0: not said."""

    address: str = ""
    port: int = 0
    nodes: int = 0
    world_size: int = 0
    node_rank: int = -1
    rank: int = -1


@dataclass(frozen=True, slots=True)
class Said:
    """What a source says."""

    layout: Layout = field(default_factory=Layout)
    rendezvous: Rendezvous = field(default_factory=Rendezvous)
    inner: Command | None = None  # of a launcher: the command it starts


_UNKNOWN_LAYOUT = Layout()
_UNKNOWN_RENDEZVOUS = Rendezvous()
_LAYOUT_FIELDS = tuple(item.name for item in fields(Layout) if item.name not in ("privileges", "nccl"))
_RENDEZVOUS_FIELDS = tuple(item.name for item in fields(Rendezvous))


def joined(first: Layout, second: Layout) -> Layout:
    """Return the first layout with what it does not know taken from the second."""
    if second == _UNKNOWN_LAYOUT:
        return first
    changes = {
        name: getattr(second, name)
        for name in _LAYOUT_FIELDS
        if getattr(first, name) == getattr(_UNKNOWN_LAYOUT, name) != getattr(second, name)
    }
    nccl = dict(second.nccl) | dict(first.nccl)
    privileges = first.privileges | second.privileges
    return replace(first, **changes, nccl=tuple(sorted(nccl.items())), privileges=privileges)


def met(first: Rendezvous, second: Rendezvous) -> Rendezvous:
    """Return the first rendezvous with what it does not know taken from the second."""
    if second == _UNKNOWN_RENDEZVOUS:
        return first
    changes = {
        name: getattr(second, name)
        for name in _RENDEZVOUS_FIELDS
        if getattr(first, name) == getattr(_UNKNOWN_RENDEZVOUS, name)
    }
    return replace(first, **changes)


def both(first: Said, second: Said) -> Said:
    """Join two sources, the first one counting more."""
    inner = first.inner or second.inner
    return Said(joined(first.layout, second.layout), met(first.rendezvous, second.rendezvous), inner)


def parallel(tensor: int, pipeline: int) -> str:
    """Return the strategy's name for model-parallel sizes; "" when both are 1 or unknown."""
    if tensor > 1:
        return "tp+pp" if pipeline > 1 else "tp"
    return "pp" if pipeline > 1 else ""
