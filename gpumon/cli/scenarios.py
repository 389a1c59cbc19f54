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
    width = max(len(scenario.name) for scenario in SCENARIOS)
    for scenario in SCENARIOS:
        print(f"{scenario.name:{width}}  {scenario.about}")
    return 0
