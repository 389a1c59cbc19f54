"""The named scenarios: nodes and jobs as they stand on rental floors, each with the verdict it must give.

The verdict written beside a scenario is for people and for tests; the simulation does not see it, and a test checks
that it is what the event log says.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpumon.hardware.simulated.catalogue import consumer, datacentre, disturbed, shared_nodes
from gpumon.hardware.simulated.scenario import Scenario
from gpumon.model.errors import GpumonError


@dataclass(frozen=True, slots=True)
class NamedScenario:
    """A scenario, and the class and detail of its first job ("class" or "class/detail")."""

    scenario: Scenario
    verdict: str

    @property
    def about(self) -> str:
        """One line for people."""
        return self.scenario.about


SCENARIOS: dict[str, NamedScenario] = {
    scenario.name: NamedScenario(scenario, verdict)
    for scenario, verdict in (
        *consumer.SCENARIOS,
        *datacentre.SCENARIOS,
        *disturbed.SCENARIOS,
        *shared_nodes.SCENARIOS,
    )
}


def find_scenario(name: str) -> Scenario:
    """Return the scenario of that name.

    Raises: GpumonError if there is none.
    """
    if name not in SCENARIOS:
        raise GpumonError(f"no simulated scenario {name!r}; `gpumon scenarios` lists them")
    return SCENARIOS[name].scenario
