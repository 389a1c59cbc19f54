"""`accelerate launch`: starts torchrun's agent, DeepSpeed or a plain process, as its flags or its config file say."""

from __future__ import annotations

from gpumon.jobs.layout.command import Command, is_on, number, of_program, size, split
from gpumon.jobs.layout.parts import Rendezvous, Said, parallel
from gpumon.model.job import Layout

_MODULES = frozenset({"accelerate.commands.launch", "accelerate.commands.accelerate_cli"})
_FLAGS = frozenset(
    "multi-gpu use-fsdp use-deepspeed use-megatron-lm use-parallelism-config cpu mps tpu use-xpu same-network m module "
    "no-python debug quiet q dynamo-use-fullgraph dynamo-use-dynamic no-tpu-cluster tpu-use-cluster "
    "fp8-use-autocast-during-eval ipex tpu-use-sudo".split()
)
SHARDING = {
    "1": "fsdp",
    "2": "fsdp",
    "4": "fsdp",
    "5": "fsdp",
    "FULL_SHARD": "fsdp",
    "SHARD_GRAD_OP": "fsdp",
    "HYBRID_SHARD": "fsdp",
    "HYBRID_SHARD_ZERO2": "fsdp",
    "3": "ddp",
    "NO_SHARD": "ddp",
}


def read(command: Command) -> Said | None:
    """Return what an `accelerate launch` command line says, None for another program."""
    arguments = command.arguments
    if command.program == "accelerate" and arguments[:1] == ("launch",):
        arguments = arguments[1:]
    elif command.program == "accelerate-launch":
        pass
    elif command.module in _MODULES:
        arguments = arguments[1:] if arguments[:1] == ("launch",) else arguments
    else:
        return None
    own, rest = split(arguments, _FLAGS)
    world_size, nodes = size(own, "num-processes"), size(own, "num-machines")
    here = world_size // (nodes or 1)
    stage = number(own.get("zero-stage"))
    tensor, pipeline = size(own, "megatron-lm-tp-degree"), size(own, "megatron-lm-pp-degree")
    offloads = [own.get(name, "none").lower() for name in ("offload-optimizer-device", "offload-param-device")]
    return Said(
        Layout(
            launcher="accelerate",
            asked=_asked(own, stage, parallel(tensor, pipeline)),
            world_size=world_size,
            ranks_here=here,
            tensor_parallel=tensor,
            pipeline_parallel=pipeline,
            zero_stage=stage,
            offload=any(device not in ("none", "") for device in offloads)
            or own.get("fsdp-offload-params", "").lower() == "true",
            accumulation=size(own, "gradient-accumulation-steps"),
        ),
        Rendezvous(
            address=own.get("main-process-ip") or ("127.0.0.1" if nodes <= 1 else ""),
            port=size(own, "main-process-port"),
            nodes=nodes,
            world_size=world_size,
            node_rank=number(own.get("machine-rank")),
        ),
        of_program(rest, module="m" in own or "module" in own),
    )


def _asked(own: dict[str, str], stage: int, model_parallel: str) -> str:
    if is_on(own, "use-fsdp"):
        return SHARDING.get(own.get("fsdp-sharding-strategy", "FULL_SHARD").upper(), "fsdp")
    if is_on(own, "use-deepspeed"):
        return f"zero{stage}" if stage > 0 else ""
    if is_on(own, "use-megatron-lm"):
        return model_parallel
    return "ddp" if is_on(own, "multi-gpu") else ""
