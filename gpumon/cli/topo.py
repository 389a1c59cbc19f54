"""`gpumon topo`: how the cards are connected: a tree, the narrowest hop, the driver's word on peer access."""

from __future__ import annotations

import argparse
import json
import sys

from gpumon.cli import looking
from gpumon.cli.arguments import Subparsers
from gpumon.doctor.examination import read_cards
from gpumon.doctor.topology import document, draw
from gpumon.model.fault import Fault
from gpumon.model.topology import Topology

NO_RATES = "Rates learned for sets of cards: none yet.\n"


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "topo", help="cards, links, shared uplinks, NVLink, peer access, NUMA", description=__doc__
    )
    parser.add_argument("--bandwidth", action="store_true", help="also show the rates learned for sets of cards")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    parser.add_argument("--simulate", metavar="SCENARIO", help="a simulated node instead of this one")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the topology; 1 when the driver does not answer although it has cards to answer for."""
    at = looking.at_scenario(args.simulate) if args.simulate else looking.at_machine()
    node = at.node
    opened = node.open()
    try:
        cards = () if isinstance(opened, Fault) else tuple(opened)
        facts, topology = node.facts(), node.topology(cards)
        readings = read_cards(node, cards, at.clock)
    finally:
        node.close()
    if args.format == "json":
        answer = document(facts, cards, topology, readings)
        if args.bandwidth:
            answer["learned_rates"] = []
        print(json.dumps(answer, indent=2, allow_nan=False))
    else:
        sys.stdout.write(draw(facts, cards, topology, readings))
        if args.bandwidth:
            sys.stdout.write("\n" + NO_RATES)
    if isinstance(opened, Fault) and not _only_for_guests(topology):
        print(f"gpumon: the driver does not answer ({opened.value}); `gpumon doctor` says what to do", file=sys.stderr)
        return 1
    return 0


def _only_for_guests(topology: Topology) -> bool:
    """Return True on a host that holds all its cards for virtual machines: no driver is expected there."""
    return bool(topology.pci_gpus) and all(gpu.driver == "vfio-pci" for gpu in topology.pci_gpus)
