"""TensorRT-LLM's server and bench: parallel sizes as flags; its workers are MPI ranks."""

from __future__ import annotations

from gpumon.jobs.layout.command import Command, size
from gpumon.jobs.layout.parts import Said, parallel
from gpumon.model.job import Layout

_PROGRAMS = frozenset({"trtllm-serve", "trtllm-bench", "trtllm-eval"})


def read(command: Command) -> Said | None:
    """Return what a TensorRT-LLM command line says, None for another program."""
    if command.program not in _PROGRAMS and not command.module.startswith("tensorrt_llm.commands"):
        return None
    options = command.options
    tensor = size(options, "tp-size", "tensor-parallel-size", "tp") or 1
    pipeline = size(options, "pp-size", "pipeline-parallel-size", "pp") or 1
    return Said(
        Layout(
            framework="tensorrt-llm",
            launcher="trtllm",
            asked=parallel(tensor, pipeline) or "single",
            world_size=tensor * pipeline,
            tensor_parallel=tensor,
            pipeline_parallel=pipeline,
            expert_parallel=size(options, "ep-size", "expert-parallel-size", "ep"),
        )
    )
