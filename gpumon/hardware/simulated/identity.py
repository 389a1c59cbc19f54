"""How a simulated job looks to the operating system: processes, command lines, control groups, containers.

Command lines are those a user of the framework would type; nothing in them is made for the reader's sake.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpumon.hardware.simulated.cards import CardSpec
from gpumon.hardware.simulated.footprint import CONTEXT_BYTES, memory_bytes
from gpumon.hardware.simulated.job import Job
from gpumon.hardware.simulated.scenario import Burn, JobPlan, Standing
from gpumon.hardware.simulated.serving import Serving
from gpumon.hardware.simulated.training import Training
from gpumon.hardware.simulated.world import ONE_PROCESS, World
from gpumon.model.process import Container

BOOT_BEFORE_S = 3 * 86400.0  # the host was up this long when the run began
CLOCK_TICKS = 100
_PIDS_OF_A_JOB = 1000
_FIRST_PID = 20000


@dataclass(frozen=True, slots=True)
class OnCard:
    """One line of a card's process list."""

    pid: int
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a job. `role` says what it does: shell, launcher, rank, loader."""

    pid: int
    ppid: int
    role: str
    rank: int
    comm: str
    cmdline: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    threads: int = 1


class JobProcesses:
    """The processes of one planned job."""

    def __init__(self, number: int, plan: JobPlan, job: Job, cards: tuple[CardSpec, ...]) -> None:
        self.plan = plan
        self.job = job
        self.first_pid = _FIRST_PID + number * _PIDS_OF_A_JOB
        self.session = self.first_pid
        self.cards = cards
        self.given = plan.given_cards or plan.cards
        self.members = tuple(self._members())
        self.has_contexts = not (isinstance(plan.workload, Standing) and not plan.workload.contexts)
        self.container_id = hashlib.sha256(f"{plan.name}/{number}".encode()).hexdigest()

    def alive(self, now_s: float) -> bool:
        """Return True while the job's processes exist."""
        return self.plan.start_s <= now_s < self.job.end_s

    def start_ticks(self, member: Member) -> int:
        """Return the start time of a process in clock ticks since boot."""
        # A job that was there before the run began was started minutes earlier, each process a little after its parent.
        begun = self.plan.start_s if self.plan.start_s > 0 else -1800.0
        return int((BOOT_BEFORE_S + begun + 0.02 * (member.pid - self.first_pid)) * CLOCK_TICKS)

    def on_card(self, card: int, now_s: float) -> Iterator[OnCard]:
        """Yield this job's lines of a card's process list."""
        if not (self.alive(now_s) and self.has_contexts and card in self.plan.cards):
            return
        at = self.plan.cards.index(card)
        held = memory_bytes(self.plan, at, self.cards[at]) + CONTEXT_BYTES
        yield OnCard(self.pid_of_rank(at), held)

    def pid_of_rank(self, rank: int) -> int:
        """Return the pid of the process that drives a rank's card."""
        ranks = [member for member in self.members if member.role == "rank"]
        return ranks[min(rank, len(ranks) - 1)].pid  # one process may drive several cards

    @property
    def cgroup(self) -> str:
        """Text of /proc/PID/cgroup (version 2)."""
        identity = self.plan.identity
        scopes = {
            "container": f"/system.slice/docker-{self.container_id}.scope",
            "pod": "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
            f"{self._uuid('_')}.slice/cri-containerd-{self.container_id}.scope",
            "slurm": f"/system.slice/slurmstepd.scope/job_{self._slurm_id}/step_0/user/task_0",
            "unit": f"/system.slice/{identity.name or self.plan.name}.service",
            "session": f"/user.slice/user-{identity.user_id}.slice/session-{self.first_pid % 97}.scope",
        }
        return f"0::{scopes[identity.kind]}\n"

    @property
    def container(self) -> Container | None:
        """What the container runtime tells; None for jobs outside containers."""
        identity = self.plan.identity
        if identity.kind not in ("container", "pod"):
            return None
        return Container(
            self.container_id,
            identity.name or self.plan.name,
            "docker" if identity.kind == "container" else "containerd",
            "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
            dict(identity.labels),
            frozenset(self.given),
        )

    @property
    def _slurm_id(self) -> str:
        return self.plan.identity.name or str(480000 + self.first_pid)

    def _uuid(self, dash: str) -> str:
        digest = hashlib.sha256(self.plan.name.encode()).hexdigest()
        return dash.join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))

    def _members(self) -> Iterator[Member]:
        plan = self.plan
        workload = plan.workload
        count = len(plan.cards)
        pid = self.first_pid
        yield Member(pid, 1, "shell", -1, "bash", ("bash", "run.sh"))
        if isinstance(workload, Training) and workload.strategy not in (*ONE_PROCESS, "single"):
            yield from self._launched_training(workload, pid, count)
        elif isinstance(workload, Training):
            command = ("python", "train.py", *_training_flags(workload))
            yield Member(pid + 1, pid, "rank", 0, "python", command, self._visible(), threads=24)
            yield from self._loaders(workload, pid + 1, pid + 100, 1)
        elif isinstance(workload, Serving):
            yield from self._server(workload, pid, count)
        else:
            yield from self._unlaunched(pid, count)

    def _unlaunched(self, pid: int, count: int) -> Iterator[Member]:
        """A burn-in forks a process for each card; a notebook is one process on all of them."""
        if isinstance(self.plan.workload, Burn):
            command: tuple[str, ...] = ("./gpu_burn", "-d", "360000")
            for at in range(count):
                yield Member(pid + 1 + at, pid, "rank", at, "gpu_burn", command, self._visible())
        elif isinstance(self.plan.workload, Standing) and self.plan.workload.contexts:
            command = ("python", "-m", "ipykernel_launcher", "-f", "/root/.local/share/jupyter/runtime/kernel-1.json")
            yield Member(pid + 1, pid, "rank", 0, "python", command, self._visible(), threads=12)

    def _launched_training(self, workload: Training, pid: int, count: int) -> Iterator[Member]:
        script, flags = _script(workload, count)
        launcher = self.plan.identity.launcher or _LAUNCHERS.get(workload.strategy, "torchrun")
        yield Member(pid + 1, pid, "launcher", -1, launcher, _launch_command(launcher, workload, count, script, flags))
        loaders = 0
        for rank in range(count):
            environ = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(count),
                "LOCAL_WORLD_SIZE": str(count),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(29500 + self.first_pid // _PIDS_OF_A_JOB),
                **_transport_environ(workload),
                **self._visible(),
            }
            command = ("/usr/bin/python3", "-u", script, f"--local-rank={rank}", *flags)
            yield Member(pid + 10 + rank, pid + 1, "rank", rank, "python3", command, environ, threads=32)
            yield from self._loaders(workload, pid + 10 + rank, pid + 100 + loaders, rank)
            loaders += workload.loader.workers if workload.loader else 0

    def _loaders(self, workload: Training, parent: int, first: int, rank: int) -> Iterator[Member]:
        workers = workload.loader.workers if workload.loader else 0
        for worker in range(workers):
            yield Member(
                first + worker, parent, "loader", rank, "pt_data_worker", ("/usr/bin/python3", "-u", "train.py")
            )

    def _server(self, workload: Serving, pid: int, count: int) -> Iterator[Member]:
        name = workload.model.name
        if workload.split == "layers" or workload.host_share > 0:
            command: tuple[str, ...] = ("llama-server", "-m", f"/models/{name}.gguf", "-ngl", "99", "--port", "8080")
            command += ("-sm", "layer") if workload.host_share == 0 else ("-ot", "exps=CPU")
            yield Member(pid + 1, pid, "rank", 0, "llama-server", command, self._visible(), threads=40)
            return
        command = ("/usr/bin/python3", "/usr/local/bin/vllm", "serve", name, "--tensor-parallel-size", str(count))
        yield Member(pid + 1, pid, "launcher", -1, "vllm", command, self._visible(), threads=30)
        for rank in range(count):
            title = f"VLLM::Worker_TP{rank}" if count > 1 else "VLLM::EngineCore"
            yield Member(pid + 10 + rank, pid + 1, "rank", rank, title[:15], (title,), self._visible(), threads=28)

    def _visible(self) -> dict[str, str]:
        """Users narrow the choice where the job was given more cards than it uses."""
        if self.plan.given_cards and self.plan.given_cards != self.plan.cards:
            return {"CUDA_VISIBLE_DEVICES": ",".join(str(self.given.index(card)) for card in self.plan.cards)}
        return {}


