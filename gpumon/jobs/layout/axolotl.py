"""axolotl: a YAML file says most (`configs`); flags of the same names override it."""

from __future__ import annotations

from gpumon.jobs.layout.command import Command, size
from gpumon.jobs.layout.parts import Said
from gpumon.model.job import Layout

_MODULES = frozenset({"axolotl.cli.train", "axolotl.cli.main", "axolotl.cli"})


def read(command: Command) -> Said | None:
    """Return what an axolotl command line says, None for another program."""
    if command.module not in _MODULES and command.program != "axolotl":
        return None
    options = command.options
    launcher = options.get("launcher", "")
    return Said(
        Layout(
            framework="axolotl",
            launcher=launcher if launcher in ("accelerate", "torchrun") else "",
            micro_batch=size(options, "micro-batch-size"),
            accumulation=size(options, "gradient-accumulation-steps"),
        )
    )
