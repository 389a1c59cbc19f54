"""What the NVML tests share: clocks that a test moves, and a node opened with its readers."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.nvidia.card import NvmlCardReader
from gpumon.hardware.reader import SlowSample
from gpumon.model.card import Card
from gpumon.model.fault import Fault


class HandClock:
    """A clock that the test moves; it starts at the machine's times."""

    def __init__(self, wall_s: float | None = None) -> None:
        self.mono = time.monotonic()
        # Whole milliseconds: stamps in microseconds then come out the same whichever way they are reckoned.
        self.wall = round(time.time(), 3) if wall_s is None else wall_s

    def mono_s(self) -> float:
        """Return monotonic seconds."""
        return self.mono

    def wall_s(self) -> float:
        """Return Unix seconds."""
        return self.wall

    def wait_until(self, mono_s: float) -> bool:
        """Move both times."""
        self.advance(max(0.0, mono_s - self.mono))
        return True

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.mono += seconds
        self.wall += seconds


class MachineClock:
    """The machine's clock, with a wall clock that can be stepped."""

    def __init__(self) -> None:
        self.wall_shift = 0.0

    def mono_s(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Return Unix seconds."""
        return time.time() + self.wall_shift

    def wait_until(self, mono_s: float) -> bool:
        """Sleep."""
        time.sleep(max(0.0, mono_s - time.monotonic()))
        return True


def opened(node: NvmlNode) -> Sequence[Card]:
    """Open a node and return its cards."""
    cards = node.open()
    assert not isinstance(cards, Fault), cards
    return cards


def readers(node: NvmlNode, clock: HandClock | MachineClock | None = None) -> list[NvmlCardReader]:
    """Open a node and return a reader for each card."""
    return [node.card_reader(card, clock or MachineClock()) for card in opened(node)]


def quick(reader: NvmlCardReader) -> SlowSample:
    """Return a quick sample that must be had."""
    sample = reader.quick()
    assert not isinstance(sample, Fault), sample
    return sample


def rare(reader: NvmlCardReader) -> SlowSample:
    """Return a rare sample that must be had."""
    sample = reader.rare()
    assert not isinstance(sample, Fault), sample
    return sample
