"""torchrun, `python -m torch.distributed.run` and `torch.distributed.launch`: one agent a node, one child a rank."""

from __future__ import annotations

from gpumon.jobs.layout.command import Command, host_port, number, of_program, size, split
from gpumon.jobs.layout.parts import Rendezvous, Said
from gpumon.model.job import Layout

_NAMES = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
_FLAGS = frozenset({"standalone", "m", "module", "no-python", "run-path", "use-env", "virtual-local-rank"})
DEFAULT_PORT = 29500  # of torch.distributed when the launch names none


def read(command: Command) -> Said | None:
    """Return what a torchrun command line says, None for another program."""
    if command.name not in _NAMES:
        return None
    own, rest = split(command.arguments, _FLAGS)
    per_node = size(own, "nproc-per-node")  # "gpu" and "auto" are not known here
    if "nproc-per-node" not in own:
        per_node = 1
    lowest, _, highest = own.get("nnodes", "1").partition(":")
    nodes = number(highest or lowest)
    address, port = host_port(own.get("rdzv-endpoint", "")) if own.get("rdzv-endpoint") else ("", 0)
    address = own.get("master-addr") or address
    port = size(own, "master-port") or port
    if "standalone" in own or nodes == 1:
        address = address or "127.0.0.1"
    world_size = per_node * nodes if nodes > 0 and not (highest and highest != lowest) else 0
    return Said(
        Layout(launcher="torchrun", world_size=world_size, ranks_here=per_node),
        Rendezvous(
            address=address,
            port=port or (DEFAULT_PORT if address and "rdzv-endpoint" not in own and "standalone" not in own else 0),
            nodes=max(0, nodes),
            world_size=world_size,
            node_rank=number(own.get("node-rank")),
        ),
        of_program(rest, module="m" in own or "module" in own),
    )
