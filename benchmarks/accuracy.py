"""How often the verdict is right: random simulated jobs against what really happened to them.

    python -m benchmarks.accuracy                                # 2,200 instances, cold
    python -m benchmarks.accuracy --instances 400 --signals windows
    python -m benchmarks.accuracy --write docs/accuracy.md       # the whole page: every set, changes, healthy jobs

The seeds of the report are 10,000 to 11,999 and are never used for tuning: thresholds are worked out on seeds from
1,000,000 on (`--first`), and those of the tests, 0 to 399, everyone has looked at who mended one. Beside the analysis a
baseline of ten lines of rules is judged on the same ticks; where it reaches 0.80, the instances are too easy. The page
takes the signal sets from a fifth of the instances.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks import accuracy_changes as changes
from benchmarks import accuracy_page
from benchmarks import accuracy_scores as scores
from benchmarks.accuracy_runs import SIGNALS, Outcome, run

REPORT_FIRST, REPORT_SEEDS = 10_000, 2200  # enough for 150 of each class
OF_SETS = 5  # the sets without some signals are watched on one instance of so many
STEADY = ("rtx4090-x2-ddp-bound", "rtx5090-x4-decode-single")
STEADY_S = 3600.0


def _named(seed: int, sets: tuple[tuple[str, bool], ...]) -> list[Outcome]:
    return list(run(seed, sets))


def run_all(seeds: Iterable[int], sets: tuple[tuple[str, bool], ...], workers: int) -> list[list[Outcome]]:
    """Return the outcomes of many instances in the order of their seeds, one for each set."""
    return changes.each(partial(_named, sets=sets), seeds, workers)


def report(outcomes: list[Outcome]) -> str:
    """Return the figures of one signal set as text."""
    clear = [o for o in outcomes if o.clear]
    tables = (
        scores.criteria(outcomes),
        scores.class_table(outcomes),
        scores.confusion(clear, "Taken for, clear instances"),
        scores.detail_table(outcomes),
        scores.straggler_table(outcomes),
    )
    return "\n\n".join(map(str, tables))


def _figures(asked: argparse.Namespace, command: str) -> accuracy_page.Figures:
    first, count = asked.first, asked.instances
    every = (("full", False), ("full", True))
    others = tuple((name, False) for name in SIGNALS if name != "full")
    outcomes: dict[tuple[str, bool], list[Outcome]] = defaultdict(list)
    some = max(1, count // OF_SETS)
    for seeds, sets in ((range(first, first + some), every + others), (range(first + some, first + count), every)):
        for own in run_all(seeds, sets, asked.workers):
            for key, outcome in zip(sets, own, strict=True):
                outcomes[key].append(outcome)
    seeds = range(first, first + max(1, count // 10))
    return accuracy_page.Figures(
        command=command,
        outcomes=outcomes,
        delays=changes.each(changes.change_delay, range(first, first + some), asked.workers),
        hangs=changes.each(changes.hang_delay, range(first, first + max(1, some // 5)), asked.workers),
        lives=changes.each(changes.healthy_life, seeds, asked.workers),
        steady={name: (STEADY_S, len(changes.steady_changes(name, STEADY_S))) for name in STEADY},
    )


def main() -> int:
    """Run the instances and print the figures, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--instances", type=int, default=REPORT_SEEDS)
    parser.add_argument("--first", type=int, default=REPORT_FIRST, help="first seed; the report's are 10000 to 12199")
    parser.add_argument("--signals", choices=sorted(SIGNALS), default="full")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--json", type=Path, help="write every outcome")
    parser.add_argument("--write", type=Path, help="write the whole page")
    asked = parser.parse_args()
    if asked.write is not None:
        command = f"python -m benchmarks.accuracy --instances {asked.instances} --write {asked.write}"
        asked.write.write_text(accuracy_page.page(_figures(asked, command)), "utf-8")
        return 0
    seeds = range(asked.first, asked.first + asked.instances)
    outcomes = [own[0] for own in run_all(seeds, ((asked.signals, asked.warm),), asked.workers)]
    print(report(outcomes))
    if asked.json is not None:
        asked.json.write_text("\n".join(json.dumps(asdict(o)) for o in outcomes), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
