"""Readers of simulated cards that the tests of the sensors share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpumon.hardware.reader import CardReader
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.scenario import Scenario
from gpumon.model.fault import Fault
from gpumon.sampling.clocks import CountingClock

Reading = tuple[SimulatedNode, CardReader, CountingClock]


@pytest.fixture
def reader() -> Callable[..., Reading]:
    """Return a function that opens a scenario and gives the node, a reader of one card, and its clock at 0 s."""

    def open_reader(scenario: str | Scenario, card: int = 0, seed: int = 0) -> Reading:
        node = SimulatedNode(scenario, seed)
        cards = node.open()
        assert not isinstance(cards, Fault)
        clock = CountingClock(0.0, 0.0)
        return node, node.card_reader(cards[card], clock), clock

    return open_reader
