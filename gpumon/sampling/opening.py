"""Opening the driver interface and setting a session up: probing, topology, and whether window calls overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpumon.hardware.reader import NodeReader
from gpumon.model.card import Card
from gpumon.model.fault import Fault
from gpumon.model.settings import SamplingSettings
from gpumon.sampling.budget import Budget
from gpumon.sampling.roster import Roster
from gpumon.sampling.session import Driving, Session, window_cards

# Tried every second at first, so that a reloaded driver is back with the next tick; later more rarely. A try without
# a driver costs one failing dlopen.
_EAGER_TRIES = 10
_EAGER_PERIOD_S = 1.0
_PATIENT_PERIOD_S = 3.0


# What the log adds to a reason that a person can do something about.
HINTS = {
    Fault.UNKNOWN: "In a container this follows a systemctl daemon-reload on the host, which takes the device rules "
    "away: recreate the container.",
    Fault.NO_PERMISSION: "The device files /dev/nvidia* are closed to this user or control group.",
    Fault.VERSION_MISMATCH: "The driver's library was replaced under the loaded module: reload it, or reboot.",
}


class Retry:
    """When to try again. One success forgets all failures."""

    def __init__(self) -> None:
        self.due_s = float("-inf")
        self.failures = 0  # since the last success

    def failed(self, now_s: float) -> None:
        """Set the next try."""
        self.failures += 1
        self.due_s = now_s + (_EAGER_PERIOD_S if self.failures <= _EAGER_TRIES else _PATIENT_PERIOD_S)

    def succeeded(self) -> None:
        """Start over."""
        self.failures = 0
        self.due_s = float("-inf")


def open_session(
    node: NodeReader,
    roster: Roster,
    settings: SamplingSettings,
    driving: Driving,
    *,
    now_s: Callable[[], float],
    measure_overlap: Callable[[Sequence[Card]], bool],
) -> Session | Fault:
    """Open the driver interface and return a session with a poller for every card, or why there is none.

    Args:
        measure_overlap: says of at least two cards whether their window calls run side by side.
    """
    found = node.open()
    if isinstance(found, Fault):
        return found
    try:
        return _begin(node, tuple(found), roster, settings, driving, now_s=now_s, measure_overlap=measure_overlap)
    except BaseException:
        node.close()
        raise


def _begin(
    node: NodeReader,
    found: tuple[Card, ...],
    roster: Roster,
    settings: SamplingSettings,
    driving: Driving,
    *,
    now_s: Callable[[], float],
    measure_overlap: Callable[[Sequence[Card]], bool],
) -> Session:
    roster.update(found)
    watched = window_cards(roster.cards)
    session = Session(
        node=node,
        cards=roster.cards,
        asked=found,
        topology=node.topology(roster.cards),
        budget=Budget(settings, len(watched), len(watched) < 2 or measure_overlap(watched)),
        driving=driving,
        opened_s=now_s(),
    )
    for card in session.asked:
        session.start_card(card, session.opened_s)
    return session
