"""Layouts: a strategy on a number of cards, with the cards that hold one copy of the model."""

from __future__ import annotations

from dataclasses import dataclass

from gpumon.plan.request import GROUPED, Request, Strategy, impossible

# Simplest first: where two are equally fast, the earlier one is advised. zero3 is fsdp with another name and buckets.
TRAINING_ORDER = (
    Strategy.DDP,
    Strategy.ZERO1,
    Strategy.ZERO2,
    Strategy.FSDP,
    Strategy.PP,
    Strategy.TP,
    Strategy.EP,
    Strategy.OFFLOAD,
)
INFERENCE_ORDER = (Strategy.DDP, Strategy.PP, Strategy.TP, Strategy.OFFLOAD)


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to use the cards. group: cards that work on the same samples (1 where each card has its own)."""

    strategy: Strategy
    cards: int
    group: int

    @property
    def copies(self) -> int:
        """Return how many groups work side by side on different samples."""
        return self.cards // self.group

    def requests(self, concurrency: int) -> float:
        """Return how many of the requests in flight one copy serves; copies without a request are idle."""
        return concurrency / self.busy_copies(concurrency)

    def busy_copies(self, concurrency: int) -> int:
        """Return how many copies have a request to serve."""
        return min(self.copies, concurrency)


def layout(request: Request, strategy: Strategy, cards: int) -> Layout | None:
    """Return the layout of this strategy on so many cards, None where it cannot exist (the reason: `impossible`)."""
    group = request.group
    if impossible(request, strategy, cards, group) is not None:
        return None
    if strategy in GROUPED:
        return Layout(strategy, cards, group if group is not None else cards)
    return Layout(strategy, cards, cards if strategy is Strategy.EP else 1)


def candidates(request: Request, cards: int) -> tuple[Layout, ...]:
    """Return the layouts to compare on so many cards: the asked strategy, or all of them with every group size."""
    if request.strategy is not None:
        asked = layout(request, request.strategy, cards)
        return () if asked is None else (asked,)
    return every(request, cards)


def every(request: Request, cards: int) -> tuple[Layout, ...]:
    """Return every layout on so many cards, simplest first."""
    found = []
    for strategy in TRAINING_ORDER if request.trains else INFERENCE_ORDER:
        if cards == 1 and strategy not in (Strategy.DDP, Strategy.OFFLOAD):
            continue
        if strategy not in GROUPED:
            if impossible(request, strategy, cards, None) is None:
                found.append(Layout(strategy, cards, cards if strategy is Strategy.EP else 1))
            continue
        found += [
            Layout(strategy, cards, group)
            for group in range(2, cards + 1)
            if cards % group == 0 and impossible(request, strategy, cards, group) is None
        ]
    return tuple(found)
