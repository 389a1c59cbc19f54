"""The command line: which command, its arguments, and one sentence when something is wrong."""

from gpumon.cli.main import main

__all__ = ["main"]
