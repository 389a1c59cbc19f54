"""The part a process plays in a launch: it starts ranks, it is a rank, or it merely stands above them.

Which process is the root of a launch decides what is one job. Three errors are possible and weighed in this order:
two strangers joined (never), two jobs of one person joined (rarely), one job split in two (tolerated).
"""

from __future__ import annotations

from enum import Enum

from gpumon.jobs import layout
from gpumon.jobs.layout import sglang, vllm
from gpumon.jobs.layout.command import Command
from gpumon.model.process import Process

# Above these nothing belongs to the launch: they start whatever they are told to.
_BOUNDARIES = frozenset(
    "systemd init tini dumb-init docker-init catatonit podman-init s6-svscan s6-supervise s6-linux-init runsv runsvdir "
    "supervisord sshd sshd-session dropbear login getty agetty cron crond atd tmux screen zellij conmon "
    "containerd-shim containerd-shim-runc-v2 runc lxc-start jupyter-lab jupyter-notebook jupyter-server jupyterhub "
    "jupyterhub-singleuser jupyter code-server node slurmd kubelet dockerd containerd sudo su pause".split()
)
_BOUNDARY_MODULES = frozenset(
    {"jupyter", "jupyterlab", "notebook", "jupyter_server", "jupyterhub.singleuser", "supervisor.supervisord"}
)
_SHELLS = frozenset("sh bash dash zsh fish ash ksh mksh busybox csh tcsh xonsh".split())
# Run something else as it is: transparent like a shell.
_WRAPPERS = frozenset(
    "timeout nohup setsid env nice ionice chrt taskset numactl stdbuf time script strace unshare nsenter watch flock "
    "parallel xargs make nsys ncu entrypoint.sh docker-entrypoint.sh uv poetry conda micromamba pixi".split()
)
_KERNELS = frozenset({"ipykernel_launcher", "ipykernel", "colab_kernel_launcher", "colab_kernel_launcher.py"})
_STARTERS = frozenset(
    "llamafactory-cli axolotl text-generation-launcher tritonserver trtllm-serve trtllm-bench ollama vllm "
    "sglang".split()
)
_STARTER_MODULES = frozenset(
    {
        "vllm.entrypoints.openai.api_server",
        "vllm.entrypoints.api_server",
        "sglang.launch_server",
        "llamafactory.cli",
        "axolotl.cli.train",
        "lmdeploy",
    }
)


class Role(Enum):
    """What a process is to a launch."""

    BOUNDARY = "boundary"  # ends the search for the root
    PASSAGE = "passage"  # shell or wrapper: looked through, never a root
    LAUNCHER = "launcher"  # starts ranks: the topmost one is the root
    POOL = "pool"  # starts ranks for several launches (raylet, slurmstepd): root only when there is no launcher
    KERNEL = "kernel"  # a notebook's kernel: like a pool, and nothing above it belongs to the launch
    PLAIN = "plain"


def of(process: Process, command: Command) -> Role:
    """Return the role of a process."""
    names = {process.comm, command.program} - {""}
    if process.comm == "slurmstepd" and process.uid == 0:
        return Role.POOL
    if command.module in _KERNELS or command.program in _KERNELS:
        return Role.KERNEL
    if "raylet" in names or (command.program == "ray" and command.arguments[:1] == ("start",)):
        return Role.POOL
    if names & _BOUNDARIES or any(name.startswith("tmux:") for name in names) or command.module in _BOUNDARY_MODULES:
        return Role.BOUNDARY
    if process.ppid == 0:
        return _first_process(command)
    if command.program in _SHELLS or command.program in _WRAPPERS:
        return Role.PASSAGE
    if _starts_ranks(command):
        return Role.LAUNCHER
    return Role.PLAIN


def _first_process(command: Command) -> Role:
    """The first process of a machine or pid namespace is init, unless a container runs a launcher or a job as pid 1."""
    if _starts_ranks(command):
        return Role.LAUNCHER
    return Role.PLAIN if command.script or command.module else Role.BOUNDARY


def _starts_ranks(command: Command) -> bool:
    if command.title:
        return False
    if command.program in _STARTERS or command.module in _STARTER_MODULES:
        return True
    return any(parser(command) is not None for parser in layout.LAUNCHERS)


def is_branch(child: Process, child_command: Command, parent: Process, parent_command: Command) -> bool:
    """Return True when a plain process is another process of its parent's program rather than a program it started.

    multiprocessing's children say so in their command line or repeat their parent's, frameworks rename theirs, and
    launchers inside a script (Lightning) run the script again.
    """
    title = child_command.title
    if title.startswith((vllm.TITLE, sglang.TITLE, "ray::")):
        return True
    if "multiprocessing" in child_command.code or "multiprocessing" in child_command.module:
        return True
    if isinstance(child.cmdline, tuple) and child.cmdline and child.cmdline == parent.cmdline:
        return True
    same_script = bool(child_command.script) and child_command.script == parent_command.script
    return same_script or (bool(child_command.module) and child_command.module == parent_command.module)
