"""A simulated node behind the NodeReader and HostReader seams."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gpumon.hardware.reader import CardReader, XidEvent
from gpumon.hardware.simulated.card_reader import Shared, SimulatedCardReader
from gpumon.hardware.simulated.host_view import SimulatedHost, boot_wall_s
from gpumon.hardware.simulated.identity import processes_of
from gpumon.hardware.simulated.meters import DriverLedger
from gpumon.hardware.simulated.probe import card_uuid, probed
from gpumon.hardware.simulated.scenario import Scenario
from gpumon.hardware.simulated.scenarios import find_scenario
from gpumon.hardware.simulated.sensors import C, fault_at
from gpumon.hardware.simulated.tree import topology
from gpumon.hardware.simulated.truth import JobTruth, job_truths
from gpumon.hardware.simulated.world import World
from gpumon.model.card import Card
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.process import HostSample, ProcessTable
from gpumon.model.topology import NodeFacts, Topology

_NOMINAL_WALL_S = 1_760_000_000.0  # Unix time of a run without a clock of its own


class SimulatedNode:
    """The driver, the PCI tree and the host of a scenario.

    With a clock, its time at construction is second 0 of the scenario. Without one the scenario begins at the first
    time anybody shows, and what the node itself is asked is answered for the time of the card readers' clocks.
    """

    def __init__(self, scenario: str | Scenario, seed: int = 0, clock: Clock | None = None) -> None:
        self.scenario = scenario if isinstance(scenario, Scenario) else find_scenario(scenario)
        self.seed = seed
        self._clock = clock
        self._origin_s = clock.mono_s() if clock is not None else math.nan
        self._clocks: list[Clock] = []
        self._world = World(self.scenario, seed)
        self._ledger = DriverLedger(self.scenario.node.queue_windows)
        self._processes = processes_of(self._world)
        self._host = SimulatedHost(self._world, self._processes, self._now_s, lambda: self._origin_s)
        self._seen_events_s = -1.0
        self._latest_s = 0.0

    def open(self) -> Sequence[Card] | Fault:
        """Probe every card; lost ones are known but carry their fault."""
        now = self._now_s()
        whole = fault_at(self.scenario.faults, -1, now)
        if whole is not None and whole.kind == "driver_not_loaded":
            self._ledger.fail(Fault.DRIVER_NOT_LOADED)
            return Fault.DRIVER_NOT_LOADED
        cards = []
        for index in range(len(self.scenario.node.slots)):
            card = probed(self.scenario.node, self.seed, index)
            fault = fault_at(self.scenario.faults, index, now)
            if fault is not None and fault.kind in ("lost", "reset_required"):
                reason = Fault.LOST if fault.kind == "lost" else Fault.RESET_REQUIRED
                card = Card(card.identity, card.capabilities, card.nvlink, fault=reason)
            cards.append(card)
        return tuple(cards)

    def card_reader(self, card: Card, clock: Clock) -> CardReader:
        """Return a reader for one card with its own clock."""
        self._clocks.append(clock)
        self._begin(clock.mono_s())
        state = self._world.cards[card.identity.index]
        shared = Shared(self._world, self._processes, self._ledger, self._origin_s, self.seed)
        return SimulatedCardReader(shared, state, card, clock)

    def close(self) -> None:
        """Forget the readers' clocks; the world goes on by itself."""
        self._latest_s = self._now_s()
        self._clocks.clear()

    def xid_events(self, timeout_s: float) -> Sequence[XidEvent] | Fault:
        """Wait for the scenario's Xid events."""
        begin = self._now_s()
        after, end = self._seen_events_s, begin + timeout_s
        due = [event for event in self.scenario.xids if after < event.at_s <= end]
        until = min((max(event.at_s, begin) for event in due), default=end)
        if self._clock is not None and not self._clock.wait_until(until + self._origin_s):
            return ()
        self._seen_events_s = until
        return tuple(
            XidEvent(event.at_s + self._origin_s, card_uuid(self.scenario.node, self.seed, event.card), event.code)
            for event in due
            if event.at_s <= until
        )

    def facts(self) -> NodeFacts:
        """Where gpumon stands on the simulated node."""
        node = self.scenario.node
        now = self._now_s()
        wall = self._clock.wall_s() if self._clock is not None else _NOMINAL_WALL_S + now
        whole = fault_at(self.scenario.faults, -1, now)
        return NodeFacts(
            hostname=node.hostname,
            virtualization=node.virtualization,
            kernel="6.8.0-60-generic",
            driver_version="" if whole is not None and whole.kind == "driver_not_loaded" else node.driver,
            cpu_count=node.host.cpus,
            simulated=True,
            standing="vm" if node.flat else "host",
            host_pids=True,
            boot_wall_s=round(boot_wall_s(wall, now)),
        )

    def topology(self, cards: Sequence[Card]) -> Topology:
        """Read the PCI tree."""
        now = self._now_s()
        with self._world.lock:
            self._world.advance(now)
            awake = tuple(timeline.rates_at(now)[C["link_generation"]] > 1 for timeline in self._world.timelines)
        uuids = tuple(card_uuid(self.scenario.node, self.seed, index) for index in range(len(awake)))
        return topology(self.scenario.node, uuids, awake)

    def links(self, topology: Topology) -> Topology:
        """Return the tree as it is: links above the cards do not change here."""
        return topology

    def reconfigured(self) -> bool:
        """Return False: boards stay as they are."""
        return False

    def errors(self) -> Mapping[str, int]:
        """Failed calls so far."""
        return dict(self._ledger.errors)

    def rejected(self) -> Mapping[str, int]:
        """Readings thrown away so far."""
        return dict(self._ledger.rejected)

    def driver_seconds(self) -> float:
        """Time inside simulated calls, by their published costs."""
        return self._ledger.seconds

    def driver_held_seconds(self) -> float:
        """The same: no call waits for anything here."""
        return self.driver_seconds()

    def processes(self, gpu_pids: frozenset[int], mono_s: float) -> ProcessTable:
        """Read processes (HostReader)."""
        self._begin(mono_s)
        self._latest_s = max(self._latest_s, mono_s - self._origin_s)
        return self._host.processes(gpu_pids, mono_s)

    def host(self, uuids_by_address: Mapping[str, str]) -> HostSample:
        """Read the host's counters (HostReader)."""
        return self._host.host(uuids_by_address)

    def truth(self, from_s: float, to_s: float) -> tuple[JobTruth, ...]:
        """Return what really happened between two seconds of the run, job by job."""
        with self._world.lock:
            self._world.advance(to_s)
            return job_truths(self._world, from_s, to_s)

    def _begin(self, mono_s: float) -> None:
        if math.isnan(self._origin_s):
            self._origin_s = mono_s

    def _now_s(self) -> float:
        if self._clock is not None:
            return max(self._clock.mono_s() - self._origin_s, 0.0)
        # The middle one: a card whose call hangs has its clock far ahead of the present.
        shown = sorted(clock.mono_s() - self._origin_s for clock in self._clocks)
        return max(self._latest_s, shown[(len(shown) - 1) // 2] if shown else 0.0)
