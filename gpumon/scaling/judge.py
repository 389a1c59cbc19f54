"""One run and what is known from before: efficiency, slowdown, how many cards, which.

Evidence in this order, always named: reported, period, model. A chain is named by its weakest link.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gpumon.data.tables import LinkPath
from gpumon.model.past import Past, Run
from gpumon.model.topology import Topology
from gpumon.model.verdict import Scaling
from gpumon.scaling import bandwidth, cards, compare
from gpumon.scaling.compare import MODEL, Seen
from gpumon.scaling.prediction import break_even_margin, predict
from gpumon.scaling.runs import quantile
from gpumon.scaling.work import Work, of_strategy

ENOUGH = 0.95  # of the best throughput: a count that reaches this is as good
# Two runs of one workload, the smaller at least this much faster beyond what both vary by: cards made it slower.
CLEARLY_FASTER = 0.03
SIGMAS = 1.5
# Over break-even, where only the model says so; and still over it at the low end of what was seen.
MODEL_MARGIN, SURE_MARGIN = 1.5, 1.2
WIDEST = 0.15  # half-width of an efficiency that is still worth saying, as of a time split
# Weights and caches must fit with this much of a card's memory left.
FITS = 0.95
REPLICATED = frozenset({"ddp", "dataparallel", "gloo"})


@dataclass(frozen=True, slots=True)
class Node:
    """The cards a job could use, and what its own hold."""

    indices: Mapping[str, int]  # by uuid, of the node's cards of the same product
    topology: Topology
    detail: str = ""  # of the verdict
    held_bytes: float = math.nan  # by the job, all cards together
    card_bytes: float = math.nan  # memory of one card
    pooled: bool = False  # a server that takes a fixed share of the memory whatever it needs
    avoid: frozenset[str] = frozenset()  # cards the others wait for


@dataclass(frozen=True, slots=True)
class Option:
    """One count of cards: throughput as a multiple of the run's, and how it is known."""

    count: int
    ratio: float
    low: float  # at least, at SIGMAS times the uncertainty
    evidence: str


@dataclass(frozen=True, slots=True)
class Question:
    """A run, and everything it is judged by."""

    run: Run
    past: Past
    node: Node
    work: Work
    seen: Mapping[int, Seen]  # other runs of the workload, by their count of cards

    @property
    def watched(self) -> frozenset[int]:
        """Counts of cards that the same workload was watched on long enough, whether or not its pace is known."""
        before = self.past.runs.get(self.run.workload, ())
        return frozenset(one.count for one in before if compare.comparable(self.run, one))

    @property
    def path(self) -> LinkPath:
        """The way between the run's cards."""
        return path_of(self.run.uuids, self.node.topology)


def judge(run: Run, past: Past, node: Node) -> Scaling | None:
    """Return how well a run's cards are used; None for one card, and where nothing can be said."""
    if run.count < 2:
        return None
    question = Question(run, past, node, of_strategy(run.strategy), seen_before(run, past))
    one = _one_card(question)
    if one is None:
        return None
    efficiency = 1.0 / (run.count * one.ratio)
    if efficiency * one.uncertainty > WIDEST and not question.seen:
        return None
    options = _options(question, one)
    choice = _smallest(options, run.count)
    slower, reasons = _slowdown(question, options)
    return Scaling(
        efficiency=efficiency,
        evidence=one.evidence,
        recommended_gpus=choice.count,
        recommended_set=_set(question, choice),
        slowdown=slower,
        uncertainty=efficiency * one.uncertainty,
        reasons=(*reasons, _words(run, one, choice)),
    )


def seen_before(run: Run, past: Past) -> dict[int, Seen]:
    """Return what other runs of the workload did, by their count of cards, as a multiple of this run.

    Several runs on so many cards stand for themselves by their median. Reported figures go before periods.
    """
    found: dict[int, list[Seen]] = {}
    for before in past.runs.get(run.workload, ()) if run.workload else ():
        if before.count == run.count:
            continue
        seen = compare.throughput_of(before, run)
        if seen is not None:
            found.setdefault(before.count, []).append(seen)
    return {count: _median(_best(seen)) for count, seen in sorted(found.items())}


