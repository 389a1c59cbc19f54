"""The threads that read the cards of a session. One stuck in the driver is left behind, never doubled."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

import structlog

from gpumon.model.card import LinkSource
from gpumon.sampling.card_poller import CardPoller
from gpumon.sampling.clocks import RealClock
from gpumon.sampling.crew import Crew
from gpumon.sampling.session import Session

# A thread held up on a busy host leaves cards with a thread of their own, too: after this time they share again.
_REUNITE_AFTER_S = 60.0


class CardThreads:
    """The threads of one session and the clocks that stop them.

    Cards that are watched through blocking window calls have a thread each, so that the calls overlap; all others
    share one while their calls come back.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._crews: list[tuple[threading.Thread, Crew]] = []
        self._reunite_due_s = math.inf
        self._others: list[tuple[threading.Thread, Callable[[], None]]] = []

    def add(self, thread: threading.Thread, stop: Callable[[], None]) -> None:
        """Drain this thread, too, before the driver interface is closed."""
        self._others = [other for other in self._others if other[0].is_alive() or other[0].ident is None]
        self._others.append((thread, stop))

    def supervise(self, now_s: float) -> None:
        """See to it that every card is read by a thread: by one that does not hang, but for the card that hangs it."""
        for _, crew in tuple(self._crews):
            waiting = crew.set_aside(now_s)
            if waiting:
                structlog.get_logger().warning("a card's call hangs", gpu=crew.pollers[0].card.identity.index)
                self._start(waiting)
        self._crews = [held for held in self._crews if held[0].is_alive()]
        self._reunite(now_s)
        held = {poller for _, crew in self._crews for poller in crew.pollers}
        sharing = []
        for poller in self._session.pollers.values():
            if poller in held:
                continue
            if _has_own_thread(poller):
                self._start((poller,))
            else:
                sharing.append(poller)
        if sharing:
            self._start(sharing)

    def _reunite(self, now_s: float) -> None:
        """End threads that came of a call that hung and came back: their cards then share one again."""
        sharing = [crew for _, crew in self._crews if not _has_own_thread(crew.pollers[0]) and not crew.hangs(now_s)]
        if len(sharing) < 2:
            self._reunite_due_s = now_s + _REUNITE_AFTER_S
        elif now_s >= self._reunite_due_s:
            for crew in sharing:
                _clock(crew).stop()

    def drain(self, seconds: float) -> bool:
        """Ask every thread to end and wait so long at most. Return True when none is left inside a call."""
        for _, crew in self._crews:
            _clock(crew).stop()
        for _, stop in self._others:
            stop()
        until_s = time.monotonic() + seconds
        for thread in self._all():
            thread.join(max(until_s - time.monotonic(), 0.0))
        for _, crew in self._crews:
            crew.set_aside(math.inf)  # should the session go on, only the card that hangs is without a thread
        return not self.any_alive()

    def any_alive(self) -> bool:
        """Return True while a thread has not ended."""
        return any(thread.is_alive() for thread in self._all())

    def _all(self) -> list[threading.Thread]:
        return [held[0] for held in self._crews] + [other[0] for other in self._others]

    def _start(self, pollers: Sequence[CardPoller]) -> None:
        crew = self._session.crew(pollers, RealClock())
        which = f"card{pollers[0].card.identity.index}" if len(pollers) == 1 else "cards"
        thread = threading.Thread(target=poll, args=(crew, _clock(crew)), name=f"gpumon-{which}", daemon=True)
        self._crews.append((thread, crew))
        thread.start()


def _has_own_thread(poller: CardPoller) -> bool:
    return poller.card.capabilities.pcie_source is LinkSource.WINDOW


def _clock(crew: Crew) -> RealClock:
    assert isinstance(crew.clock, RealClock)
    return crew.clock


def poll(crew: Crew, clock: RealClock) -> None:
    """Read a crew's cards until its clock is stopped."""
    told = False
    while clock.wait_until(crew.due_s):
        try:
            crew.run()
        except Exception:  # noqa: BLE001 (edge of the thread: a bug in one read must not silence the cards)
            if not told:
                told = True
                cards = [poller.card.identity.index for poller in crew.pollers]
                structlog.get_logger().exception("a card's read failed", gpus=cards)
