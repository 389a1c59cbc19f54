"""Measures on the node it runs on what no documentation tells: what driver calls cost, and whether windows overlap.

The figures decide how gpumon samples: calls that cost milliseconds are made rarely, windows that queue in the driver
must share a small budget. Everything goes through the readers, so that a simulated node is measured the same way (its
calls cost only the time its windows wait). Takes about two seconds a card model and one for the overlap.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpumon.hardware.reader import CardReader, NodeReader
from gpumon.model.card import Card
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault

ClockMaker = Callable[[Card], Clock]

_WINDOW_ROUNDS = 10
_GPM_SPACING_S = 0.12  # two GPM samples must lie more than 100 ms apart

# Calls together count as overlapping up to 1.3 times the time of one, as queueing from 0.7 times the sum of all.
_OVERLAP_FACTOR = 1.3
_QUEUE_FACTOR = 0.7


@dataclass(frozen=True, slots=True)
class CallCost:
    """What one reader call costs on one card model."""

    call: str
    driver_calls: str  # what it asks the driver
    count: int
    median_s: float  # NaN when it never succeeded
    p95_s: float
    fault: str = ""  # why it failed, "" when it did not


@dataclass(frozen=True, slots=True)
class CardCosts:
    """Costs measured on the first card of a model."""

    name: str
    gpu: int
    costs: tuple[CallCost, ...]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Whether window calls at the same time wait for each other."""

    what: str
    callers: int
    alone_s: float  # median of one call with nobody else calling
    together_s: float  # median of one call while all call
    verdict: str  # overlap, queue, partly, unknown


@dataclass(frozen=True, slots=True)
class _Plan:
    """How often one call is measured, and how it is made."""

    call: str
    driver_calls: str
    count: int
    make: Callable[[CardReader], object]
    spacing_s: float = 0.0


_PLANS = (
    _Plan("counters", "FieldValues 197, 198, 186 and what goes with them", 50, lambda reader: reader.counters()),
    _Plan("window rx", "PcieThroughput(RX), 20 ms", _WINDOW_ROUNDS, lambda reader: reader.window("rx")),
    _Plan("window tx", "PcieThroughput(TX), 20 ms", _WINDOW_ROUNDS, lambda reader: reader.window("tx")),
    _Plan("rings", "Samples: power, utilization, memory, clock", 10, lambda reader: reader.rings(), 0.02),
    _Plan("quick", "clocks, throttle reasons, utilization, memory, power, link", 20, lambda reader: reader.quick()),
    _Plan("rare", "limits, maxima, ECC, remapped rows, errors", 5, lambda reader: reader.rare()),
    _Plan("processes", "RunningProcesses, ProcessUtilization", 10, lambda reader: reader.processes()),
    _Plan("gpm", "GpmSampleGet, GpmMetricsGet", 5, lambda reader: reader.gpm(), _GPM_SPACING_S),
)


def call_costs(node: NodeReader, cards: Sequence[Card], clock: ClockMaker) -> tuple[CardCosts, ...]:
    """Return the cost of every reader call, on the first usable card of each model."""
    results = []
    for card in first_of_each_model(cards):
        ticking = clock(card)
        reader = node.card_reader(card, ticking)
        costs = tuple(_cost(reader, ticking, plan) for plan in _PLANS)
        results.append(CardCosts(name=card.identity.name, gpu=card.identity.index, costs=costs))
    return tuple(results)


def first_of_each_model(cards: Sequence[Card]) -> tuple[Card, ...]:
    """Return the first usable card of each product name: cards of one model answer alike."""
    first: dict[str, Card] = {}
    for card in cards:
        if card.fault is None:
            first.setdefault(card.identity.name, card)
    return tuple(first.values())


def window_overlap(node: NodeReader, cards: Sequence[Card], clock: ClockMaker) -> tuple[Overlap, ...]:
    """Return whether the windows of a card's two directions, and those of all cards, overlap or queue.

    A card without the window call has nothing to overlap and is left out.
    """
    able = [card for card in cards if card.fault is None and "pcie_window" in card.capabilities.features]
    if not able:
        return ()
    alone_s = _windows(node, [(able[0], "rx")], clock)
    results = [_overlap("both directions of one card", alone_s, [(able[0], "rx"), (able[0], "tx")], node, clock)]
    if len(able) > 1:
        results.append(_overlap("all cards", alone_s, [(card, "rx") for card in able], node, clock))
    return tuple(results)


def overlap_verdict(alone_s: float, together_s: float, callers: int) -> str:
    """Return overlap, partly, queue, or unknown, from one call's time alone and among as many callers."""
    if not (alone_s > 0 and together_s > 0):
        return "unknown"
    ratio = together_s / alone_s
    if ratio <= _OVERLAP_FACTOR:
        return "overlap"
    return "queue" if ratio >= _QUEUE_FACTOR * callers else "partly"


def _cost(reader: CardReader, clock: Clock, plan: _Plan) -> CallCost:
    durations: list[float] = []
    fault: Fault | None = None
    for _ in range(plan.count):
        before = clock.mono_s()
        answer = plan.make(reader)
        if isinstance(answer, Fault):
            fault = answer
            if answer in {Fault.NOT_SUPPORTED, Fault.NO_PERMISSION}:
                break  # cached by the reader: further tries would measure our own code
        else:
            durations.append(clock.mono_s() - before)
        if plan.spacing_s:
            clock.wait_until(clock.mono_s() + plan.spacing_s)
    if not durations:
        reason = fault.value if fault else Fault.NO_DATA.value
        return CallCost(plan.call, plan.driver_calls, 0, float("nan"), float("nan"), reason)
    median_s, p95_s = np.quantile(durations, (0.5, 0.95))
    return CallCost(plan.call, plan.driver_calls, len(durations), float(median_s), float(p95_s))


def _overlap(
    what: str, alone_s: float, callers: Sequence[tuple[Card, str]], node: NodeReader, clock: ClockMaker
) -> Overlap:
    together_s = _windows(node, callers, clock)
    return Overlap(what, len(callers), alone_s, together_s, overlap_verdict(alone_s, together_s, len(callers)))


def _windows(node: NodeReader, callers: Sequence[tuple[Card, str]], clock: ClockMaker) -> float:
    """Return the median duration of window calls while every caller, each in a thread, makes them."""
    start = threading.Barrier(len(callers))
    durations: Mapping[int, list[float]] = {number: [] for number in range(len(callers))}

    def call(number: int, reader: CardReader, ticking: Clock, direction: str) -> None:
        start.wait()
        for _ in range(_WINDOW_ROUNDS):
            before = ticking.mono_s()
            if not isinstance(reader.window(direction), Fault):
                durations[number].append(ticking.mono_s() - before)

    # Daemon threads: a call that hangs in the driver must not keep the doctor from ending.
    threads = []
    for number, (card, direction) in enumerate(callers):
        ticking = clock(card)
        arguments = (number, node.card_reader(card, ticking), ticking, direction)
        threads.append(threading.Thread(target=call, args=arguments, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=_WINDOW_ROUNDS * len(callers))
    everything = [duration for caller in durations.values() for duration in caller]
    return float(np.median(everything)) if everything else float("nan")
