"""The named scenarios."""

from __future__ import annotations

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.fabric import HostSpec
from gpumon.hardware.simulated.scenario import JobPlan, NodePlan, Scenario, slots
from gpumon.hardware.simulated.training import Training
from gpumon.model.errors import GpumonError

RTX5090_HOST = HostSpec(staging_ratio=0.56)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "rtx5090-x8-ddp-bound",
        "8 x RTX 5090, DDP of a 1.2 B model with a small batch: gradients take longer than the arithmetic",
        NodePlan(slots("rtx5090", 8), RTX5090_HOST),
        (
            JobPlan(
                "llama-1b-ddp",
                Training(work.MODEL_1B, "ddp", micro_batch=1, sequence=1024, overlap=False),
                tuple(range(8)),
            ),
        ),
    ),
)


def find_scenario(name: str) -> Scenario:
    """Return the scenario of that name.

    Raises: GpumonError if there is none.
    """
    for scenario in SCENARIOS:
        if scenario.name == name:
            return scenario
    raise GpumonError(f"no simulated scenario {name!r}; `gpumon scenarios` lists them")
