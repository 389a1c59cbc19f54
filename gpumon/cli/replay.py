"""`gpumon replay FILE...`: judge a recording, or a log of nvidia-smi, as it would have been judged live."""

from __future__ import annotations

import argparse
import os

from gpumon.cli import reporting
from gpumon.cli.arguments import Subparsers
from gpumon.config import load
from gpumon.recording import read


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "replay",
        help="judge a recording or a log",
        description="Judges a recording of `gpumon record` (its parts in any order), `nvidia-smi --query-gpu=timestamp,"
        "... --format=csv`, `nvidia-smi dmon` text, or a CSV with a t_s column. A missing column is a missing signal.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    reporting.add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the report of the recording."""
    settings = load(None, os.environ).settings
    finished = reporting.judged(read(args.files, reporting.warn), settings)
    if finished is None:
        return reporting.deliver_nothing(args)
    return reporting.deliver(finished, args, settings)
