"""`gpumon scenarios`: the simulated nodes, and the verdict each must give."""

from __future__ import annotations

import argparse

from gpumon.cli.arguments import Subparsers
from gpumon.hardware.simulated.scenarios import SCENARIOS


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "scenarios", help="list simulated nodes and the verdict each must give", description=__doc__
    )
    parser.set_defaults(run=run)


def run(_args: argparse.Namespace) -> int:
    """Print one line for each scenario."""
    names = max(len(name) for name in SCENARIOS)
    verdicts = max(len(named.verdict) for named in SCENARIOS.values())
    for name, named in SCENARIOS.items():
        print(f"{name:{names}}  {named.verdict:{verdicts}}  {named.about}")
    return 0