def _best(seen: list[Seen]) -> list[Seen]:
    best = min((one.evidence for one in seen), key=compare.ORDER.index)
    return [one for one in seen if one.evidence == best]


def _median(seen: list[Seen]) -> Seen:
    ratios = tuple(one.ratio for one in seen)
    middle = quantile(ratios, 0.5)
    spread = (quantile(ratios, 0.75) - quantile(ratios, 0.25)) / (2.0 * middle)
    return Seen(middle, math.hypot(max(one.uncertainty for one in seen), spread), seen[0].evidence)


def _one_card(question: Question) -> Seen | None:
    """Return what one card does as a multiple of this run: seen, worked out from a smaller run, or from this one."""
    run, seen = question.run, question.seen
    if 1 in seen:
        return seen[1]
    chained = [
        Seen(between.ratio * one.ratio, math.hypot(between.uncertainty, one.uncertainty), MODEL)
        for count, between in seen.items()
        if count < run.count
        for one in _modelled_at(question, count)
    ]
    known = [*chained, *_modelled(run, question)]
    return min(known, key=lambda one: one.uncertainty, default=None)


def _modelled(run: Run, question: Question) -> list[Seen]:
    """Return what one card would do as a multiple of a run, worked out from where its time goes; [] if unknown."""
    said = predict(run, 1, question.work, rates=(1.0, 1.0, 1.0), path=question.path)
    if said is None:
        return []
    # In steps, where the shares lie even on both sides: a step that may last half as long is twice the throughput.
    return [Seen(said.ratio, said.ratio * (1.0 / said.low - 1.0 / said.high) / 2.0, MODEL)]


def _modelled_at(question: Question, count: int) -> list[Seen]:
    run = question.run
    return [
        one
        for before in question.past.runs[run.workload]
        if before.count == count and compare.throughput_of(before, run) is not None
        for one in _modelled(before, question)
    ]


def _options(question: Question, one: Seen) -> tuple[Option, ...]:
    """Return the counts worth considering, smallest first.

    Powers of two, since that is how cards are rented, how heads divide and how boards are built; this run's own count;
    and every count that was seen and that this node has.
    """
    run, node = question.run, question.node
    options = {run.count: Option(run.count, 1.0, 1.0, one.evidence)}
    count = 1
    while count < run.count:
        said = _predicted(question, count, one)
        if said is not None and (count in question.watched or _fits(run, count, node)):
            options[count] = said
        count *= 2
    for count, before in question.seen.items():
        if count <= len(node.indices):
            options[count] = _option(count, before.ratio, before.uncertainty, before.evidence)
    return tuple(options[count] for count in sorted(options))


def _predicted(question: Question, count: int, one: Seen) -> Option | None:
    if count == 1:
        return _option(1, one.ratio, one.uncertainty, one.evidence)
    run, node, past = question.run, question.node, question.past
    best = cards.best_set(count, _own(run, node), node.topology, past.rates, node.avoid)
    by_index = {index: uuid for uuid, index in node.indices.items()}
    uuids = tuple(by_index[index] for index in best)
    if not uuids:
        return None
    rates = bandwidth.relative(run, uuids, detail=node.detail, topology=node.topology, rates=past.rates)
    known = (one.ratio, one.uncertainty) if 1 in question.seen else None
    said = predict(run, count, question.work, rates=rates, path=question.path, known=known)
    return None if said is None else _option(count, said.ratio, said.ratio / said.low - 1.0, MODEL)


def _option(count: int, ratio: float, uncertainty: float, evidence: str) -> Option:
    """Return a count with what it does at least, whose uncertainty is that of the step's length."""
    return Option(count, ratio, ratio / (1.0 + SIGMAS * uncertainty), evidence)


