"""The cards that were ever seen: a lost one keeps its place, its identity and its labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpumon.model.card import Card
from gpumon.model.fault import Fault
from gpumon.model.samples import CardTick, Event

_GONE = frozenset({Fault.LOST, Fault.RESET_REQUIRED})


class Roster:
    """Known cards in the order of first sight, and which of them are lost."""

    def __init__(self) -> None:
        self.cards: tuple[Card, ...] = ()
        self._lost: frozenset[str] = frozenset()

    def update(self, found: Sequence[Card]) -> None:
        """Take what a fresh initialisation found. Cards it no longer names are lost, not forgotten."""
        by_uuid = {card.identity.uuid: card for card in found}
        known = {card.identity.uuid for card in self.cards}
        kept = [by_uuid.get(card.identity.uuid, replace(card, fault=Fault.LOST)) for card in self.cards]
        self.cards = (*kept, *(card for card in found if card.identity.uuid not in known))

    def events(self, ticks: Sequence[CardTick], mono_s: float) -> tuple[Event, ...]:
        """Return which cards were lost or came back with this tick."""
        lost = frozenset(
            tick.uuid for tick in ticks if tick.fault in _GONE or (not tick.up and tick.uuid in self._lost)
        )
        if lost == self._lost:
            return ()
        changed = [Event(mono_s, "lost", uuid) for uuid in sorted(lost - self._lost)]
        changed += [Event(mono_s, "returned", uuid) for uuid in sorted(self._lost - lost)]
        self._lost = lost
        return tuple(changed)
