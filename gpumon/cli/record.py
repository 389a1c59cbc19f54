"""`gpumon record FILE`: keep what is read, to be judged again later or elsewhere."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from gpumon.app.watching import watch
from gpumon.cli.arguments import Subparsers, duration
from gpumon.config import load
from gpumon.recording import Writer


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "record",
        help="record ticks for `gpumon replay`",
        description="Records every tick: at most 5 MB an hour for 8 cards, in files of 32 MB of which 8 are kept. "
        "Command lines are reduced to launchers, flag names and numbers; names, labels and users are left out.",
    )
    parser.add_argument("file", metavar="FILE", help="where to; an existing recording becomes FILE.1")
    parser.add_argument("--duration", type=duration(1, 30 * 86400), metavar="TIME", help="default: until Ctrl-C")
    parser.add_argument("--simulate", metavar="SCENARIO", help="record a simulated node; see `gpumon scenarios`")
    parser.add_argument(
        "--unmasked", action="store_true", help="keep command lines, names, labels and users as they are"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Record until the time is over or Ctrl-C."""
    writer = Writer(args.file, unmasked=args.unmasked)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    count = 0
    try:
        for tick in watch(load(None, os.environ), args.simulate, args.duration):
            writer.write(tick)
            count += 1
    finally:
        writer.close()
        print(f"{count} s recorded to {args.file}", file=sys.stderr)
    return 1 if writer.problem else 0
