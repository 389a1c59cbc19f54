"""Figures of how often the verdicts are right, with 95 % intervals, and the tables they are shown in."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.accuracy_runs import CLEAR, Outcome

BINS = 10
UNSURE = 0.6
MUST_NAME, MUST_NOT_NAME = 0.15, 0.08  # cost of a straggler, share of the job's time
STEP_TOLERANCE = 0.03
UNSEEN = {"clock": "unknown"}
RESAMPLES = 1000
CALIBRATION_EDGES = (0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its heading."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        lines = [self.head, tuple("---" for _ in self.head), *self.rows]
        return "\n".join([f"## {self.title}", "", *("| " + " | ".join(line) + " |" for line in lines)])


@dataclass(frozen=True, slots=True)
class Share:
    """How many of how many."""

    right: int
    count: int

    @classmethod
    def of(cls, values: Iterable[bool]) -> Share:
        """Return the share of true values."""
        known = list(values)
        return cls(sum(known), len(known))

    @property
    def value(self) -> float:
        """The share; NaN of nothing."""
        return self.right / self.count if self.count else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval. Source: Wilson 1927."""
        if self.count == 0:
            return math.nan, math.nan
        z, share, count = 1.959964, self.value, self.count
        middle = (share + z * z / (2 * count)) / (1 + z * z / count)
        half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
        return middle - half, middle + half

    def __str__(self) -> str:
        if self.count == 0:
            return "none"
        low, high = self.interval
        return f"{self.value:.3f} ({low:.3f} to {high:.3f}, n = {self.count})"


# --- classes


