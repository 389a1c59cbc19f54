"""Megatron-LM and programs built on its arguments: the sizes of every kind of parallelism are flags."""

from __future__ import annotations

from gpumon.jobs.layout.command import Command, is_on, number, size
from gpumon.jobs.layout.parts import Said, parallel
from gpumon.model.job import Layout

# Any of these options is Megatron's and nobody else's.
_MARKS = (
    "tensor-model-parallel-size",
    "pipeline-model-parallel-size",
    "expert-model-parallel-size",
    "use-distributed-optimizer",
)
_PROGRAMS = frozenset({"pretrain_gpt.py", "pretrain_bert.py", "pretrain_t5.py", "pretrain_mamba.py", "pretrain_vlm.py"})


def read(command: Command) -> Said | None:
    """Return what Megatron's arguments say, None where there are none."""
    options = command.options
    if command.program not in _PROGRAMS and not any(mark in options for mark in _MARKS):
        return None
    tensor = size(options, "tensor-model-parallel-size") or 1
    pipeline = size(options, "pipeline-model-parallel-size") or 1
    backend = options.get("distributed-backend", "").lower()
    asked = parallel(tensor, pipeline)
    if is_on(options, "use-torch-fsdp2") or is_on(options, "use-megatron-fsdp"):
        asked = asked or "fsdp"
    elif is_on(options, "use-distributed-optimizer"):
        asked = asked or "zero1"
    return Said(
        Layout(
            framework="megatron",
            asked=asked or "ddp",
            tensor_parallel=tensor,
            pipeline_parallel=pipeline,
            expert_parallel=size(options, "expert-model-parallel-size"),
            offload=is_on(options, "optimizer-cpu-offload") or is_on(options, "cpu-offloading"),
            micro_batch=size(options, "micro-batch-size"),
            loader_workers=number(options.get("num-workers")),
            backend=backend if backend in ("nccl", "gloo", "mpi") else "",
        )
    )
