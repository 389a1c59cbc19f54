"""Published scaling runs and how each is predicted without looking at itself.

Source of most runs: lambdal/deeplearning-benchmark, per-run logs. One-card throughput and the run's own batch go in,
and the box's bandwidth from other runs of the same box: the same task in the other precision, whose bytes differ by
two, or BERT-large where the task has one precision only.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from gpumon.plan.answer import evaluate
from gpumon.plan.layouts import Layout
from gpumon.plan.request import Precision, Strategy

from .questions import ask

# Where a run shows no cost of communication its bandwidth cannot be resolved; no PCIe box carries more than this.
MOST_BYTES_PER_SECOND = 60e9
# GNMT's log counts tokens, its batch counts sentences. 34.6 tokens a sentence follow from the 2022 box of 2x RTX 3090
# (FP16 34.6, FP32 34.7), whose GNMT runs are therefore not predicted from BERT-large.
GNMT_TOKENS = 34.6
ELEMENT_BYTES = {"FP16": 2, "FP32": 4}
OTHER = {"FP16": "FP32", "FP32": "FP16"}
# Task in the log -> (shape for the plan, units of work in one element of the batch).
TASKS = {
    "bert_large_squad": ("bert-large", 1.0),
    "gnmt": ("160M", GNMT_TOKENS),
    "resnet50": ("resnet-50", 1.0),
    "transformerxllarge": ("285M", 1.0),
}
# The logs give no batch for these; it cancels out between two precisions of the same task.
UNSTATED_BATCH = {"resnet50": 208, "transformerxllarge": 16 * 192}


@dataclass(frozen=True)
class Run:
    """Throughput of a task on one card and on several cards of the same kind, at the same batch for each card."""

    task: str
    precision: str
    cards: int
    batch: float
    one: float
    many: float

    @property
    def efficiency(self) -> float:
        """What was published."""
        return self.many / self.cards / self.one

    @property
    def bytes_per_second(self) -> float:
        """The bandwidth this run implies: 2(N-1)/N gradient bytes over the time the step became longer."""
        shape, units = TASKS[self.task]
        work = self.batch * units
        longer = work * self.cards / self.many - work / self.one
        gradients = ask(shape, "rtx3090", 1).model.parameters * ELEMENT_BYTES[self.precision]
        if longer <= 0:
            return MOST_BYTES_PER_SECOND
        return min(MOST_BYTES_PER_SECOND, 2 * (self.cards - 1) / self.cards * gradients / longer)


@dataclass(frozen=True)
class Result:
    """One published efficiency and what the plan says."""

    row: int
    name: str
    predicted: float
    published: float


@dataclass(frozen=True)
class Case:
    """One cell of the table: its row there, the run, and the box's bandwidth from other runs (None: typical)."""

    row: int
    card: str
    run: Run
    bandwidth: float | None

    @property
    def predicted(self) -> float:
        """The plan's typical efficiency from one card's throughput and the box's bandwidth."""
        shape, units = TASKS[self.run.task]
        request = ask(
            shape,
            self.card,
            self.run.cards,
            precision=Precision(self.run.precision.lower()),
            batch=max(1, round(self.run.batch)),
            one_card_rate=self.run.one / units,
            bandwidth=() if self.bandwidth is None else ((1, self.bandwidth),),
            strategy=Strategy.DDP,
        )
        return evaluate(request, Layout(Strategy.DDP, self.run.cards, 1)).efficiency.typical

    @property
    def result(self) -> Result:
        """The case as one line of the comparison."""
        name = f"{self.run.cards}x {self.card} {self.run.task} {self.run.precision}"
        return Result(self.row, name, self.predicted, self.run.efficiency)


@dataclass(frozen=True)
class Logged:
    """One row of the table whose runs are in the logs: boxes as (name in the log, start of the run's date)."""

    row: int
    single: str
    card: str
    task: str
    precisions: tuple[str, ...]
    boxes: tuple[tuple[str, str], ...]


