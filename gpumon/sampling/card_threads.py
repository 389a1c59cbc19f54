"""One daemon thread for each card of a session. A thread stuck in the driver is left behind, never doubled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from gpumon.model.card import Card
from gpumon.model.clock import Clock
from gpumon.sampling.card_poller import CardPoller
from gpumon.sampling.clocks import RealClock
from gpumon.sampling.session import Session


class CardThreads:
    """The threads of one session and the clocks that stop them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._threads: dict[str, tuple[threading.Thread, RealClock]] = {}
        self._others: list[tuple[threading.Thread, Callable[[], None]]] = []

    def add(self, thread: threading.Thread, stop: Callable[[], None]) -> None:
        """Drain this thread, too, before the driver interface is closed."""
        self._others = [other for other in self._others if other[0].is_alive() or other[0].ident is None]
        self._others.append((thread, stop))

    def start_missing(self) -> None:
        """Start a thread for each card that has none. One that hangs counts: its card gets no second one."""
        for card in self._session.asked:
            held = self._threads.get(card.identity.uuid)
            if held is None or not held[0].is_alive():
                self._start(card, again=held is not None)

    def drain(self, seconds: float) -> bool:
        """Ask every thread to end and wait so long at most. Return True when none is left inside a call."""
        for _, clock in self._threads.values():
            clock.stop()
        for _, stop in self._others:
            stop()
        until_s = time.monotonic() + seconds
        for thread in self._all():
            thread.join(max(until_s - time.monotonic(), 0.0))
        return not self.any_alive()

    def any_alive(self) -> bool:
        """Return True while a thread has not ended."""
        return any(thread.is_alive() for thread in self._all())

    def _all(self) -> list[threading.Thread]:
        return [held[0] for held in self._threads.values()] + [other[0] for other in self._others]

    def _start(self, card: Card, again: bool) -> None:
        uuid = card.identity.uuid
        if again:
            self._session.start_card(card, time.monotonic())
        poller, clock = self._session.pollers[uuid], self._session.clocks[uuid]
        assert isinstance(clock, RealClock)
        thread = threading.Thread(
            target=poll, args=(poller, clock), name=f"gpumon-card{card.identity.index}", daemon=True
        )
        self._threads[uuid] = (thread, clock)
        thread.start()


def poll(poller: CardPoller, clock: Clock) -> None:
    """Run one card's schedule until its clock is stopped."""
    told = False
    while clock.wait_until(poller.due_s):
        try:
            poller.run()
        except Exception:  # noqa: BLE001 (edge of the thread: a bug in one read must not silence the card)
            if not told:
                told = True
                structlog.get_logger().exception("a card's read failed", gpu=poller.card.identity.index)
