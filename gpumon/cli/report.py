"""`gpumon report`: watch for a while, then say for each job what holds it back and what to do."""

from __future__ import annotations

import argparse
import os
import sys

from gpumon.app.remembering import remembered
from gpumon.app.watching import watch
from gpumon.cli import reporting
from gpumon.cli.arguments import Subparsers, duration
from gpumon.config import load
from gpumon.config.values import show_seconds
from gpumon.model.errors import GpumonError
from gpumon.model.samples import Tick


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report",
        help="watch, then say what holds each job back and what to do",
        description="Watches by itself, without a running daemon and without root; also inside a container or VM.",
    )
    parser.add_argument(
        "--duration", type=duration(5, 86400), default=30.0, metavar="TIME", help="how long to watch; default 30s"
    )
    parser.add_argument("--simulate", metavar="SCENARIO", help="watch a simulated node; see `gpumon scenarios`")
    reporting.add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Watch and print the report."""
    config = load(None, os.environ)
    last: list[Tick] = []

    def progress(tick: Tick) -> None:
        first = last[0] if last else tick
        last[:] = [first, tick]
        if sys.stderr.isatty():
            left = show_seconds(max(0, round(args.duration - (tick.mono_s - first.mono_s))))
            print(f"\rwatching {len(tick.cards)} cards, {left} left ", end="", file=sys.stderr, flush=True)

    past, settings = remembered(config, simulated=args.simulate is not None)
    finished = reporting.judged(watch(config, args.simulate, args.duration), settings, progress, past)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if finished is None or not last:
        raise GpumonError("no tick came: nothing was watched")
    newest = last[-1]
    if not newest.nvml_up:
        reason = newest.nvml_fault.value if newest.nvml_fault else "unknown"
        raise GpumonError(f"the NVIDIA driver does not answer ({reason}); `gpumon doctor` says why and what to do")
    return reporting.deliver(finished, args, config.settings)