# 2x RTX 3090 ran on two boxes, in October 2020 and February 2021.
RTX3090 = (("2x3090", "31-10"), ("2x3090", "05-02"), ("3x3090", ""), ("4x3090", ""), ("8x3090", ""))
RTX3090_ONCE = (("2x3090", ""), ("3x3090", ""), ("4x3090", ""), ("8x3090", ""))
A6000 = (("2xA6000", ""), ("4xA6000", ""), ("8xA6000", ""))
A6000_CLOUD = (("LambdaCloud_2xA6000", ""), ("LambdaCloud_4xA6000", ""))
A100_PCIE = (("2xA100_PCIe", ""), ("4xA100_PCIe", ""), ("8xA100_PCIe", ""))

LOGGED = (
    Logged(1, "3090", "rtx3090", "bert_large_squad", ("FP16",), RTX3090),
    Logged(2, "3090", "rtx3090", "bert_large_squad", ("FP32",), RTX3090),
    Logged(3, "3090", "rtx3090", "gnmt", ("FP16",), RTX3090),
    Logged(4, "3090", "rtx3090", "gnmt", ("FP32",), RTX3090[3:]),
    Logged(5, "3090", "rtx3090", "resnet50", ("FP16",), RTX3090_ONCE),
    Logged(6, "3090", "rtx3090", "transformerxllarge", ("FP16",), RTX3090_ONCE),
    Logged(13, "3090_v1", "rtx3090", "bert_large_squad", ("FP16", "FP32"), (("2x3090_v1", ""),)),
    Logged(14, "A6000", "rtxa6000", "bert_large_squad", ("FP16",), A6000),
    Logged(15, "LambdaCloud_A6000", "rtxa6000", "bert_large_squad", ("FP16", "FP32"), A6000_CLOUD),
    Logged(19, "A100_PCIe", "a100-40g-pcie", "bert_large_squad", ("FP16",), A100_PCIE),
)


def _bert(precision: str, cards: int, batch: float, one: float, many: float) -> Run:
    return Run("bert_large_squad", precision, cards, batch, one, many)


def _pairs(row: int, card: str, half: dict[int, float], full: dict[int, float], batches: tuple[int, int]) -> list[Case]:
    """Return the cases of a row with both precisions, each predicted from the other; key 1 is the one-card run."""
    cases = []
    for cards in sorted(set(half) - {1}):
        runs = (
            _bert("FP16", cards, batches[0], half[1], half[cards]),
            _bert("FP32", cards, batches[1], full[1], full[cards]),
        )
        cases += [
            Case(row, card, runs[0], runs[1].bytes_per_second),
            Case(row, card, runs[1], runs[0].bytes_per_second),
        ]
    return cases


def tabulated() -> list[Case]:
    """Return the cases whose figures stand in the published table only."""
    rtx4090 = {"FP16": _bert("FP16", 2, 28, 93.6, 139.0), "FP32": _bert("FP32", 2, 16, 45.0, 55.5)}
    sxm4 = {
        2: _bert("FP32", 2, 32, 59.5, 33.2),
        4: _bert("FP32", 4, 32, 59.5, 45.1),
        8: _bert("FP32", 8, 32, 59.5, 78.3),
    }
    cases = [
        *_pairs(11, "rtx4090", {1: 93.6, 2: 139.0}, {1: 45.0, 2: 55.5}, (28, 16)),
        # GNMT from BERT-large of the same box and the other precision; batches as on the other 24 GB cards.
        Case(12, "rtx4090", Run("gnmt", "FP16", 2, 464, 159.5e3, 210.1e3), rtx4090["FP32"].bytes_per_second),
        Case(12, "rtx4090", Run("gnmt", "FP32", 2, 288, 84.6e3, 93.9e3), rtx4090["FP16"].bytes_per_second),
        Case(12, "rtx4090", Run("resnet50", "FP16", 2, 208, 1301, 2468), rtx4090["FP16"].bytes_per_second),
        *_pairs(20, "a100-pcie", {1: 140.4, 2: 247.6}, {1: 70.9, 2: 109.7}, (112, 64)),
        *_pairs(
            21,
            "h100-pcie",
            {1: 194.2, 2: 332.7, 4: 656.8, 8: 853.1},
            {1: 90.8, 2: 142.6, 4: 267.8, 8: 287.0},
            (112, 64),
        ),
        *_pairs(22, "h100-pcie", {1: 203.3, 2: 395.9, 4: 759.2, 8: 1522.5}, {1: 97, 2: 185, 4: 355, 8: 712}, (112, 64)),
        *_pairs(
            23, "a100-40g-sxm", {1: 133.6, 2: 161.1, 4: 148.0, 8: 265.2}, {1: 59.5, 2: 33.2, 4: 45.1, 8: 78.3}, (64, 32)
        ),
    ]
    for cards, many in ((2, 57.6e3), (4, 59.0e3), (8, 103.3e3)):
        cases.append(
            Case(24, "a100-40g-sxm", Run("gnmt", "FP32", cards, 512, 113.6e3, many), sxm4[cards].bytes_per_second)
        )
    # One precision only: predicted from what is typical for such links. No figure of these boxes is in the data files.
    for row, card, precision, batch, one, many in (
        (16, "rtx6000ada", "FP16", 64, 79.0, {2: 153.8, 4: 332.0, 8: 642.9}),
        (17, "a40", "FP16", 36, 57.6, {2: 110.2, 4: 215.8, 8: 402.9}),
        (18, "rtxa4000", "FP32", 4, 9.8, {2: 16.1, 4: 30.8, 8: 54.3}),
    ):
        cases += [Case(row, card, _bert(precision, cards, batch, one, value), None) for cards, value in many.items()]
    return cases


