"""The answer to a request: every layout on the asked cards, the best one for each count, and what follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gpumon.plan.bandwidth import Rate, peer_rate
from gpumon.plan.layouts import Layout, candidates, every
from gpumon.plan.memory import Memory, memory, state_bytes
from gpumon.plan.request import Estimate, PlanError, Request, Strategy, check
from gpumon.plan.shapes import stored_bytes, trainable_parameters
from gpumon.plan.timing import (
    FASTEST,
    LEAST_EFFICIENT,
    MOST_EFFICIENT,
    SLOWEST,
    TYPICAL,
    Scenario,
    ServingTime,
    StepTime,
    carry_rate,
    ideal_output_tokens_per_second,
    ideal_training_seconds,
    serving,
    training_step,
)
from gpumon.plan.traffic import Transfer, prompt_traffic, token_traffic, training_traffic

# The smallest count that gives this share of the best throughput is the one to rent.
ENOUGH_RATIO = 0.95
# Counts shown one by one; beyond, doublings.
SHOWN_ONE_BY_ONE = 16


@dataclass(frozen=True, slots=True)
class Option:
    """One layout with what it needs and what it gives.

    throughput: tokens, images or output tokens per second of all cards.
    efficiency: throughput over cards times that of one card with enough memory; training at the same batch for each
        card, inference at the same requests in all.
    step_seconds: optimizer step, or one token for every request in flight.
    lone_tokens_per_second: what a single user on an idle machine sees (inference).
    cost: price of a million tokens or a thousand images.
    """

    layout: Layout
    memory: Memory
    throughput: Estimate
    efficiency: Estimate
    step_seconds: Estimate
    link_ratio: float
    time: StepTime
    traffic: tuple[Transfer, ...]
    prompt_traffic: tuple[Transfer, ...]
    lone_tokens_per_second: float | None
    cost: Estimate | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything computed for a request.

    chosen: the layout asked for, else the best that fits, else the one nearest to fitting.
    options: all layouts on the asked number of cards.
    points: the best option for each count that has one.
    recommended_cards: the smallest count with 95 % of the best throughput, None if nothing fits.
    state_bytes: weights, gradients and optimizer of the whole model.
    """

    request: Request
    unit: Literal["tokens", "images", "output tokens"]
    state_bytes: float
    rate: Rate
    chosen: Option
    options: tuple[Option, ...]
    points: tuple[Option, ...]
    recommended_cards: int | None

    @property
    def fits(self) -> bool:
        """Return whether the chosen layout fits."""
        return self.chosen.memory.fits


def plan(request: Request) -> Plan:
    """Return the answer. Raises: PlanError with one sentence if the question is meaningless or impossible."""
    check(request)
    asked = [evaluate(request, layout) for layout in candidates(request, request.cards)]
    if not asked:
        raise PlanError(f"plan: no layout exists for {request.model.name} on {request.cards} cards.")
    options = tuple(evaluate(request, layout) for layout in every(request, request.cards))
    points = []
    for count in _counts(request.cards):
        found = asked if count == request.cards else [evaluate(request, each) for each in candidates(request, count)]
        if found:
            points.append(best(found))
    return Plan(
        request=request,
        unit=unit(request),
        state_bytes=whole_state_bytes(request),
        rate=peer_rate(request, request.cards, request.cards),
        chosen=best(asked),
        options=options,
        points=tuple(points),
        recommended_cards=_recommended(points),
    )


def best(options: list[Option]) -> Option:
    """Return the fastest option that fits; if none fits, the one nearest to fitting. The earlier wins a tie."""
    fitting = [option for option in options if option.memory.fits]
    if fitting:
        return max(fitting, key=lambda option: option.throughput.typical)
    return min(options, key=lambda option: option.memory.used_ratio)


def unit(request: Request) -> Literal["tokens", "images", "output tokens"]:
    """Return what throughput counts."""
    if not request.trains:
        return "output tokens"
    return "images" if request.model.kind == "image" else "tokens"


def whole_state_bytes(request: Request) -> float:
    """Return weights, gradients and optimizer state of one whole copy: what people add up across cards."""
    model = request.model
    if not request.trains:
        return stored_bytes(model, model.parameters, request.precision, request.method)
    trained = trainable_parameters(model, request.method)
    changing = trained * state_bytes(request.precision, request.optimizer).total
    if trained == model.parameters:
        return changing
    return changing + stored_bytes(model, model.parameters, request.precision, request.method)


