"""The allow-list of environment variables. Nothing else of an environment is kept, even for a moment.

Environments hold tokens and passwords. These names say how a job was launched and how NCCL was set up; their values
are short and plain, and one that is not is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LONGEST = 131072  # bytes read of an environment; the launcher's variables come early

ALLOWED = frozenset(
    # torch.distributed and torchrun
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK NNODES MASTER_ADDR MASTER_PORT "
    # accelerate
    "ACCELERATE_USE_FSDP ACCELERATE_USE_DEEPSPEED ACCELERATE_DEEPSPEED_ZERO_STAGE "
    "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE "
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS FSDP_OFFLOAD_PARAMS "
    # MPI and Slurm
    "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE PMI_RANK PMI_SIZE MPI_LOCALNRANKS "
    "SLURM_PROCID SLURM_NODEID SLURM_NTASKS SLURM_STEP_NUM_TASKS SLURM_NTASKS_PER_NODE SLURM_NNODES "
    "SLURM_JOB_NUM_NODES SLURM_JOB_ACCOUNT "
    # which cards, how many threads
    "CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES OMP_NUM_THREADS "
    # NCCL, as far as it changes what is judged (docs/jobs.md)
    "NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_P2P_DIRECT_DISABLE NCCL_SHM_DISABLE NCCL_NET NCCL_IB_DISABLE "
    "NCCL_SOCKET_IFNAME NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD NCCL_ALGO NCCL_PROTO NCCL_BUFFSIZE NCCL_NTHREADS "
    "NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MAX_CTAS NCCL_NVLS_ENABLE NCCL_CUMEM_ENABLE "
    "NCCL_DEBUG NCCL_BLOCKING_WAIT NCCL_LAUNCH_MODE TORCH_NCCL_BLOCKING_WAIT TORCH_NCCL_ASYNC_ERROR_HANDLING "
    "CUDA_LAUNCH_BLOCKING".split()
)
_NAMES = frozenset(name.encode("ascii") for name in ALLOWED)
_PLAIN = re.compile(r"[\w .,:;/@+\-\[\]^=%*]{0,256}", re.ASCII)


def parse(raw: bytes) -> Mapping[str, str]:
    """Return the allowed variables of an environment as the kernel holds it: NAME=value, NUL between."""
    found: dict[str, str] = {}
    for entry in raw.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name in _NAMES:
            text = value.decode("utf-8", "replace")
            if _PLAIN.fullmatch(text):
                found.setdefault(name.decode("ascii"), text)
    return found