def logged(traces: Path) -> list[Case]:
    """Return the cases whose runs are in lambda_scaling.csv, without those that really used one card."""
    with (traces / "lambda_scaling.csv").open(encoding="utf-8") as file:
        rows = [
            row for row in csv.DictReader(file) if row["n_gpus_in_box"] == "1" or row["distributed_in_log"] != "False"
        ]
    by_box: dict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        by_box[row["box"], row["task"], row["precision_label"]].append(row)

    def run(line: Logged, box: str, date: str, precision: str) -> Run:
        many = [row for row in by_box[box, line.task, precision] if row["run_date"].startswith(date)]
        one = by_box[line.single, line.task, precision]
        return Run(
            task=line.task,
            precision=precision,
            cards=int(many[0]["n_gpus_in_box"]),
            batch=float(many[0]["batch_arg"] or UNSTATED_BATCH[line.task]),
            one=sum(float(row["throughput"]) for row in one) / len(one),
            many=sum(float(row["throughput"]) for row in many) / len(many),
        )

    return [
        Case(
            line.row,
            line.card,
            run(line, box, date, precision),
            run(line, box, date, OTHER[precision]).bytes_per_second,
        )
        for line in LOGGED
        for box, date in line.boxes
        for precision in line.precisions
    ]


def others() -> list[Result]:
    """Return the rows of other sources.

    Row 32, kohya-ss/sd-scripts#1434: SDXL, 1.27 s an iteration on one rented H100 PCIe and 2.07 s on two; bandwidth of
    the H100 PCIe box of row 21.
    Row 25, mli/transformers-benchmarks: GPT-2 medium at batch 5 on 2x RTX 3090 Ti, share of the step spent
    communicating: 0.38 with P2P off and 0.10 over NVLink, 0.14 and 0.03 with four micro-batches, so the exchange is
    once a step. Rates from the same source's copy test. The speed of one card follows from the first share, the other
    three are predicted.
    """
    sdxl = ask("sdxl", "h100-pcie", 2, one_card_rate=1 / 1.27, bandwidth=((1, 6.95e9),))
    two = Layout(Strategy.DDP, 2, 1)
    found = [Result(32, "2x h100-pcie sdxl", evaluate(sdxl, two).efficiency.typical, 1.27 / 2.07)]
    host, nvlink = 6.2e9, 52.8e9
    gradients = 2 * ask("gpt2-medium", "rtx3090ti", 2).model.parameters
    computing = gradients / host * (1 - 0.38) / 0.38
    for rate, accumulation, share in ((nvlink, 1, 0.10), (host, 4, 0.14), (nvlink, 4, 0.03)):
        request = ask(
            "gpt2-medium",
            "rtx3090ti",
            2,
            batch=5,
            accumulation=accumulation,
            one_card_rate=5 / computing,
            bandwidth=((1, rate),),
        )
        name = f"2x rtx3090ti gpt2-medium at {rate / 1e9:.0f} GB/s, {accumulation} micro-batches"
        found.append(Result(25, name, evaluate(request, two).efficiency.typical, 1 - share))
    return found


def results(traces: Path) -> list[Result]:
    """Return every published result with its prediction."""
    return [*(case.result for case in (*logged(traces), *tabulated())), *others()]
