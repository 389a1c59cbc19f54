"""One period during which the driver interface is open: the pollers of its cards, and whether it still answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpumon.hardware.reader import NodeReader
from gpumon.model.card import Card, LinkSource
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.samples import CardTick
from gpumon.model.topology import Topology
from gpumon.sampling.budget import Budget
from gpumon.sampling.card_log import SOURCES, Source
from gpumon.sampling.card_poller import CardPoller
from gpumon.sampling.card_tick import close_card
from gpumon.sampling.crew import Crew
from gpumon.sampling.link_pace import tree_line_rate

# The whole driver is gone as soon as one card says so.
_DRIVER_FAULTS = frozenset({Fault.DRIVER_NOT_LOADED, Fault.VERSION_MISMATCH})
# Every card silent for this long: the interface is opened anew, since a stale one never recovers by itself.
_ALL_SILENT_S = 5.0
# ... but not more often than this: repeated initialisation has troubled drivers (facts/nvml.md 9.2).
_SILENT_REOPEN_PERIOD_S = 60.0
# Slow reads of the cards lie in this part of each second, so that a tick finds them fresh.
_PHASE_FROM_S, _PHASE_TO_S = 0.5, 0.9


@dataclass(frozen=True, slots=True)
class Driving:
    """How pollers are driven: by threads in real time, by a loop in simulated time."""

    new_clock: Callable[[], Clock]
    cpu_time_s: Callable[[], float]  # of the calling thread
    epoch_s: float  # ticks end at whole seconds from here


@dataclass(slots=True)
class Session:
    """The pollers of the cards that the driver named, by UUID, and the clocks that drive them.

    A card that was found lost is asked, too: its reader looks for it now and then.
    """

    node: NodeReader
    cards: tuple[Card, ...]  # known cards, lost ones included
    asked: tuple[Card, ...]  # those the driver named, that is all but cards it has forgotten
    topology: Topology
    budget: Budget
    driving: Driving
    opened_s: float
    pollers: dict[str, CardPoller] = field(default_factory=dict)
    clocks: dict[str, Clock] = field(default_factory=dict)
    crews: tuple[Crew, ...] = ()  # all there were: the time of one that ended counts on
    _silent_since_s: float = math.nan

    def start_card(self, card: Card, now_s: float) -> None:
        """Give the card its poller."""
        clock = self.driving.new_clock()
        share = self.asked.index(card) / len(self.asked)
        phase_s = _PHASE_FROM_S + share * (_PHASE_TO_S - _PHASE_FROM_S)
        into_second_s = (now_s - self.driving.epoch_s) % 1.0
        self.clocks[card.identity.uuid] = clock
        self.pollers[card.identity.uuid] = CardPoller(
            card,
            reader=self.node.card_reader(card, clock),
            clock=clock,
            budget=self.budget,
            tree_line_rate=tree_line_rate(self.topology, card.identity.uuid),
            start_s=now_s,
            phase_s=(phase_s - into_second_s) % 1.0,
            share=share,
        )

    def gone(self, now_s: float) -> Fault | None:
        """Return why the driver interface must be opened anew, None while it answers."""
        faults = [poller.log.fault for poller in self.pollers.values()]
        for fault in faults:
            if fault in _DRIVER_FAULTS:
                return fault
        if not faults or None in faults:
            self._silent_since_s = math.nan
            return None
        if math.isnan(self._silent_since_s):
            self._silent_since_s = now_s
        silent = now_s - self._silent_since_s >= _ALL_SILENT_S
        return faults[0] if silent and now_s - self.opened_s >= _SILENT_REOPEN_PERIOD_S else None

    def close_cards(self, until_s: float, now_s: float) -> tuple[CardTick, ...]:
        """Return the tick of every known card, and empty the logs up to until_s."""
        ticks = []
        for card in self.cards:
            poller = self.pollers.get(card.identity.uuid)
            if poller is None:
                ticks.append(absent(card, card.fault or Fault.TIMEOUT))
            else:
                ticks.append(close_card(card, poller.log, until_s, now_s))
        return tuple(ticks)

    def gpu_pids(self) -> frozenset[int]:
        """Return the pids that the driver lists on any card."""
        lists = [poller.log.processes[0] for poller in tuple(self.pollers.values())]
        return frozenset(process.pid for processes in lists if processes for process in processes)

    def crew(self, pollers: Sequence[CardPoller], clock: Clock) -> Crew:
        """Put cards into the hands of one thread, which waits by the given clock."""
        crew = Crew(pollers, clock, self.driving.cpu_time_s)
        self.crews = (*self.crews, crew)
        return crew

    def cpu_s(self) -> float:
        """Return the CPU time of all card threads so far."""
        return sum(crew.cpu_s for crew in self.crews)

    def rejected(self) -> int:
        """Return how many counter deltas were faster than their link can be."""
        return sum(poller.log.rejected for poller in self.pollers.values())

    def sources(self) -> dict[str, Source]:
        """Return each kind of read over all cards: sums of counts, the longest duration, the newest time."""
        merged = {name: Source() for name in SOURCES}
        for poller in self.pollers.values():
            for name, source in poller.log.sources.items():
                merge(merged[name], source)
        return merged


def merge(into: Source, source: Source) -> None:
    """Add one card's figures of a kind of read to the node's."""
    into.samples += source.samples
    into.missed += source.missed
    # A comparison with NaN is false, so the known value is tried second.
    if not source.duration_s <= into.duration_s:
        into.duration_s = source.duration_s if not math.isnan(source.duration_s) else into.duration_s
    if not source.last_s <= into.last_s:
        into.last_s = source.last_s if not math.isnan(source.last_s) else into.last_s


def absent(card: Card, fault: Fault) -> CardTick:
    """Return the tick of a card that nobody could ask."""
    return CardTick(uuid=card.identity.uuid, up=False, fault=fault, last_sample_s=math.nan)


def window_cards(cards: tuple[Card, ...]) -> tuple[Card, ...]:
    """Return the usable cards whose link is watched through blocking window calls."""
    return tuple(card for card in cards if card.fault is None and card.capabilities.pcie_source is LinkSource.WINDOW)
