"""The same pollers without threads or waiting: an hour of eight cards in seconds, the same every time."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpumon.hardware.reader import HostReader, NodeReader
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.samples import Event, Tick
from gpumon.model.settings import SamplingSettings
from gpumon.model.topology import NodeFacts, Topology
from gpumon.sampling.clocks import CountingClock
from gpumon.sampling.crew import Crew
from gpumon.sampling.host_poller import HostPoller
from gpumon.sampling.opening import Retry, open_session
from gpumon.sampling.roster import Roster
from gpumon.sampling.session import Driving, Session
from gpumon.sampling.tick_builder import TickBuilder

# Wall time of the run's zero: 2026-01-01T00:00:00Z. Only ever shown.
_WALL_OFFSET_S = 1_767_225_600.0


def ticks(
    node: NodeReader,
    host: HostReader,
    settings: SamplingSettings,
    seconds: float,
    start_s: float = 0.0,
    *,
    windows_overlap: bool = True,
) -> Iterator[Tick]:
    """Yield the ticks of so many seconds of simulated time.

    Each poller has a counting clock of its own, so a call that blocks one card costs the others nothing. A driver
    that is absent or goes away is tried again as in real time.

    Args:
        start_s: monotonic time at which sampling begins; the first tick ends a second later.
        windows_overlap: what the daemon measures at start: whether window calls of several cards run side by side.
    """
    run = _Run(node, host, settings, start_s, windows_overlap)
    try:
        for number in range(1, int(seconds) + 1):
            yield run.tick(start_s + number)
    finally:
        run.close()


class _Run:
    """What the daemon's threads do, one after the other."""

    def __init__(
        self, node: NodeReader, host: HostReader, settings: SamplingSettings, start_s: float, overlap: bool
    ) -> None:
        self._node = node
        self._settings = settings
        self._overlap = overlap
        self._now = CountingClock(start_s, _WALL_OFFSET_S)
        self._driving = Driving(new_clock=self._new_clock, cpu_time_s=lambda: 0.0, epoch_s=start_s)
        self._roster = Roster()
        self._retry = Retry()
        self._session: Session | None = None
        self._fault: Fault | None = None
        self._host_clock = self._new_clock()
        self._host = HostPoller(host, self._host_clock, settings, start_s, self._gpu_pids)
        self._builder = TickBuilder(node, self._host, self._roster)
        self._facts: tuple[NodeFacts, Topology] = (node.facts(), node.topology(()))

    def tick(self, until_s: float) -> Tick:
        """Return the tick from the present to until_s."""
        self._watch_driver(self._now.mono_s())
        if self._session is not None:
            for crew in self._session.crews:
                _drive(crew, crew.clock, until_s)
            xids = self._node.xid_events(0.0)
            if not isinstance(xids, Fault):
                self._builder.add_xids(xids)
        _drive(self._host, self._host_clock, until_s)
        self._now.wait_until(until_s)
        return self._builder.build(
            self._session,
            self._fault,
            node=self._facts,
            until_s=until_s,
            now_s=until_s,
            wall_s=self._now.wall_s(),
            cpu_seconds=math.nan,
        )

    def close(self) -> None:
        """Close the driver."""
        if self._session is not None:
            self._node.close()

    def _watch_driver(self, now_s: float) -> None:
        if self._session is not None:
            gone = self._session.gone(now_s)
            if gone is None:
                return
            self._fault = gone
            self._builder.events.append(Event(now_s, "driver_gone"))
            self._builder.session_over(self._session)
            self._node.close()
            self._session = None
            self._retry.failed(now_s)
        elif now_s >= self._retry.due_s:
            self._try_open(now_s)

    def _try_open(self, now_s: float) -> None:
        opened = open_session(
            self._node,
            self._roster,
            self._settings,
            self._driving,
            now_s=self._now.mono_s,
            measure_overlap=lambda _: self._overlap,
        )
        if isinstance(opened, Fault):
            self._fault = opened
            self._retry.failed(now_s)
            return
        if self._fault is not None:
            self._builder.events.append(Event(now_s, "driver_back"))
        for uuid, poller in opened.pollers.items():
            opened.crew((poller,), opened.clocks[uuid])
        self._session, self._fault = opened, None
        self._retry.succeeded()
        self._facts = (self._node.facts(), opened.topology)
        self._host.uuids_by_address = {card.identity.pci_address: card.identity.uuid for card in opened.cards}

    def _gpu_pids(self) -> frozenset[int]:
        return self._session.gpu_pids() if self._session is not None else frozenset()

    def _new_clock(self) -> Clock:
        return CountingClock(self._now.mono_s(), _WALL_OFFSET_S)


def _drive(poller: Crew | HostPoller, clock: Clock, until_s: float) -> None:
    """Let a poller do what falls due before until_s. A call begun before may end after: that is the next tick's."""
    while poller.due_s < until_s:
        clock.wait_until(poller.due_s)
        if clock.mono_s() >= until_s:
            return
        poller.run()
