"""How right gpumon is about card counts, over random simulated workloads.

    python -m benchmarks.scaling records --seeds 0:500
    python -m benchmarks.scaling telemetry --seeds 0:20

`records` judges run records that were made from the event log and blurred; `telemetry` takes the long way through
sensors, sampler, pipeline and history, about 15 s for each seed. Slowdown counts as true where fewer cards did at least
5 % more, as false where they did no more at all; what lies between is a matter of taste and counted apart.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.scaling_runs import Instance, best_counts, instance, judged_on, known, record, watch
from gpumon.model.past import NOTHING, Run
from gpumon.model.verdict import Scaling
from gpumon.scaling.judge import judge

CLEAR = 0.05
ENOUGH = 0.95
WATCHED_S = 180.0  # a period that one signal alone shows is believed after three looks, 36 s apart


@dataclass(frozen=True, slots=True)
class Outcome:
    """One judgement and what is true."""

    seed: int
    family: str
    strategy: str
    cards: int
    compared_with: tuple[int, ...]  # counts in the past
    said: Scaling | None
    efficiency: float  # true
    best: int  # true: smallest count at 95 % of the best
    recommended_reaches: float  # true throughput of what was recommended over the present's
    recommended_of_best: float  # over the best
    slower: bool  # fewer cards of those in the past do at least 5 % more
    slower_at_all: bool  # any fewer cards do more at all


@dataclass(slots=True)
class Tally:
    """Outcomes added up."""

    outcomes: list[Outcome] = field(default_factory=list)

    def efficiency_error(self, evidence: str) -> tuple[float, int]:
        """Return the mean absolute error of the efficiency by one kind of evidence, and how many there are."""
        errors = [
            abs(one.said.efficiency - one.efficiency)
            for one in self.said()
            if one.said and one.said.evidence == evidence
        ]
        return (statistics.fmean(errors) if errors else float("nan")), len(errors)

    def said(self) -> Iterator[Outcome]:
        """Yield the outcomes where something was said."""
        return (one for one in self.outcomes if one.said is not None)

    def slowdown(self) -> tuple[int, int, int]:
        """Return true alarms, false alarms and missed ones."""
        alarms = [one for one in self.said() if one.said and one.said.slowdown]
        right = sum(one.slower or one.slower_at_all for one in alarms)
        missed = sum(one.slower and not (one.said and one.said.slowdown) for one in self.outcomes)
        return right, len(alarms) - right, missed

    def healthy(self) -> tuple[int, int]:
        """Return how many runs no smaller count beats, and how many of them were called a slowdown."""
        sound = [one for one in self.outcomes if not one.slower_at_all]
        return len(sound), sum(one.said is not None and one.said.slowdown for one in sound)

    def recommended(self) -> tuple[int, int, int]:
        """Return how many recommendations were right, how many were slower than the present, and all of them."""
        judged = list(self.said())
        right = sum(one.said is not None and one.said.recommended_gpus == one.best for one in judged)
        slower = sum(one.recommended_reaches < ENOUGH for one in judged)
        return right, slower, len(judged)


def outcome(made: Instance, cards: int, compared_with: tuple[int, ...], said: Scaling | None) -> Outcome:
    """Return the judgement beside the truth."""
    best, most = best_counts(made, cards, compared_with)
    present = made.truths[cards].throughput
    chosen = made.truths[said.recommended_gpus].throughput if said is not None else float("nan")
    fewer = [made.truths[count].throughput for count in compared_with if count < cards]
    return Outcome(
        seed=made.seed,
        family=made.family,
        strategy=made.workload.strategy,
        cards=cards,
        compared_with=compared_with,
        said=said,
        efficiency=made.efficiency(cards),
        best=best,
        recommended_reaches=chosen / present,
        recommended_of_best=chosen / most,
        slower=any(one >= (1.0 + CLEAR) * present for one in fewer),
        slower_at_all=made.slower_than(cards, 0.0),
    )


def of_records(seed: int) -> list[Outcome]:
    """Judge one workload's run records on every count: without a past, after one card, after half as many."""
    made = instance(seed)
    rng = random.Random(f"blur/{seed}")
    found = []
    for cards in made.truths:
        if cards < 2:
            continue
        present = record(made, cards, rng)
        for before in dict.fromkeys(((), (1,), (cards // 2,))):
            past = known(*(record(made, count, rng, today=1) for count in before))
            found.append(outcome(made, cards, before, judge(present, past, judged_on(made, cards))))
    return found


def of_telemetry(seed: int, seconds: float = WATCHED_S) -> list[Outcome]:
    """Watch one workload on one card, on half of the node and on all of it, each knowing the runs before."""
    made = instance(seed)
    runs: tuple[Run, ...] = ()
    found = []
    most = max(made.truths)
    state, verdict = watch(made, most, NOTHING, seconds)
    found.append(outcome(made, most, (), verdict.scaling))
    before: tuple[int, ...] = ()
    for cards in dict.fromkeys((1, most // 2, most)):
        state, verdict = watch(made, cards, known(*runs), seconds)
        if cards > 1:
            found.append(outcome(made, cards, before, verdict.scaling))
        runs, before = (*state.scaling.runs, *runs), (*before, cards)
    return found


def report(tally: Tally) -> str:
    """Return the figures as text."""
    lines = [f"{len(tally.outcomes)} judgements, {sum(1 for _ in tally.said())} with an answer"]
    for evidence in ("period", "model"):
        error, count = tally.efficiency_error(evidence)
        lines.append(f"efficiency by {evidence}: mean absolute error {error:.3f} over {count}")
    right, wrong, missed = tally.slowdown()
    precision = right / (right + wrong) if right + wrong else float("nan")
    recall = right / (right + missed) if right + missed else float("nan")
    lines.append(
        f"slowdown: precision {precision:.3f}, recall {recall:.3f} ({right} right, {wrong} wrong, {missed} missed)"
    )
    sound, alarms = tally.healthy()
    lines.append(f"healthy runs: {sound}, called a slowdown: {alarms}")
    good, slower, count = tally.recommended()
    lines.append(f"recommended count: right in {good / max(count, 1):.3f} of {count}, slower than the present {slower}")
    return "\n".join(lines)


def main() -> None:
    """Run the seeds and print the figures; with --each also every judgement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("records", "telemetry"))
    parser.add_argument("--seeds", default="0:50", help="FROM:TO")
    parser.add_argument("--each", action="store_true", help="also print what was said of every run")
    args = parser.parse_args()
    first, _, end = args.seeds.partition(":")
    tally = Tally()
    for seed in range(int(first), int(end)):
        found = of_records(seed) if args.what == "records" else of_telemetry(seed)
        tally.outcomes += found
        if args.each:
            for one in found:
                print(_line(one), flush=True)
    print(report(tally))


def _line(one: Outcome) -> str:
    said = (
        "nothing"
        if one.said is None
        else (
            f"{one.said.efficiency:.3f} by {one.said.evidence}, {one.said.recommended_gpus} cards"
            f"{', SLOWDOWN' if one.said.slowdown else ''}"
        )
    )
    return (
        f"{one.seed} {one.family} {one.strategy} {one.cards} cards after {one.compared_with}: said {said}; true "
        f"{one.efficiency:.3f}, {one.best} cards{', slower' if one.slower else ''}; "
        f"reaches {one.recommended_reaches:.2f}"
    )


if __name__ == "__main__":
    main()
