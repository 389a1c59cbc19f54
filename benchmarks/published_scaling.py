"""Full precision predicted from half precision: one rate a box, fitted to its FP16 runs, applied to its FP32 runs.

    python -m benchmarks.published_scaling

Reads `lambda_scaling.csv` (lambdal/deeplearning-benchmark). Only runs that were launched over several cards count; rows
of one box of the same name but of different dates are different boxes.
"""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpumon.scaling.exchange import implied_rate, step_seconds

TRACE = Path(__file__).resolve().parents[1].parent / "shared" / "traces" / "lambda_scaling.csv"
BERT_LARGE_PARAMETERS = 335e6
BYTES = {"FP16": 2.0, "FP32": 4.0}
_BOX = re.compile(r"(?:LambdaCloud_)?(?:[0-9]+x)?(?P<card>.+?)(?:_trt)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Row:
    """One run: samples a second over all cards, batch of each card."""

    box: str  # without its count of cards
    cards: int
    precision: str
    month: str
    throughput: float
    batch: int
    launched: bool  # over all cards

    @property
    def step_s(self) -> float:
        """Return the length of a step."""
        return self.batch * self.cards / self.throughput


@dataclass(frozen=True, slots=True)
class Pair:
    """A box with several cards, and the prediction for its FP32 run."""

    name: str
    cards: int
    efficiency: float
    predicted: float

    @property
    def error(self) -> float:
        """Return how far the prediction is off."""
        return abs(self.predicted - self.efficiency)


def rows(path: Path = TRACE) -> list[Row]:
    """Return the BERT-large runs."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [_row(cells) for cells in csv.DictReader(stream) if cells["task"] == "bert_large_squad"]


def _row(cells: dict[str, str]) -> Row:
    cloud = "cloud " if cells["box"].startswith("LambdaCloud") else ""
    match = _BOX.fullmatch(cells["box"])
    assert match is not None
    cards = int(cells["n_gpus_in_box"])
    return Row(
        box=cloud + match["card"],
        cards=cards,
        precision=cells["precision_label"],
        month=cells["run_date"][3:10],
        throughput=float(cells["throughput"]),
        batch=int(cells["batch_arg"]),
        launched=cards == 1 or cells["distributed_in_log"] == "True",
    )


def pairs(runs: list[Row]) -> Iterator[Pair]:
    """Yield the boxes whose one-card and many-card runs are there in both precisions, at the same batch."""
    for half in runs:
        if half.cards == 1 or half.precision != "FP16" or not half.launched:
            continue
        full = _same(runs, half, half.cards, "FP32")
        one_half, one_full = _same(runs, half, 1, "FP16"), _same(runs, half, 1, "FP32")
        if full is None or one_half is None or one_full is None:
            continue
        if half.batch != one_half.batch or full.batch != one_full.batch:
            continue
        rate = implied_rate(one_half.step_s, half.step_s, BERT_LARGE_PARAMETERS * BYTES["FP16"], half.cards)
        step_s = step_seconds(one_full.step_s, BERT_LARGE_PARAMETERS * BYTES["FP32"], half.cards, rate)
        yield Pair(
            f"{half.cards}x {half.box} {half.month}",
            half.cards,
            one_full.step_s / full.step_s,
            one_full.step_s / step_s,
        )


def _same(runs: list[Row], like: Row, cards: int, precision: str) -> Row | None:
    """Return the run of the same box; of the same month where there are several."""
    found = [
        one for one in runs if (one.box, one.cards, one.precision) == (like.box, cards, precision) and one.launched
    ]
    return min(found, key=lambda one: one.month != like.month, default=None)


def eightieth(errors: list[float]) -> float:
    """Return the error that four pairs of five stay within."""
    return sorted(errors)[math.ceil(0.8 * len(errors)) - 1]


def main() -> None:
    """Print every pair and the summary."""
    found = list(pairs(rows()))
    for pair in found:
        print(f"{pair.name:<28} efficiency {pair.efficiency:.3f}  predicted {pair.predicted:.3f}  off {pair.error:.3f}")
    errors = [pair.error for pair in found]
    within = sum(error <= 0.05 for error in errors) / len(errors)
    print(
        f"{len(found)} pairs: median error {statistics.median(errors):.3f}, "
        f"80th percentile {eightieth(errors):.3f}, within 0.05: {within:.0%}"
    )


if __name__ == "__main__":
    main()
