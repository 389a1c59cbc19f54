"""mpirun and its kin, srun, horovodrun: programs that start ranks without knowing what runs in them."""

from __future__ import annotations

from gpumon.jobs.layout.command import Command, of_program, options, size
from gpumon.jobs.layout.parts import Rendezvous, Said
from gpumon.model.job import Layout

_MPI = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "mpirun.real", "horovodrun"})
_DAEMONS = frozenset({"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy"})
_SRUN_FLAGS = frozenset(
    "K k l u v Q X Z W0 unbuffered label verbose quiet exclusive overlap exact kill-on-bad-exit no-kill pty "
    "whole oversubscribe O overcommit s".split()
)
_MPI_FLAGS = frozenset(
    "allow-run-as-root oversubscribe tag-output timestamp-output report-bindings display-map display-allocation q "
    "quiet v verbose nooversubscribe use-hwthread-cpus do-not-launch merge-stderr-to-stdout l prepend-rank".split()
)
_TWO_VALUES = frozenset({"mca", "gmca", "pmixmca", "prtemca", "genv", "env"})


def read(command: Command) -> Said | None:
    """Return what an mpirun or srun command line says, None for another program."""
    name = command.program
    if name in _DAEMONS:
        return Said(Layout(launcher="mpirun"))
    if name in _MPI:
        return _said(
            command.arguments, "mpirun", _MPI_FLAGS, ("np", "n", "c"), ("host", "H", "hostfile", "machinefile")
        )
    if name == "srun":
        return _said(command.arguments, "srun", _SRUN_FLAGS, ("ntasks", "n"), ("nodes", "N", "w", "nodelist"))
    return None


def _said(
    arguments: tuple[str, ...], launcher: str, flags: frozenset[str], counts: tuple[str, ...], remote: tuple[str, ...]
) -> Said:
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        name, equals, _ = arguments[position].lstrip("-").partition("=")
        name = name.replace("_", "-")
        position += 1 if equals or name in flags else 3 if name in _TWO_VALUES else 2
    own = options(arguments[:position])
    world_size = size(own, *counts)
    here = world_size if world_size and not any(name in own for name in remote) and launcher == "mpirun" else 0
    return Said(
        Layout(launcher=launcher, world_size=world_size, ranks_here=here),
        Rendezvous(world_size=world_size, nodes=1 if here else 0),
        of_program(arguments[position:]),
    )
