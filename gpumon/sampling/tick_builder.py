"""Putting one second of the node together, with running totals that survive closing and opening the driver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gpumon.hardware.reader import NodeReader, XidEvent
from gpumon.model.fault import Fault
from gpumon.model.samples import CardTick, Event, SamplerStats, Tick
from gpumon.model.topology import NodeFacts, Topology
from gpumon.sampling.card_log import SOURCES, Source
from gpumon.sampling.host_poller import HostPoller
from gpumon.sampling.roster import Roster
from gpumon.sampling.session import Session, absent, merge

_MOST_EVENTS = 1000  # a second; a card in trouble has been seen to repeat an Xid without end


class TickBuilder:
    """Builds ticks in turn. For one thread."""

    def __init__(self, node: NodeReader, host: HostPoller, roster: Roster) -> None:
        self._node = node
        self._host = host
        self._roster = roster
        self._seq = 0
        self._ended = {name: Source() for name in SOURCES}  # of sessions that are over
        self._ended_cpu_s = 0.0
        self._ended_rejected = 0
        self._last_sample_s: dict[str, float] = {}
        self.missed_ticks = 0
        self.events: list[Event] = []  # appended by whoever sees one, taken by the next tick

    def session_over(self, session: Session) -> None:
        """Keep the totals of a session that was closed."""
        for name, source in session.sources().items():
            merge(self._ended[name], source)
            self._ended[name].duration_s = math.nan
        self._ended_cpu_s += session.cpu_s()
        self._ended_rejected += session.rejected()

    def add_xids(self, events: Sequence[XidEvent]) -> None:
        """Take Xid events into the next tick."""
        if len(self.events) < _MOST_EVENTS:
            self.events += [Event(event.mono_s, "xid", event.uuid, event.code) for event in events]

    def build(
        self,
        session: Session | None,
        fault: Fault | None,
        *,
        node: tuple[NodeFacts, Topology],
        until_s: float,
        now_s: float,
        wall_s: float,
        cpu_seconds: float,
    ) -> Tick:
        """Return the tick that ends at until_s.

        Args:
            session: the open driver interface; None while there is none, and then fault says why.
            node: where gpumon stands and how the cards are connected.
            now_s: the present, by which ages are judged.
            cpu_seconds: of the whole process; NaN in simulated time.
        """
        if session is None:
            cards = self._roster.cards
            ticks = tuple(absent(card, fault or Fault.DRIVER_NOT_LOADED) for card in cards)
        else:
            cards = session.cards
            ticks = session.close_cards(until_s, now_s)
        ticks = tuple(self._remember(tick) for tick in ticks)
        events = self.events[:]
        del self.events[: len(events)]
        events += self._roster.events(ticks, until_s)
        driver_s = self._node.driver_seconds()
        if session is not None:
            held_s = self._node.driver_held_seconds()
            session.budget.account(now_s, held_s, self._ended_cpu_s + session.cpu_s() - held_s)
        self._seq += 1
        return Tick(
            seq=self._seq - 1,
            mono_s=until_s,
            wall_s=wall_s,
            nvml_up=session is not None,
            nvml_fault=None if session is not None else fault or Fault.DRIVER_NOT_LOADED,
            node=node[0],
            cards=cards,
            topology=node[1],
            card_ticks=ticks,
            processes=self._host.table,
            host=self._host.sample,
            events=tuple(events),
            sampler=self._stats(session, driver_s, cpu_seconds),
        )

    def _remember(self, tick: CardTick) -> CardTick:
        """Keep when each card last answered, also while nobody can ask it: its age goes on growing."""
        if math.isnan(tick.last_sample_s):
            return replace(tick, last_sample_s=self._last_sample_s.get(tick.uuid, math.nan))
        self._last_sample_s[tick.uuid] = tick.last_sample_s
        return tick

    def _stats(self, session: Session | None, driver_s: float, cpu_seconds: float) -> SamplerStats:
        sources = {name: Source() for name in SOURCES}
        for name, source in self._ended.items():
            merge(sources[name], source)
        if session is not None:
            for name, source in session.sources().items():
                merge(sources[name], source)
        sources["host"] = self._host.host_source
        sources["process_table"] = self._host.table_source
        sources = {name: source for name, source in sources.items() if source.samples or source.missed}
        rejected = dict(self._node.rejected())
        too_fast = self._ended_rejected + (session.rejected() if session is not None else 0)
        if too_fast:
            rejected["counter_over_link"] = rejected.get("counter_over_link", 0) + too_fast
        return SamplerStats(
            duration_seconds={n: s.duration_s for n, s in sources.items() if not math.isnan(s.duration_s)},
            samples={name: source.samples for name, source in sources.items()},
            missed={**{name: source.missed for name, source in sources.items()}, "tick": self.missed_ticks},
            last_sample_s={n: s.last_s for n, s in sources.items() if not math.isnan(s.last_s)},
            nvml_errors=self._node.errors(),
            rejected=rejected,
            cpu_seconds=cpu_seconds,
            driver_seconds=driver_s,
        )
