"""What the commands that look once (`topo`, `doctor`) look at: this machine's driver, or a simulated node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpumon.hardware.nvidia.node import NvmlNode
from gpumon.hardware.reader import NodeReader
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.model.card import Card
from gpumon.model.clock import Clock
from gpumon.sampling.clocks import CountingClock, RealClock

# Simulated jobs load for some seconds first; sources are compared while they work.
_SIMULATED_START_S = 60.0


@dataclass(frozen=True, slots=True)
class Looking:
    """A node, and a maker of the clocks its card readers stamp with."""

    node: NodeReader
    clock: Callable[[Card], Clock]


def at_machine() -> Looking:
    """Return the driver of this machine, its trees where the environment says they are."""
    return Looking(NvmlNode(), lambda _card: RealClock())


def at_scenario(scenario: str) -> Looking:
    """Return a simulated node in simulated time. Raises GpumonError for a scenario that does not exist."""
    return Looking(SimulatedNode(scenario), lambda _card: CountingClock(_SIMULATED_START_S))