def classes_of(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the true classes that occur, most frequent first."""
    return [name for name, _ in Counter(o.true_class for o in outcomes).most_common()]


def recall(outcomes: Iterable[Outcome], name: str) -> Share:
    """Return how many of a class were called so."""
    return Share.of(o.said_class == name for o in outcomes if o.true_class == name)


def precision(outcomes: Iterable[Outcome], name: str) -> Share:
    """Return how many that were called so are of the class."""
    return Share.of(o.true_class == name for o in outcomes if o.said_class == name)


def macro_f1(outcomes: Sequence[Outcome], said: Callable[[Outcome], str] | None = None) -> tuple[float, float, float]:
    """Return the mean of the classes' F1 over jobs and its 95 % interval (percentiles over resampled jobs)."""
    names = classes_of(outcomes)
    if not names:
        return math.nan, math.nan, math.nan
    number = {name: place for place, name in enumerate(names)}
    true = np.array([number[o.true_class] for o in outcomes])
    told = np.array([number.get(said(o) if said else o.said_class, len(names)) for o in outcomes])

    def score(picked: np.ndarray) -> float:
        of_class = np.bincount(true[picked], minlength=len(names))
        called = np.bincount(told[picked], minlength=len(names) + 1)[: len(names)]
        right = np.bincount(true[picked][true[picked] == told[picked]], minlength=len(names))
        there = of_class > 0
        return float((2 * right[there] / (of_class + called)[there]).mean())

    dice = np.random.default_rng(1)
    again = [score(dice.integers(0, true.size, true.size)) for _ in range(RESAMPLES)]
    low, high = np.quantile(again, (0.025, 0.975))
    return score(np.arange(true.size)), float(low), float(high)


def spread(outcomes: Iterable[Outcome], name: str) -> float:
    """Return the standard deviation of the confidences with which a class was named; NaN where it never was."""
    values = [o.confidence for o in outcomes if o.said_class == name]
    return float(np.std(values)) if values else math.nan


def calibration_error(outcomes: Iterable[Outcome]) -> float:
    """Return the expected calibration error of the verdicts that name a class."""
    named = [o for o in outcomes if o.said_class != "unknown"]
    error = 0.0
    for number in range(BINS):
        inside = [o for o in named if number / BINS < o.confidence <= (number + 1) / BINS]
        if inside:
            error += abs(sum(o.right for o in inside) - sum(o.confidence for o in inside)) / len(named)
    return error


# --- other answers


def detail_right(outcomes: Iterable[Outcome]) -> Share:
    """Return how often the detail is right where the class is and one detail leads clearly."""
    return Share.of(
        o.said_detail == o.true_detail
        for o in outcomes
        if o.clear and o.right and o.true_detail and o.detail_margin >= CLEAR
    )


def split_error(outcomes: Iterable[Outcome]) -> float:
    """Return the mean absolute error of the seven shares where they were stated."""
    errors = [o.split_error for o in outcomes if o.split_stated]
    return float(np.mean(errors)) if errors else math.nan


def step_right(outcome: Outcome) -> bool:
    """Return True where the step that was given is the optimizer's or the micro-step's."""
    steps = (outcome.optimizer_step_s, outcome.micro_step_s)
    return any(abs(outcome.said_step_s - step) <= STEP_TOLERANCE * step for step in steps if not math.isnan(step))


def step_given(outcomes: Iterable[Outcome]) -> Share:
    """Return how often a step was given where there are steps, on clear instances."""
    return Share.of(not math.isnan(o.said_step_s) for o in outcomes if o.clear and not math.isnan(o.optimizer_step_s))


def step_wrong(outcomes: Iterable[Outcome]) -> Share:
    """Return how often a step that was given is another multiple, or nothing at all."""
    return Share.of(not step_right(o) for o in outcomes if not math.isnan(o.said_step_s))


def straggler_named(outcomes: Iterable[Outcome]) -> Share:
    """Return how often the card that costs the job 15 % and more of its time was named."""
    return Share.of(o.true_culprit in o.said_culprits for o in outcomes if o.true_cost >= MUST_NAME)


def straggler_invented(outcomes: Iterable[Outcome]) -> Share:
    """Return in how many instances a card was named that costs less than 8 %."""
    return Share.of(any(cost < MUST_NOT_NAME for cost in o.costs) for o in outcomes)


def straggler_caused(outcomes: Iterable[Outcome]) -> Share:
    """Return how often the cause of a card that was rightly named is the true one.

    A board that is slower at equal clocks shows nothing of why: there the right answer is unknown.
    """
    return Share.of(
        o.said_causes[o.said_culprits.index(o.true_culprit)] in (o.true_cause, UNSEEN.get(o.true_cause))
        for o in outcomes
        if o.true_cause and o.true_culprit in o.said_culprits
    )


def straggler_cost_error(outcomes: Iterable[Outcome]) -> float:
    """Return the mean absolute error of the cost of cards that were rightly named, share of the job's time."""
    errors = [
        abs(o.said_costs[o.said_culprits.index(o.true_culprit)] - o.true_cost)
        for o in outcomes
        if o.true_culprit in o.said_culprits
    ]
    return float(np.mean(errors)) if errors else math.nan


# --- tables


def criteria(outcomes: Sequence[Outcome]) -> Table:
    """Return what is asked of the verdict beside what was reached."""
    clear = [o for o in outcomes if o.clear]
    consumer = [o for o in clear if o.consumer]
    f1, low, high = macro_f1(clear)
    rules, rules_low, rules_high = macro_f1(clear, lambda o: o.baseline)
    rows = (
        ("macro-F1 over jobs", "0.97", f"{f1:.3f} ({low:.3f} to {high:.3f}, n = {len(clear)})"),
        ("the same of ten lines of rules", "below 0.80", f"{rules:.3f} ({rules_low:.3f} to {rules_high:.3f})"),
        ("communication precision, consumer cards", "0.98", str(precision(consumer, "communication"))),
        ("communication recall, consumer cards", "0.97", str(recall(consumer, "communication"))),
        ("`unknown` on clear instances", "at most 0.05", str(Share.of(o.said_class == "unknown" for o in clear))),
        (
            "twins `unknown` or below 0.6",
            "0.80",
            str(Share.of(o.said_class == "unknown" or o.confidence < UNSURE for o in outcomes if o.twin)),
        ),
        ("calibration error, all instances", "at most 0.05", f"{calibration_error(outcomes):.3f}"),
        ("time split stated", "0.80", str(Share.of(o.split_stated for o in clear))),
        ("its mean absolute error", "at most 0.07", f"{split_error(outcomes):.3f}"),
        ("detail right", "0.90", str(detail_right(outcomes))),
        ("straggler of 15 % and more named", "0.95", str(straggler_named(outcomes))),
        ("card below 8 % named", "at most 0.01", str(straggler_invented(outcomes))),
        ("its cause right", "", str(straggler_caused(outcomes))),
        ("error of its cost", "", f"{straggler_cost_error(outcomes):.3f}"),
        ("step given", "0.80", str(step_given(outcomes))),
        ("step wrong", "at most 0.01", str(step_wrong(outcomes))),
    )
    return Table("What is asked and what was reached", ("figure", "asked", "reached"), rows)


def class_table(outcomes: Sequence[Outcome]) -> Table:
    """Return, class by class, how many there are, how near the border, and how often they are recognised if clear."""
    clear = [o for o in outcomes if o.clear]
    rows = []
    for name in classes_of(outcomes):
        own = [o for o in outcomes if o.true_class == name]
        near = Share.of(o.near for o in own)
        right, told = recall(clear, name), precision(clear, name)
        f1 = 2 * right.right / max(1, right.count + told.count)
        rows.append(
            (
                name,
                str(len(own)),
                f"{near.value:.2f}",
                str(told),
                str(right),
                f"{f1:.3f}",
                f"{spread(outcomes, name):.3f}",
            )
        )
    head = ("class", "instances", "near", "precision", "recall", "F1", "spread of confidence")
    return Table("Classes, on clear instances", head, tuple(rows))


def confusion(outcomes: Sequence[Outcome], title: str) -> Table:
    """Return how often each true class got each name."""
    names = sorted({o.true_class for o in outcomes} | {o.said_class for o in outcomes} - {"unknown"})
    said = [*names, "unknown"]
    count = Counter((o.true_class, o.said_class) for o in outcomes)
    true = [name for name in names if any(count[name, other] for other in said)]
    rows = tuple((name, *(str(count[name, other] or "") for other in said)) for name in true)
    return Table(title, ("true, down; said, across", *said), rows)


def detail_table(outcomes: Sequence[Outcome]) -> Table:
    """Return which details were taken for which, where the class is right and one detail leads clearly."""
    own = [o for o in outcomes if o.clear and o.right and o.true_detail and o.detail_margin >= CLEAR]
    count = Counter((f"{o.true_class}, {o.true_detail}", o.said_detail or "none") for o in own)
    rows = []
    for true in sorted({true for true, _ in count}):
        told = {said: times for (other, said), times in count.items() if other == true}
        others = ", ".join(f"{said} {times}" for said, times in sorted(told.items()) if not true.endswith(said))
        right = sum(times for said, times in told.items() if true.endswith(said))
        rows.append((true, str(Share(right, sum(told.values()))), others))
    return Table("Details", ("true detail", "right", "else said"), tuple(rows))


def calibration_table(outcomes: Sequence[Outcome]) -> Table:
    """Return how often verdicts of about one confidence are right, twins included."""
    rows = []
    low = 0.0
    for high in CALIBRATION_EDGES:
        inside = [o for o in outcomes if o.said_class != "unknown" and low < o.confidence <= high]
        if inside:
            mean = sum(o.confidence for o in inside) / len(inside)
            rows.append((f"{low:.1f} to {high:.1f}", f"{mean:.2f}", str(Share.of(o.right for o in inside))))
        low = high
    return Table("Confidence, all instances", ("confidence", "mean", "right"), tuple(rows))


def card_table(cold: Sequence[Outcome], warm: Sequence[Outcome]) -> Table:
    """Return the figures by product, on clear instances."""
    rows = []
    later = {o.seed: o for o in warm}
    for card, _ in Counter(o.card for o in cold if o.clear).most_common():
        own = [o for o in cold if o.clear and o.card == card]
        again = [later[o.seed] for o in own if o.seed in later]
        rows.append(
            (
                card,
                str(Share.of(o.right for o in own)),
                str(Share.of(o.right for o in again)),
                f"{Share.of(o.wrong for o in own).value:.3f}",
                f"{Share.of(o.said_class == 'unknown' for o in own).value:.3f}",
            )
        )
    return Table("By card, on clear instances", ("card", "right, cold", "right, warm", "wrong", "unknown"), tuple(rows))


def signal_table(sets: Sequence[tuple[str, Sequence[Outcome]]]) -> Table:
    """Return the figures by signal set, on clear instances of the same seeds."""
    rows = []
    for name, outcomes in sets:
        clear = [o for o in outcomes if o.clear]
        rows.append(
            (
                name,
                f"{macro_f1(clear)[0]:.3f}",
                str(Share.of(o.right for o in clear)),
                str(Share.of(o.wrong for o in clear)),
                f"{Share.of(o.said_class == 'unknown' for o in clear).value:.3f}",
                f"{calibration_error(outcomes):.3f}",
                f"{Share.of(o.split_stated for o in clear).value:.2f}",
            )
        )
    head = ("signals", "macro-F1", "right", "wrong", "unknown", "calibration error", "split stated")
    return Table("By signals, on clear instances", head, tuple(rows))


def straggler_table(outcomes: Sequence[Outcome]) -> Table:
    """Return, by cause and cost, how often the card that the others wait for was named, and rightly explained."""
    rows = []
    for cause in sorted({o.true_cause for o in outcomes}):
        for low, high in ((0.08, 0.15), (0.15, 0.30), (0.30, 1.0)):
            own = [o for o in outcomes if o.true_cause == cause and low < o.true_cost <= high]
            if own:
                named = Share.of(o.true_culprit in o.said_culprits for o in own)
                rows.append(
                    (
                        cause or "delays transfers only",
                        f"{low:.2f} to {high:.2f}",
                        str(named),
                        str(straggler_caused(own)),
                    )
                )
    return Table("Stragglers", ("cause", "share of the job's time", "named", "cause right"), tuple(rows))
