"""vLLM: its server's flags, and the titles its workers give themselves."""

from __future__ import annotations

from gpumon.jobs.layout.command import Command, is_on, size
from gpumon.jobs.layout.parts import Said, parallel
from gpumon.model.job import Layout

_MODULES = frozenset(
    {"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "vllm.entrypoints.cli.main", "vllm"}
)
TITLE = "VLLM::"  # VLLM::EngineCore, VLLM::Worker_TP0, VLLM::Worker_PP0_TP1


def read(command: Command) -> Said | None:
    """Return what a vLLM command line says, None for another program. A renamed worker says only that it is vLLM's."""
    if command.title.startswith(TITLE):
        return Said(Layout(framework="vllm"))
    if command.module not in _MODULES and not (command.program == "vllm" and command.arguments[:1] != ("bench",)):
        return None
    options = command.options
    tensor = size(options, "tensor-parallel-size", "tp") or 1
    pipeline = size(options, "pipeline-parallel-size", "pp") or 1
    data = size(options, "data-parallel-size", "dp") or 1
    offload = options.get("cpu-offload-gb", "0").strip("0.")
    return Said(
        Layout(
            framework="vllm",
            launcher="vllm",
            asked=parallel(tensor, pipeline) or ("single" if data == 1 else ""),
            world_size=tensor * pipeline * data,
            data_parallel=data,
            tensor_parallel=tensor,
            pipeline_parallel=pipeline,
            expert_parallel=tensor * data if is_on(options, "enable-expert-parallel") else 0,
            offload=bool(offload),
        )
    )
