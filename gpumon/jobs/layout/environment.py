"""What the allow-listed environment of a rank says. The rank was given it by its launcher, or set it by hand."""

from __future__ import annotations

from collections.abc import Mapping

from gpumon.jobs.layout.command import number
from gpumon.jobs.layout.parts import Rendezvous, Said
from gpumon.model.job import Layout

_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE")
_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_NODES = ("GROUP_WORLD_SIZE", "NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
_NODE_RANKS = ("GROUP_RANK", "NODE_RANK", "SLURM_NODEID")
VISIBLE = "CUDA_VISIBLE_DEVICES"
_LONGEST = 256


def read(environ: Mapping[str, str], *, starts_ranks: bool = False) -> Said:
    """Return what a process's allow-listed variables say.

    Args:
        starts_ranks: of a launcher, whose own sizes and ranks are another launcher's: a Kubernetes operator, for one,
            gives torchrun a WORLD_SIZE that counts pods.
    """
    if starts_ranks:
        return Said(Layout(nccl=_nccl(environ), visible_devices=_visible(environ)))
    world_size = _size(environ, _SIZES)
    if not world_size and "SLURM_PROCID" in environ:
        world_size = _size(environ, ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"))
    stage = number(environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE"))
    return Said(
        Layout(
            asked=_asked(environ, stage),
            world_size=world_size,
            ranks_here=_size(environ, _LOCAL_SIZES),
            zero_stage=stage,
            accumulation=max(0, number(environ.get("ACCELERATE_GRADIENT_ACCUMULATION_STEPS"))),
            offload=_offload(environ),
            visible_devices=_visible(environ),
            nccl=_nccl(environ),
        ),
        Rendezvous(
            address=environ.get("MASTER_ADDR", "")[:_LONGEST],
            port=max(0, number(environ.get("MASTER_PORT"))),
            nodes=_size(environ, _NODES),
            world_size=world_size,
            node_rank=_rank(environ, _NODE_RANKS),
            rank=_rank(environ, _RANKS),
        ),
    )


def _nccl(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    wanted = (name for name in sorted(environ) if name.startswith(("NCCL_", "TORCH_NCCL_")))
    return tuple((name, environ[name][:_LONGEST]) for name in wanted)


def _visible(environ: Mapping[str, str]) -> str | None:
    return environ[VISIBLE][:_LONGEST] if VISIBLE in environ else None


def _size(environ: Mapping[str, str], names: tuple[str, ...]) -> int:
    return next((value for name in names if (value := number(environ.get(name))) > 0), 0)


def _rank(environ: Mapping[str, str], names: tuple[str, ...]) -> int:
    return next((value for name in names if (value := number(environ.get(name))) >= 0), -1)


def _true(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").lower() in ("true", "1", "yes")


def _asked(environ: Mapping[str, str], stage: int) -> str:
    if _true(environ, "ACCELERATE_USE_FSDP"):
        return "fsdp"
    if _true(environ, "ACCELERATE_USE_DEEPSPEED"):
        return f"zero{stage}" if stage > 0 else ""
    return ""


def _offload(environ: Mapping[str, str]) -> bool:
    devices = ("ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE")
    return _true(environ, "FSDP_OFFLOAD_PARAMS") or any(
        environ.get(name, "none").lower() not in ("none", "") for name in devices
    )
