"""The sampler: keeps a session with the driver open whenever it can, and closes a tick every second whatever happens.

Three kinds of thread. The supervisor opens, closes and reopens the driver interface; it may block in there for as long
as the driver likes. The cards have theirs (card_threads), and so have Xid events and the host. The caller's thread
closes ticks from what the others have left behind: it waits for the clock and for nobody else.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

import structlog

from gpumon.hardware.reader import HostReader, NodeReader
from gpumon.model.card import Card
from gpumon.model.fault import Fault
from gpumon.model.samples import Event, Tick
from gpumon.model.settings import SamplingSettings
from gpumon.model.topology import Topology
from gpumon.sampling.budget import windows_overlap
from gpumon.sampling.card_threads import CardThreads
from gpumon.sampling.clocks import RealClock
from gpumon.sampling.host_poller import HostPoller
from gpumon.sampling.opening import HINTS, Retry, open_session
from gpumon.sampling.roster import Roster
from gpumon.sampling.session import Driving, Session
from gpumon.sampling.tick_builder import TickBuilder

# A release and a stop promise no open device file within 2 s (CONTRACT); closing itself takes its part of that.
_DRAIN_S = 1.8
_XID_WAIT_S = 1.0  # shorter than the drain: the call cannot be interrupted
_XID_RETRY_S = 5.0
# While a call hangs, cards that share its thread are not read for so long and the 0.1 s until it is taken as stuck.
_SUPERVISE_PERIOD_S = 0.15
# A driver that went away while a call hung can only be asked again through the handles there are.
_RESUME_AFTER_LOSS_S = 60.0


class Sampler:
    """Ticks of this machine in real time. `start`, then `next_tick` again and again from one thread, then `stop`."""

    def __init__(self, node: NodeReader, host: HostReader, settings: SamplingSettings) -> None:
        self._node = node
        self._settings = settings
        self._epoch_s = time.monotonic()
        self._roster = Roster()
        self._host_clock = RealClock()
        self._host = HostPoller(host, self._host_clock, settings, self._epoch_s, self._gpu_pids)
        self._builder = TickBuilder(node, self._host, self._roster)
        self._tick_clock = RealClock()
        self._next_s = self._epoch_s
        self._facts = node.facts()
        self._topology = Topology()
        self._session: Session | None = None  # what ticks are made from; None while the driver is not ours
        self._fault: Fault | None = Fault.NO_DATA
        # Read and written by the supervisor alone.
        self._open: tuple[Session, CardThreads] | None = None  # not closed yet; may be draining
        self._retry = Retry()
        self._back = ""  # the event to tell when the driver is opened next
        self._resume_s = math.inf  # when to go on without a card whose call kept the driver from being closed
        self._test_threads: tuple[threading.Thread, ...] = ()  # hung in the test at the start of a session
        # Asked for by others.
        self._released_until_s = -math.inf
        self._stopping = False
        self._cut_anew = False  # a board is not what it was probed as: the driver is to be opened anew
        self._nudge = threading.Event()
        self._closed = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="gpumon-supervisor", daemon=True)
        self._log = structlog.get_logger()

    def start(self) -> None:
        """Begin sampling. Returns at once, with or without a driver."""
        self._epoch_s = self._next_s = time.monotonic()
        self._supervisor.start()
        threading.Thread(target=self._read_host, name="gpumon-host", daemon=True).start()

    def next_tick(self) -> Tick | None:
        """Wait for the end of the present second and return its tick; None once `wake` or `stop` was called.

        Deadlines lie whole seconds after the start on the monotonic clock. Those that the caller was too late for are
        left out and counted; the next tick then covers the longer time.
        """
        now_s = time.monotonic()
        self._next_s += 1.0
        if self._next_s <= now_s - 1.0:
            late = int(now_s - self._next_s)
            self._builder.missed_ticks += late
            self._next_s += late
        if not self._tick_clock.wait_until(self._next_s):
            return None
        session, fault = self._session, self._fault
        return self._builder.build(
            session,
            fault,
            node=(self._facts, self._topology),
            until_s=self._next_s,
            now_s=time.monotonic(),
            wall_s=time.time(),
            cpu_seconds=time.process_time(),
        )

    def wake(self) -> None:
        """Make the present and all further `next_tick` return None. Safe in a signal handler."""
        self._tick_clock.stop()

    def release(self, seconds: float) -> bool:
        """Let go of the driver for so long, then take it again by itself. Waits up to 2 s.

        Returns: True when every poller was drained and the interface is closed: no device file is open. False when a
            call hangs: closing on top of it could crash the process, so the interface stays open.
        """
        self._closed.clear()
        self._released_until_s = time.monotonic() + seconds
        self._nudge.set()
        return self._closed.wait(_DRAIN_S + 0.2)

    def configure(self, settings: SamplingSettings) -> None:
        """Take changed settings, all of them at once."""
        self._settings = settings
        if (session := self._session) is not None:
            session.budget.settings = settings
        self._host.process_interval_s = settings.process_interval_s
        self._nudge.set()

    def refresh_links(self) -> None:
        """Read the links above the cards' own again. For a timer; blocks on sysfs."""
        before = self._topology
        after = self._node.links(before)
        if after is not before and self._topology is before:
            self._topology = after

    def refresh_topology(self) -> None:
        """Read the PCI tree, gpumon's standing and the cut of MIG boards again. For a slow timer; blocks on sysfs."""
        if self._session is not None and self._node.reconfigured():
            self._cut_anew = True
            self._nudge.set()
            return
        topology, facts = self._node.topology(self._roster.cards), self._node.facts()
        if topology != self._topology:
            self._topology = topology
        if facts != self._facts:
            self._facts = facts

    @property
    def failed_tries(self) -> int:
        """How many tries to open the driver have failed since one succeeded."""
        return self._retry.failures

    def stop(self) -> None:
        """Drain every thread and close the driver, within 2 s. A call that hangs is left behind and not closed upon."""
        self._stopping = True
        self._tick_clock.stop()
        self._host_clock.stop()
        self._nudge.set()
        if self._supervisor.is_alive():
            self._supervisor.join(_DRAIN_S + 0.2)

    def _gpu_pids(self) -> frozenset[int]:
        session = self._session
        return session.gpu_pids() if session is not None else frozenset()

    def _read_host(self) -> None:
        told = False
        while self._host_clock.wait_until(self._host.due_s):
            try:
                self._host.run()
            except Exception:  # noqa: BLE001 (edge of the thread: the cards are read on without the host)
                if not told:
                    told = True
                    self._log.exception("reading the host failed")

    # The supervisor's thread

    def _supervise(self) -> None:
        self._topology = self._node.topology(())
        while not self._stopping:
            try:
                self._step(time.monotonic())
            except Exception:  # noqa: BLE001 (edge of the thread: without it nothing reopens the driver)
                self._log.exception("opening or closing the driver failed")
                self._retry.failed(time.monotonic())
            self._nudge.wait(_SUPERVISE_PERIOD_S)
            self._nudge.clear()
        if self._open is not None:
            self._let_go(self._open)

    def _step(self, now_s: float) -> None:
        """Open, watch, let go or take up again, whichever is due."""
        released = self._is_released(now_s)
        if self._open is None:
            if released:
                self._fault = Fault.RELEASED
                self._closed.set()
            elif now_s >= self._retry.due_s:
                self._try_open()
            return
        session, threads = self._open
        if self._session is None:
            # Let go of before, but a call hung. Closed when it came back; taken up again without its card otherwise.
            if not threads.any_alive():
                self._close()
            elif now_s >= self._resume_s and not released:
                self._run(session, threads)
            return
        if released:
            self._fault = Fault.RELEASED
            self._back = "reinit"
            self._resume_s = self._released_until_s
            self._let_go(self._open)
            return
        if self._cut_anew:
            self._cut_anew = False
            self._back = "reinit"
            self._resume_s = now_s
            self._let_go(self._open)
            return
        gone = session.gone(now_s)
        if gone is not None:
            self._fault = gone
            self._back = "driver_back"
            self._builder.events.append(Event(now_s, "driver_gone"))
            self._log.warning("driver gone", reason=gone.value)
            self._retry.failed(now_s)
            self._resume_s = now_s + _RESUME_AFTER_LOSS_S
            self._let_go(self._open)
            return
        threads.supervise(now_s)

    def _is_released(self, now_s: float) -> bool:
        return now_s < self._released_until_s or not self._settings.driver

    def _try_open(self) -> None:
        session = open_session(
            self._node,
            self._roster,
            self._settings,
            Driving(RealClock, time.thread_time, self._epoch_s),
            now_s=time.monotonic,
            measure_overlap=self._measure_overlap,
        )
        if isinstance(session, Fault):
            if session is not self._fault:
                self._log.warning("no driver", reason=session.value, hint=HINTS.get(session))
            self._fault = session
            self._back = "driver_back"
            self._retry.failed(time.monotonic())
            return
        threads = CardThreads(session)
        for thread in self._test_threads:
            threads.add(thread, lambda: None)
        self._open = (session, threads)
        if self._back:
            self._builder.events.append(Event(session.opened_s, self._back))
            self._back = ""
        self._facts, self._topology = self._node.facts(), session.topology
        self._host.uuids_by_address = {card.identity.pci_address: card.identity.uuid for card in session.cards}
        self._retry.succeeded()
        self._run(session, threads)
        self._log.info("driver opened", gpus=len(session.asked), windows_overlap=session.budget.windows_overlap)

    def _run(self, session: Session, threads: CardThreads) -> None:
        """Start what is not running and make ticks from the session."""
        threads.supervise(time.monotonic())
        clock = RealClock()
        xids = threading.Thread(target=self._read_xids, args=(clock,), name="gpumon-xid", daemon=True)
        threads.add(xids, clock.stop)
        xids.start()
        self._session, self._fault = session, None

    def _measure_overlap(self, cards: Sequence[Card]) -> bool:
        clock = RealClock()
        overlap, self._test_threads = windows_overlap([self._node.card_reader(card, clock) for card in cards[:2]])
        return overlap

    def _let_go(self, held: tuple[Session, CardThreads]) -> None:
        """Withdraw the session from the ticks, drain its threads, and close the driver unless a call hangs."""
        self._session = None
        if held[1].drain(_DRAIN_S):
            self._close()
        else:
            self._log.error("a driver call hangs: the driver stays open")

    def _close(self) -> None:
        assert self._open is not None
        self._node.close()
        self._builder.session_over(self._open[0])
        self._open = None
        if self._is_released(time.monotonic()):
            self._closed.set()

    def _read_xids(self, clock: RealClock) -> None:
        while not clock.stopped:
            events = self._node.xid_events(_XID_WAIT_S)
            if events is Fault.NOT_SUPPORTED:
                return
            if isinstance(events, Fault):
                clock.wait_until(time.monotonic() + _XID_RETRY_S)
            else:
                self._builder.add_xids(events)
