"""A job: processes and cards that belong together, who owns it, how it was launched."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum


class JobKind(str, Enum):
    """Where the job's name comes from. Values of `gpumon_job_info{kind}`."""

    CONTAINER = "container"
    POD = "pod"
    SLURM = "slurm"
    UNIT = "unit"
    SESSION = "session"
    VM = "vm"
    UNATTRIBUTED = "unattributed"


@dataclass(frozen=True, slots=True)
class Layout:
    """How the job was asked to run, as far as its command line, environment and config files say.

    "" and 0 mean unknown. `asked` strategy is what was asked for; what is seen is the verdict's.
    """

    framework: str = ""  # pytorch, vllm, sglang, llama.cpp, ...
    launcher: str = ""  # torchrun, accelerate, deepspeed, mpirun, srun, ray, python
    asked: str = ""  # ddp, fsdp, zero1, zero2, zero3, tp, pp, tp+pp, offload, dataparallel, device_map, single
    group: str = ""  # joins one job over nodes; "" for a job of one node
    world_size: int = 0
    ranks_here: int = 0
    data_parallel: int = 0
    tensor_parallel: int = 0
    pipeline_parallel: int = 0
    expert_parallel: int = 0
    zero_stage: int = -1
    offload: bool = False
    micro_batch: int = 0
    accumulation: int = 0
    loader_workers: int = -1
    backend: str = ""  # nccl, gloo, mpi
    visible_devices: str | None = None
    nccl: tuple[tuple[str, str], ...] = ()  # NCCL_* variables that matter, from the allow-list
    privileges: frozenset[str] = frozenset()  # what was readable: cmdline, environ, config


@dataclass(frozen=True, slots=True)
class JobCard:
    """One card, or slice, of a job."""

    uuid: str
    mig_uuid: str = ""
    used: bool = True  # has a process of the job; False: only given
    shared: bool = False  # other jobs have processes here too
    memory_bytes: float = math.nan  # of the job's processes
    sm_ratio: float = math.nan  # of the job's processes, where the driver tells


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Identity is gpu_job: facts that outlive gpumon, no text a tenant chose."""

    gpu_job: str  # [a-z0-9][a-z0-9_.:-]{0,63}
    kind: JobKind
    tenant: str  # from the config's closed list, or "unassigned"
    cards: tuple[JobCard, ...]
    processes: tuple[tuple[int, int], ...]  # (pid, start_ticks) of its GPU processes
    relatives: tuple[tuple[int, int], ...] = ()  # loaders, launchers: CPU work that counts as the job's
    cgroups: tuple[str, ...] = ()  # keys of ProcessTable.cgroups
    container: str = ""  # container id, shortened to 12
    pod: str = ""
    namespace: str = ""
    slurm_job_id: str = ""
    user: str = ""
    allocated: int = -1  # cards it was given; -1 unknown
    start_wall_s: float = math.nan
    first_seen_s: float = math.nan  # monotonic
    layout: Layout = field(default_factory=Layout)
    tenant_rule: str = ""  # which rule decided, for `gpumon tenants`
    workload: str = ""  # salted identity that survives a change of card count; "" unknown
    slice_hook: str = ""  # its container's NVML is falsified by a slicing library: "hami"
    stuck_since_s: float = math.nan  # monotonic; since when all its GPU processes are dead (Z) or unkillable (D)
