"""DeepSpeed's runner and its per-node launcher; the engine's own JSON is read in `configs`."""

from __future__ import annotations

import base64
import binascii
import json

from gpumon.jobs.layout.command import Command, number, of_program, size, split
from gpumon.jobs.layout.parts import Rendezvous, Said
from gpumon.model.job import Layout

_RUNNERS = frozenset({"deepspeed", "ds", "deepspeed.launcher.runner", "runner.py"})
_LAUNCHERS = frozenset({"deepspeed.launcher.launch", "launch.py"})
_FLAGS = frozenset(
    "module no-python no-local-rank no-ssh no-ssh-check force-multi save-pid elastic-training bind-cores-to-rank "
    "venv-script enable-elastic-training".split()
)
DEFAULT_PORT = 29500
_LONGEST_WORLD = 16384  # characters of --world_info


def read(command: Command) -> Said | None:
    """Return what a DeepSpeed command line says, None for another program."""
    if command.name in _RUNNERS and (command.name != "runner.py" or "deepspeed" in command.script):
        return _runner(command)
    if command.name in _LAUNCHERS and (command.name != "launch.py" or "deepspeed" in command.script):
        return _launcher(command)
    return None


def _runner(command: Command) -> Said:
    own, rest = split(command.arguments, _FLAGS)
    nodes, here = size(own, "num-nodes"), size(own, "num-gpus")
    if not here and (include := own.get("include", own.get("i", ""))) and "@" not in include:
        _, colon, cards = include.partition(":")
        here = len(cards.split(",")) if colon else 0
    single = not own.get("hostfile", own.get("H")) and nodes <= 1
    return Said(
        Layout(launcher="deepspeed", world_size=here * max(1, nodes), ranks_here=here),
        Rendezvous(
            address=own.get("master-addr") or ("127.0.0.1" if single else ""),
            port=size(own, "master-port") or DEFAULT_PORT,
            nodes=nodes or (1 if single else 0),
            world_size=here * max(1, nodes),
            node_rank=number(own.get("node-rank")),
        ),
        of_program(rest, module="module" in own),
    )


def _launcher(command: Command) -> Said:
    own, rest = split(command.arguments, _FLAGS)
    sizes = _world(own.get("world-info", ""))
    node_rank = number(own.get("node-rank"))
    here = sizes[node_rank] if 0 <= node_rank < len(sizes) else sizes[0] if len(sizes) == 1 else 0
    return Said(
        Layout(launcher="deepspeed", world_size=sum(sizes), ranks_here=here),
        Rendezvous(
            address=own.get("master-addr", ""),
            port=size(own, "master-port"),
            nodes=len(sizes),
            world_size=sum(sizes),
            node_rank=node_rank,
        ),
        of_program(rest, module="module" in own),
    )


def _world(text: str) -> list[int]:
    """Return the number of cards of each node from --world_info, base64 of {"host": [0, 1, ...]}."""
    if not text or len(text) > _LONGEST_WORLD:
        return []
    try:
        world = json.loads(base64.urlsafe_b64decode(text))
    except (binascii.Error, ValueError, RecursionError):
        return []
    if not isinstance(world, dict):
        return []
    return [len(cards) for cards in world.values() if isinstance(cards, list)]
