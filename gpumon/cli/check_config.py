"""`gpumon check-config FILE`: all mistakes of a configuration at once."""

from __future__ import annotations

import argparse
import os

from gpumon.cli.arguments import Subparsers
from gpumon.config import load
from gpumon.model.errors import ConfigError


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser("check-config", help="check a configuration file", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="the TOML file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print each mistake; 1 when there was one."""
    try:
        config = load(args.file, os.environ)
    except ConfigError as error:
        for problem in error.problems:
            print(problem)
        return 1
    tenants = config.settings.tenants
    print(f"{args.file}: fine; {len(tenants.tenants)} tenants, {len(tenants.rules)} rules, serves on {config.listen}")
    return 0
