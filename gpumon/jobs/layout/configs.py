"""What the configuration files named on a command line say: DeepSpeed's JSON, accelerate's, axolotl's and others' YAML.

The reader has already reduced them to a closed list of keys (`hardware.procfs.configs`): dotted names, plain values.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpumon.jobs.layout.accelerate import SHARDING
from gpumon.jobs.layout.command import number
from gpumon.jobs.layout.hf_trainer import BACKENDS
from gpumon.jobs.layout.parts import Said, parallel
from gpumon.model.job import Layout


def read(values: Mapping[str, str]) -> Said:
    """Return what the values of a process's configuration files say."""
    stage = _first(values, "zero_optimization.stage", "deepspeed_config.zero_stage")
    tensor = _size(
        values, "tensor_parallel_size", "tensor_model_parallel_size", "megatron_lm_config.megatron_lm_tp_degree"
    )
    pipeline = _size(
        values, "pipeline_parallel_size", "pipeline_model_parallel_size", "megatron_lm_config.megatron_lm_pp_degree"
    )
    backend = values.get("ddp_backend", "").lower()
    return Said(
        Layout(
            asked=_asked(values, stage) or parallel(tensor, pipeline),
            world_size=_size(values, "num_processes"),
            tensor_parallel=tensor,
            pipeline_parallel=pipeline,
            zero_stage=stage,
            offload=_offload(values),
            micro_batch=_size(
                values, "train_micro_batch_size_per_gpu", "micro_batch_size", "per_device_train_batch_size"
            ),
            accumulation=_size(values, "gradient_accumulation_steps", "deepspeed_config.gradient_accumulation_steps"),
            loader_workers=_first(values, "dataloader_num_workers", "num_workers"),
            backend=backend if backend in BACKENDS else "",
        )
    )


def _first(values: Mapping[str, str], *names: str) -> int:
    return next((value for name in names if (value := number(values.get(name))) >= 0), -1)


def _size(values: Mapping[str, str], *names: str) -> int:
    return max(0, _first(values, *names))


def _asked(values: Mapping[str, str], stage: int) -> str:
    if stage > 0:
        return f"zero{stage}"
    kind = values.get("distributed_type", "").upper()
    fsdp = values.get("fsdp", "")
    if kind == "FSDP" or "shard" in fsdp or any(name.startswith("fsdp_config.") for name in values):
        strategy = values.get("fsdp_config.fsdp_sharding_strategy", "FULL_SHARD").upper()
        return SHARDING.get(strategy, "fsdp")
    return "ddp" if kind == "MULTI_GPU" else ""


def _offload(values: Mapping[str, str]) -> bool:
    devices = (
        "zero_optimization.offload_optimizer.device",
        "zero_optimization.offload_param.device",
        "deepspeed_config.offload_optimizer_device",
        "deepspeed_config.offload_param_device",
    )
    flags = ("fsdp_config.fsdp_offload_params", "fsdp_config.offload_params", "zero_optimization.cpu_offload")
    return (
        any(values.get(name, "none").lower() in ("cpu", "nvme") for name in devices)
        or any(values.get(name, "").lower() == "true" for name in flags)
        or "offload" in values.get("fsdp", "")
    )
