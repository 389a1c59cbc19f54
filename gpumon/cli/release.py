"""`gpumon release`: let go of the driver, so that it can be upgraded, reset, or a card handed to a VM."""

from __future__ import annotations

import argparse
import os

from gpumon.app.control import ask, socket_paths
from gpumon.cli.arguments import Subparsers, duration


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "release",
        help="make the running daemon close the driver for a while",
        description="Makes the running daemon drain its pollers and close the driver: within 2 s no /dev/nvidia* is "
        "open. It comes back by itself after the time.",
    )
    parser.add_argument(
        "--for", dest="seconds", type=duration(1, 86400), default=120.0, metavar="TIME", help="how long; default 2m"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Ask the daemon and print its answer."""
    print(ask(socket_paths(os.environ), f"release {args.seconds:g}"))
    return 0
