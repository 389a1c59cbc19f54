"""LLaMA-Factory: a YAML file says most (`configs`); the Trainer's flags may stand on the command line instead."""

from __future__ import annotations

from gpumon.jobs.layout.command import Command
from gpumon.jobs.layout.parts import Said
from gpumon.model.job import Layout

_MODULES = frozenset({"llamafactory.cli", "llamafactory.launcher"})


def read(command: Command) -> Said | None:
    """Return that this is LLaMA-Factory, None for another program."""
    script = "llamafactory/launcher.py" in command.script or "llamafactory/cli.py" in command.script
    if command.module in _MODULES or command.program in ("llamafactory-cli", "lmf") or script:
        return Said(Layout(framework="llamafactory"))
    return None
