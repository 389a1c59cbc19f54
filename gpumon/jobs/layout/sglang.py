"""SGLang: its server's flags, and the titles its schedulers give themselves."""

from __future__ import annotations

from gpumon.jobs.layout.command import Command, host_port, number, size
from gpumon.jobs.layout.parts import Rendezvous, Said, parallel
from gpumon.model.job import Layout

_MODULES = frozenset({"sglang.launch_server", "sglang"})
TITLE = "sglang::"  # sglang::scheduler_TP0, sglang::detokenizer


def read(command: Command) -> Said | None:
    """Return what an SGLang command line says, None for another program."""
    if command.title.startswith(TITLE):
        return Said(Layout(framework="sglang"))
    if command.module not in _MODULES and command.program != "sglang":
        return None
    options = command.options
    tensor = size(options, "tensor-parallel-size", "tp-size", "tp") or 1
    pipeline = size(options, "pipeline-parallel-size", "pp-size", "pp") or 1
    data = size(options, "data-parallel-size", "dp-size", "dp") or 1
    # With data-parallel attention the replicas lie within the tensor group and need no cards of their own.
    replicas = 1 if "enable-dp-attention" in options else data
    nodes = size(options, "nnodes") or 1
    address, port = host_port(options.get("dist-init-addr", options.get("nccl-init-addr", "")))
    world_size = tensor * pipeline * replicas
    return Said(
        Layout(
            framework="sglang",
            launcher="sglang",
            asked=parallel(tensor, pipeline) or ("single" if data == 1 else ""),
            world_size=world_size,
            ranks_here=world_size // nodes,
            data_parallel=data,
            tensor_parallel=tensor,
            pipeline_parallel=pipeline,
            expert_parallel=size(options, "expert-parallel-size", "ep-size", "ep"),
            offload=bool(options.get("cpu-offload-gb", "0").strip("0.")),
        ),
        Rendezvous(address, port, nodes, world_size, number(options.get("node-rank"))),
    )
