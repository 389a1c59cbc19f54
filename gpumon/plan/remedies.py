"""What to change, each computed by planning again with that one change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gpumon.plan.answer import Option, Plan, best, evaluate
from gpumon.plan.layouts import every
from gpumon.plan.request import (
    MAX_CARDS,
    Method,
    Optimizer,
    PlanError,
    Precision,
    Request,
    Strategy,
    check,
)
from gpumon.plan.shapes import find_card
from gpumon.plan.signals import HEAVY_RATIO, signals
from gpumon.plan.timing import carry_rate

# Below this share of the step, links are not worth a change.
WORTH_CHANGING_RATIO = 0.15
# A change must give this much more to be advised: cards of one kind differ by up to 14 % (PRISM study).
WORTH_ADVISING = 1.15
# Up to here, more micro-batches for each step are usual; beyond, the global batch is too large for most recipes.
MAX_ACCUMULATION = 32
# These exchange gradients once a step, so accumulation saves bytes; the others exchange for every micro-batch.
ONCE_A_STEP = (Strategy.DDP, Strategy.ZERO1)
# A range wider than this between the slow and the fast link says: measure.
WIDE_SPREAD = 3.0
# The platform named where NVLink is the answer: the most rented one.
PLATFORM_CARD = "h100-sxm"
# Not the training that was asked for, but what many who ask for it need.
OTHER_TASK = ("lora", "qlora")

Key = Literal[
    "accumulate",
    "larger_batch",
    "other_layout",
    "one_user",
    "fewer_cards",
    "more_cards",
    "recompute",
    "adam8bit",
    "lora",
    "qlora",
    "quantise",
    "fewer_requests",
    "platform",
    "measure",
]


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change with what it brings. amount: the number the change is about (micro-batches, cards, bits, requests)."""

    key: Key
    option: Option
    amount: int = 0


def remedies(answer: Plan) -> tuple[Remedy, ...]:
    """Return the changes worth making; empty where nothing needs changing.

    First those that leave the task as it is, the largest gain first; then other tasks, other counts, other machines.
    """
    if answer.request.trains:
        memory = _less_memory(answer)
        same = [_other_layout(answer), _accumulate(answer), _larger_batch(answer), *memory]
    else:
        same = [_other_layout(answer), _quantise(answer), _fewer_requests(answer)]
    found = [remedy for remedy in same if remedy is not None]
    found.sort(key=lambda remedy: (remedy.key in OTHER_TASK, -remedy.option.throughput.typical))
    rest = (_one_user(answer), _fewer_cards(answer), _more_cards(answer), _platform(answer), _measure(answer))
    return (*found, *(remedy for remedy in rest if remedy is not None))


def _other_layout(answer: Plan) -> Remedy | None:
    """Another layout on the same cards, where the asked one does not fit or gives clearly less."""
    if answer.request.strategy is None:
        return None
    other = best(list(answer.options))
    helps = other.memory.fits and (not answer.fits or _faster(other, answer.chosen))
    return Remedy("other_layout", other) if helps else None


def _accumulate(answer: Plan) -> Remedy | None:
    request, chosen = answer.request, answer.chosen
    if chosen.layout.strategy not in ONCE_A_STEP or chosen.link_ratio <= WORTH_CHANGING_RATIO:
        return None
    times, option = request.accumulation, chosen
    while times * 2 <= MAX_ACCUMULATION and option.link_ratio > WORTH_CHANGING_RATIO:
        times *= 2
        option = evaluate(replace(request, accumulation=times), chosen.layout)
    return Remedy("accumulate", option, times) if _faster(option, chosen) else None


def _larger_batch(answer: Plan) -> Remedy | None:
    request, chosen = answer.request, answer.chosen
    if chosen.link_ratio <= WORTH_CHANGING_RATIO or request.one_card_rate is not None:
        return None
    batch, option = request.batch, chosen
    while batch < request.batch * 16 and option.link_ratio > WORTH_CHANGING_RATIO:
        larger = evaluate(replace(request, batch=batch * 2), chosen.layout)
        if larger.memory.tight or not larger.memory.fits:
            break
        batch, option = batch * 2, larger
    return Remedy("larger_batch", option, batch) if batch > request.batch and _faster(option, chosen) else None