def evaluate(request: Request, layout: Layout) -> Option:
    """Return what this layout needs and gives."""
    return _training(request, layout) if request.trains else _serving(request, layout)


def _training(request: Request, layout: Layout) -> Option:
    def seconds(scenario: Scenario) -> float:
        return training_step(request, layout, scenario).total_seconds

    def efficiency(scenario: Scenario) -> float:
        return ideal_training_seconds(request, scenario) / seconds(scenario)

    samples = layout.cards * request.batch * request.accumulation
    work = samples * (1 if request.model.kind == "image" else request.sequence)
    typical = training_step(request, layout, TYPICAL)
    step = Estimate(seconds(FASTEST), typical.total_seconds, seconds(SLOWEST))
    throughput = Estimate(work / step.high, work / step.typical, work / step.low)
    return Option(
        layout=layout,
        memory=memory(request, layout),
        throughput=throughput,
        efficiency=Estimate(efficiency(LEAST_EFFICIENT), efficiency(TYPICAL), efficiency(MOST_EFFICIENT)),
        step_seconds=step,
        link_ratio=typical.link_ratio,
        time=typical,
        traffic=training_traffic(request, layout),
        prompt_traffic=(),
        lone_tokens_per_second=None,
        cost=_cost(request, layout.cards, throughput),
    )


def _serving(request: Request, layout: Layout) -> Option:
    def time(scenario: Scenario) -> ServingTime:
        return serving(request, layout, scenario)

    def rate(scenario: Scenario) -> float:
        return layout.busy_copies(request.concurrency) * time(scenario).output_tokens_per_second(request.output_tokens)

    def efficiency(scenario: Scenario) -> float:
        return rate(scenario) / (layout.cards * ideal_output_tokens_per_second(request, scenario))

    typical = time(TYPICAL)
    throughput = Estimate(rate(SLOWEST), rate(TYPICAL), rate(FASTEST))
    tokens = (time(FASTEST).token, typical.token, time(SLOWEST).token)
    lone = carry_rate(request, replace(request, concurrency=1))
    least, usual, most = efficiency(LEAST_EFFICIENT), efficiency(TYPICAL), efficiency(MOST_EFFICIENT)
    return Option(
        layout=layout,
        memory=memory(request, layout),
        throughput=throughput,
        # Prompts are computed and tokens are read: a faster card shifts their weight, so the three need not
        # be in order.
        efficiency=Estimate(min(least, usual, most), usual, max(least, usual, most)),
        step_seconds=Estimate(*(token.total_seconds for token in tokens)),
        link_ratio=typical.link_ratio(request.output_tokens),
        time=typical.token,
        traffic=token_traffic(request, layout),
        prompt_traffic=prompt_traffic(request, layout),
        lone_tokens_per_second=1 / serving(lone, layout, TYPICAL).token.total_seconds,
        cost=_cost(request, layout.cards, throughput),
    )


def _cost(request: Request, cards: int, throughput: Estimate) -> Estimate | None:
    if request.price_per_card_hour is None:
        return None
    amount = 1e3 if unit(request) == "images" else 1e6
    per_second = request.price_per_card_hour * cards / 3600
    return Estimate(*(per_second * amount / each for each in (throughput.high, throughput.typical, throughput.low)))


def _counts(cards: int) -> list[int]:
    doublings = [SHOWN_ONE_BY_ONE * 2**power for power in range(1, 7)]
    return [
        *range(1, min(cards, SHOWN_ONE_BY_ONE) + 1),
        *(n for n in doublings if n < cards),
        *([cards] if cards > 16 else []),
    ]


def _recommended(points: list[Option]) -> int | None:
    fitting = [point for point in points if point.memory.fits]
    if not fitting:
        return None
    most = max(point.throughput.typical for point in fitting)
    return min(point.layout.cards for point in fitting if point.throughput.typical >= ENOUGH_RATIO * most)


def is_replicas(request: Request, layout: Layout) -> bool:
    """Return whether cards serve independent copies of the model."""
    return not request.trains and layout.strategy is Strategy.DDP
