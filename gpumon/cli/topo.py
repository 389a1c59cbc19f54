"""`gpumon topo`: how the cards are connected: a tree, the narrowest hop, the driver's word on peer access."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from gpumon.cli import looking
from gpumon.cli.arguments import Subparsers
from gpumon.config import load
from gpumon.doctor.examination import read_cards
from gpumon.doctor.topology import document, draw
from gpumon.history import HistoryError, file_in, folder_of
from gpumon.history.store import read
from gpumon.model.card import Card
from gpumon.model.fault import Fault
from gpumon.model.past import SetRate
from gpumon.model.topology import Topology

NO_RATES = "Rates learned for sets of cards: none yet.\n"
_LINKS = {"pcie": "PCIe", "nvlink": "NVLink"}
RATES = "Rates learned for sets of cards (best sustained in a collective, each way of a card; PCIe with its headers):"


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
    rates = learned(cards, simulated=facts.simulated) if args.bandwidth else []
    if args.format == "json":
        answer = document(facts, cards, topology, readings)
        if args.bandwidth:
            answer["learned_rates"] = [
                {"gpus": list(gpus), "link": rate.link, "bytes_per_second": rate.bytes_per_second}
                for gpus, rate in rates
            ]
        print(json.dumps(answer, indent=2, allow_nan=False))
    else:
        sys.stdout.write(draw(facts, cards, topology, readings))
        if args.bandwidth:
            sys.stdout.write("\n" + _drawn(rates))
    if isinstance(opened, Fault) and not _only_for_guests(topology):
        print(f"gpumon: the driver does not answer ({opened.value}); `gpumon doctor` says what to do", file=sys.stderr)
        return 1
    return 0


def learned(cards: Sequence[Card], *, simulated: bool) -> list[tuple[tuple[int, ...], SetRate]]:
    """Return the rates the history holds for sets of the cards that are here, with their present indices.

    Larger sets last, faster ones first. A history that cannot be read is told and holds none.
    """
    config = load(None, os.environ)
    if config.history is None:
        return []
    path = file_in(folder_of(config.history, os.environ), simulated=simulated)
    try:
        _, rates = read(path) if path.exists() else ([], [])
    except HistoryError as error:
        print(f"gpumon: {error}", file=sys.stderr)
        return []
    index = {card.identity.uuid: card.identity.index for card in cards}
    known = [
        (tuple(sorted(index[uuid] for uuid in rate.uuids)), rate)
        for rate in rates
        if all(uuid in index for uuid in rate.uuids)
    ]
    return sorted(known, key=lambda one: (len(one[0]), -one[1].bytes_per_second))


def _drawn(rates: Sequence[tuple[tuple[int, ...], SetRate]]) -> str:
    if not rates:
        return NO_RATES
    names = [", ".join(str(gpu) for gpu in gpus) for gpus, _ in rates]
    width = max(len(name) for name in names)
    lines = [
        f"  cards {name.ljust(width)}  {rate.bytes_per_second / 1e9:5.1f} GB/s  {_LINKS.get(rate.link, rate.link)}"
        for name, (_, rate) in zip(names, rates, strict=True)
    ]
    return "\n".join([RATES, *lines]) + "\n"


def _only_for_guests(topology: Topology) -> bool:
    """Return True on a host that holds all its cards for virtual machines: no driver is expected there."""
    return bool(topology.pci_gpus) and all(gpu.driver == "vfio-pci" for gpu in topology.pci_gpus)
