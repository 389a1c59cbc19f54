"""`gpumon doctor`: what is wrong on this node and what to do about it, and what its driver calls cost and mean."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from gpumon.cli import looking
from gpumon.cli.arguments import Subparsers
from gpumon.config import load
from gpumon.doctor import bundle
from gpumon.doctor.agreement import compare_sources
from gpumon.doctor.checks import run_checks, worst
from gpumon.doctor.driver_calls import driver_call_costs
from gpumon.doctor.examination import Examination, answering, examine
from gpumon.doctor.measure import ClockMaker, call_costs, window_overlap
from gpumon.doctor.patience import within
from gpumon.doctor.report import Measurements, document, text
from gpumon.doctor.result import Level
from gpumon.doctor.topology import document as topology_document
from gpumon.doctor.topology import draw
from gpumon.hardware.reader import NodeReader
from gpumon.model.errors import ConfigError
from gpumon.model.fault import Fault

# Measuring takes about eight seconds for each card model on the node.
MEASURING_TIMEOUT_S = 120.0
EPILOG = (
    "Exit codes: 0 nothing failed (warnings may be there), 1 a check failed, 2 wrong usage. Takes about ten seconds."
)


def add_parser(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor", help="checks with a remedy each, and what driver calls cost here", description=__doc__, epilog=EPILOG
    )
    parser.add_argument(
        "--bundle",
        metavar="FILE",
        type=Path,
        help="also write a support file (tar.gz); takes a minute where the daemon runs",
    )
    parser.add_argument("--config", metavar="FILE", help="the configuration to check; default as for `gpumon run`")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default) or json")
    parser.add_argument("--simulate", metavar="SCENARIO", help="a simulated node instead of this one")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print checks and measurements; 1 when a check failed."""
    listen, problems = _configuration(args.config)
    at = looking.at_scenario(args.simulate) if args.simulate else looking.at_machine()
    node, clock = at.node, at.clock
    try:
        examination = examine(node, clock, check_config=lambda: problems)
        results = run_checks(examination)
        measurements = _measure(node, examination, clock)
    finally:
        node.close()
    answer = json.dumps(document(examination, results, measurements), indent=2, allow_nan=False) + "\n"
    words = text(examination, results, measurements)
    sys.stdout.write(answer if args.format == "json" else words)
    if args.bundle:
        answers = {"doctor.txt": words, "doctor.json": answer}
        _bundle(args.bundle, examination, answers, f"http://{listen}")
    return 1 if worst(results) is Level.FAIL else 0


def _configuration(file: str | None) -> tuple[str, Sequence[str]]:
    """Return where the daemon listens, and the problems of the configuration; with problems the default address."""
    try:
        return load(file, os.environ).listen, ()
    except ConfigError as error:
        return load(os.devnull, {}).listen, error.problems


def _measure(node: NodeReader, examination: Examination, clock: ClockMaker) -> Measurements | None:
    """Return what was measured, None without a card to measure on or when a call hangs meanwhile."""
    cards = answering(examination)
    if not cards:
        return None
    measured = within(
        MEASURING_TIMEOUT_S,
        lambda: Measurements(
            costs=call_costs(node, cards, clock),
            driver_calls=() if examination.facts.simulated else driver_call_costs(cards),
            overlap=window_overlap(node, cards, clock),
            agreement=compare_sources(node, cards, clock),
        ),
    )
    if isinstance(measured, Fault):
        print("gpumon: a call to the driver hangs; nothing could be measured", file=sys.stderr)
        return None
    return measured


def _bundle(file: Path, examination: Examination, answers: Mapping[str, str], url: str) -> None:
    """Write the support file and say what is in it."""
    seen = (examination.facts, examination.cards, examination.topology, examination.readings)
    entries: dict[str, Callable[[], str]] = {name: partial(str, answer) for name, answer in answers.items()}
    entries["topology.txt"] = lambda: draw(*seen)
    entries["topology.json"] = lambda: json.dumps(topology_document(*seen), indent=1, allow_nan=False)
    if not examination.facts.simulated:
        entries["smi.json"] = bundle.device_query
        entries["state.jsonl"] = lambda: bundle.daemon_minute(url, time.sleep)
    written = bundle.write_bundle(file, entries)
    print(
        f"gpumon: {file} holds {', '.join(written)}; no configuration, command lines, environments or process names",
        file=sys.stderr,
    )