def _own(run: Run, node: Node) -> dict[str, int]:
    return {uuid: index for uuid, index in node.indices.items() if uuid in run.uuids}


def _fits(run: Run, count: int, node: Node) -> bool:
    """Return True where what the job holds fits on so many cards, as far as that can be known."""
    if run.strategy in REPLICATED:
        return True
    if node.pooled or math.isnan(node.held_bytes) or math.isnan(node.card_bytes):
        return False
    return node.held_bytes / count <= FITS * node.card_bytes


def _smallest(options: tuple[Option, ...], present: int) -> Option:
    """Return the smallest count that reaches 95 % of the best; fewer cards must also be no slower at their low end."""
    best = max(option.ratio for option in options)
    for option in options:
        enough = option.ratio >= ENOUGH * best
        if enough and (option.count >= present or option.low >= ENOUGH):
            return option
    return next(option for option in options if option.count == present)


def _slowdown(question: Question, options: tuple[Option, ...]) -> tuple[bool, tuple[str, ...]]:
    """Return whether fewer cards are faster, by two runs or by a wide margin of the model, and the sentence.

    Two runs are compared by their pace; where that of either cannot be used, by where the time of the present one goes.
    """
    run, seen = question.run, question.seen
    for count, before in seen.items():
        ahead = before.ratio - 1.0
        if count < run.count and ahead >= max(CLEARLY_FASTER, SIGMAS * before.uncertainty):
            return True, (
                f"the same work ran on {count} of these cards {ahead:.0%} faster than on {run.count} "
                f"({before.evidence}: {_pace(run, before)})",
            )
    for option in options:
        without_pace = option.count < run.count and option.count in question.watched - seen.keys()
        if without_pace and option.low >= 1.0 + CLEARLY_FASTER:
            return True, (
                f"the same work ran on {option.count} of these cards, which by where the time goes is "
                f"{option.ratio - 1.0:.0%} faster than on {run.count} (model)",
            )
    if any(count < run.count for count in seen):
        return False, ()  # what was seen goes before what is worked out
    margin, least = break_even_margin(run, question.work)
    if margin >= MODEL_MARGIN and least >= SURE_MARGIN and _fits(run, 1, question.node):
        return True, (
            f"the exchange between {run.count} cards takes {margin:.1f} times what it may take for {run.count} cards "
            "to be as fast as one (model)",
        )
    return False, ()


def _pace(run: Run, before: Seen) -> str:
    if before.evidence == compare.REPORTED and run.unit != compare.STEPS:
        return f"{before.ratio * run.throughput:.4g} against {run.throughput:.4g} {run.unit} a second"
    return f"step of {run.step_s:.3g} s now"


def _words(run: Run, one: Seen, choice: Option) -> str:
    known = f"{one.evidence}, within {one.uncertainty:.0%}"
    present = f"{run.count} cards do {1.0 / one.ratio:.2f} times the work of one ({known})"
    if choice.count == run.count:
        return present
    noun = "card does" if choice.count == 1 else "cards do"
    return f"{present}; {choice.count} {noun} {choice.ratio:.2f} times the present ({choice.evidence})"


def _set(question: Question, choice: Option) -> tuple[int, ...]:
    """Return the cards to use: this run's own where the count stays, the best of them for fewer, else the node's."""
    run, node = question.run, question.node
    if choice.count == run.count:
        return run.gpus
    candidates = _own(run, node) if choice.count < run.count else node.indices
    return cards.best_set(choice.count, candidates, node.topology, question.past.rates, node.avoid)


def path_of(uuids: tuple[str, ...], topology: Topology) -> LinkPath:
    """Return the way between a set's cards, as the driver says it."""
    mine = set(uuids)
    pairs = [pair for pair in topology.p2p if pair.uuid in mine and pair.peer_uuid in mine]
    if pairs and all(pair.path.startswith("NV") for pair in pairs):
        return "nvlink"
    return "p2p" if pairs and all(pair.p2p == "ok" for pair in pairs) else "host"