def processes_of(world: World) -> tuple[JobProcesses, ...]:
    """Return the processes of every planned job of a world."""
    specs = [slot.card for slot in world.scenario.node.slots]
    return tuple(
        JobProcesses(number, plan, job, tuple(specs[index] for index in plan.cards))
        for number, (plan, job) in enumerate(zip(world.scenario.jobs, world.jobs, strict=True))
    )


_LAUNCHERS = {
    "fsdp": "accelerate",
    "zero1": "deepspeed",
    "zero2": "deepspeed",
    "zero3": "deepspeed",
    "offload": "deepspeed",
}


def _training_flags(workload: Training) -> tuple[str, ...]:
    flags: tuple[str, ...] = (
        "--model",
        workload.model.name,
        "--per_device_train_batch_size",
        f"{workload.micro_batch:g}",
    )
    if workload.accumulation > 1:
        flags += ("--gradient_accumulation_steps", str(workload.accumulation))
    if workload.loader is not None:
        flags += ("--num_workers", str(workload.loader.workers))
    return flags


def _script(workload: Training, count: int) -> tuple[str, tuple[str, ...]]:
    if workload.strategy in ("tp", "pp"):
        tensor, pipeline = (count, 1) if workload.strategy == "tp" else (1, count)
        return "pretrain_gpt.py", (
            "--tensor-model-parallel-size",
            str(tensor),
            "--pipeline-model-parallel-size",
            str(pipeline),
            "--micro-batch-size",
            f"{workload.micro_batch:g}",
            "--global-batch-size",
            f"{workload.micro_batch * workload.accumulation:g}",
        )
    flags = _training_flags(workload)
    if workload.strategy == "gloo":
        flags += ("--dist_backend", "gloo")
    return "train.py", flags


def _launch_command(
    launcher: str, workload: Training, count: int, script: str, flags: tuple[str, ...]
) -> tuple[str, ...]:
    python = "/usr/bin/python3"
    if launcher == "accelerate":
        extra: tuple[str, ...] = ("--use_fsdp",) if workload.strategy == "fsdp" else ("--multi_gpu",)
        return (python, "/usr/local/bin/accelerate", "launch", *extra, "--num_processes", str(count), script, *flags)
    if launcher == "deepspeed":
        stage = {"zero1": 1, "zero2": 2, "zero3": 3, "offload": 2}.get(workload.strategy, 0)
        extra = ("--offload_optimizer", "cpu") if workload.strategy == "offload" else ()
        return (
            python,
            "/usr/local/bin/deepspeed",
            "--num_gpus",
            str(count),
            script,
            *flags,
            "--zero_stage",
            str(stage),
            *extra,
        )
    return (python, "/usr/local/bin/torchrun", "--standalone", f"--nproc_per_node={count}", script, *flags)


def _transport_environ(workload: Training) -> dict[str, str]:
    if workload.transport == "staging":
        return {"NCCL_P2P_DISABLE": "1"}
    if workload.transport == "sockets":
        return {"NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1"}
    return {}
