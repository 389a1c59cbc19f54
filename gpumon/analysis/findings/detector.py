"""A detector: which row of the catalogue, which signals it cannot do without, and the question it asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpumon.analysis.findings.signals import Signal
from gpumon.analysis.findings.subject import NodeSubject, Subject

Kind = TypeVar("Kind", Subject, NodeSubject)

# A finding that holds stays until what it rests on has fallen this far below the threshold that raised it.
HELD_EDGE = 0.85


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: sentences with numbers, strongest first, and what the change would bring."""

    evidence: tuple[str, ...]
    gain: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Detector(Generic[Kind]):
    """One row.

    `ask(subject, edge)` returns what was found, or None. Thresholds of what varies in time are multiplied by `edge`:
    1 while the finding does not hold, HELD_EDGE while it does.
    """

    finding: str
    needs: tuple[Signal, ...]  # without each of these the finding does not exist
    ask: Callable[[Kind, float], Found | None]
    looks: int = 2  # in a row that must find it before it holds
    any_class: bool = False  # needs no verdict: it is about how the job was set up or what its cards are

    def there(self, subject: Subject) -> bool:
        """Return True where a job showed every signal the finding needs."""
        return all(signal.there(subject) for signal in self.needs)