def _less_memory(answer: Plan) -> list[Remedy | None]:
    """Ways to need less memory in training, mildest first.

    They count where nothing fits otherwise, or where the memory saved allows a layout with clearly less waiting.
    Training only adapters is another task than the one asked, so it is named only where that does not fit or the links
    rule it.
    """
    request = answer.request
    recomputing = replace(request, recompute=True)
    changes: list[tuple[Key, Request]] = []
    if not request.recompute:
        changes.append(("recompute", recomputing))
    if request.optimizer is Optimizer.ADAM:
        changes.append(("adam8bit", replace(recomputing, optimizer=Optimizer.ADAM8BIT)))
    if not answer.fits or answer.chosen.link_ratio > HEAVY_RATIO:
        if request.method is Method.FULL:
            changes.append(("lora", replace(recomputing, method=Method.LORA)))
        if request.method is not Method.QLORA:
            changes.append(("qlora", replace(recomputing, method=Method.QLORA)))
    found: list[Remedy | None] = []
    last = best([answer.chosen, *answer.options])
    for key, changed in changes:
        option = _best_of_all(carry_rate(request, changed), request.cards)
        if option is None or not option.memory.fits or option.layout.strategy is Strategy.OFFLOAD:
            continue
        if not last.memory.fits or _faster(option, last):
            found.append(Remedy(key, option))
            last = option
    return found


def _quantise(answer: Plan) -> Remedy | None:
    """Weights in 4 bit, where a copy then lives on fewer cards, or fits at all, or is clearly faster."""
    request, chosen = answer.request, answer.chosen
    if request.precision is Precision.INT4:
        return None
    option = _best_of_all(carry_rate(request, replace(request, precision=Precision.INT4)), request.cards)
    if option is None or not option.memory.fits:
        return None
    helps = not answer.fits or option.layout.group < chosen.layout.group or _faster(option, chosen)
    return Remedy("quantise", option, 4) if helps else None


def _fewer_requests(answer: Plan) -> Remedy | None:
    """Fewer requests in flight, where the cache and not the weights is what does not fit."""
    concurrency = answer.request.concurrency
    while not answer.fits and concurrency > 1:
        concurrency //= 2
        fewer = carry_rate(answer.request, replace(answer.request, concurrency=concurrency))
        option = _best_of_all(fewer, fewer.cards)
        if option is not None and option.memory.fits and option.layout.strategy is not Strategy.OFFLOAD:
            return Remedy("fewer_requests", option, concurrency)
    return None


def _one_user(answer: Plan) -> Remedy | None:
    """The layout in which a single request is answered fastest, where that is clearly faster than in the chosen one."""
    chosen = answer.chosen
    fitting = [option for option in answer.options if option.memory.fits]
    if not answer.fits or answer.request.trains:
        return None
    fastest = max(fitting, key=lambda option: option.lone_tokens_per_second or 0.0)
    clearly = (fastest.lone_tokens_per_second or 0.0) > (chosen.lone_tokens_per_second or 0.0) * WORTH_ADVISING
    return Remedy("one_user", fastest) if clearly else None


def _fewer_cards(answer: Plan) -> Remedy | None:
    count = answer.recommended_cards
    if not answer.fits or count is None or count >= answer.request.cards:
        return None
    return Remedy("fewer_cards", next(point for point in answer.points if point.layout.cards == count), count)


def _more_cards(answer: Plan) -> Remedy | None:
    """The smallest doubling of the cards on which some layout fits, where none fits on those asked for."""
    if any(option.memory.fits for option in answer.options):
        return None
    return _fitting_doubling(answer.request, answer.request.cards * 2, "more_cards")


def _platform(answer: Plan) -> Remedy | None:
    """The smallest NVLink platform that holds the job, where a signal says that one is needed."""
    request = answer.request
    card = find_card(PLATFORM_CARD)
    if request.card.nvlink_kind == "fabric" or not any(signal.applies for signal in signals(answer)):
        return None
    moved = replace(
        request,
        card=card,
        p2p=card.p2p,
        nvlink=True,
        pcie_generation=card.pcie_generation,
        pcie_lanes=card.pcie_lanes,
        bandwidth=(),
    )
    return _fitting_doubling(carry_rate(request, moved), 1, "platform")


def _fitting_doubling(request: Request, first: int, key: Key) -> Remedy | None:
    changed = carry_rate(request, replace(request, recompute=True)) if request.trains else request
    count = first
    while count <= MAX_CARDS // 4:
        option = _best_of_all(changed, count)
        holds = option is not None and option.memory.fits and not option.memory.tight
        if holds and option is not None and option.layout.strategy is not Strategy.OFFLOAD:
            return Remedy(key, option, count)
        count *= 2
    return None


def _measure(answer: Plan) -> Remedy | None:
    rate = answer.rate.bytes_per_second
    matters = answer.rate.origin == "typical" and answer.chosen.link_ratio > WORTH_CHANGING_RATIO / 3
    return Remedy("measure", answer.chosen) if matters and rate.high / rate.low > WIDE_SPREAD else None


def _best_of_all(request: Request, cards: int) -> Option | None:
    """Return the best option over all layouts, None where the changed request is impossible."""
    changed = replace(request, strategy=None, group=None, cards=cards)
    try:
        check(changed)
    except PlanError:
        return None
    return best([evaluate(changed, layout) for layout in every(changed, cards)])


def _faster(option: Option, other: Option) -> bool:
    return option.throughput.typical > other.throughput.typical * WORTH_ADVISING
