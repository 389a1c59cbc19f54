"""Really started process trees, looked at as root and as an ordinary user, in groups and namespaces made for them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpumon.hardware.procfs import ProcfsHost
from gpumon.model.fault import Fault
from gpumon.model.job import Job, JobKind
from gpumon.model.process import ProcessTable
from tests.jobs.node import Node

pytestmark = pytest.mark.tools  # root, unshare and mount

NOBODY = 65534
CONTAINER = "ab" * 32
_CLONE_NEWNS = 0x00020000

TRAIN = """
    import os, sys
    loader = os.fork()
    if loader:
        os.write(1, b"%d\\n" % os.getpid())
    sys.stdin.read()
"""
TORCHRUN = """
    import os, subprocess, sys
    ranks = []
    for rank in range(2):
        variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        ranks.append(subprocess.Popen(
            [sys.executable, "-u", sys.argv[-1], "--num-workers", "1"],
            env={**os.environ, **variables}, start_new_session=True,
        ))
    for rank in ranks:
        rank.wait()
"""
# Makes a /dev of its own in which two cards and CUDA's file are bound one by one, as the container toolkit does.
GIVE_CARDS = """
    mount --make-rprivate / && mount -t tmpfs none /dev && mkdir /dev/shm && mount -t tmpfs -o size=64m none /dev/shm
    for name in nvidia0 nvidia3 nvidia-uvm; do touch /dev/$name; mount --bind /dev/$name /dev/$name; done
    exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Launch:
    """A started launch."""

    agent: int
    ranks: tuple[int, ...]


def cgroup_root() -> Path:
    """The version 2 tree of this machine."""
    unified = Path("/sys/fs/cgroup/unified")
    return unified if unified.is_dir() else Path("/sys/fs/cgroup")


@contextlib.contextmanager
def launched(folder: Path, *, cards: bool = False) -> Iterator[Launch]:
    """Start an agent with two ranks, each with a loader, in a control group named as Docker would."""
    (folder / "train.py").write_text(textwrap.dedent(TRAIN))
    (folder / "torchrun").write_text(textwrap.dedent(TORCHRUN))
    group = cgroup_root() / f"gpumon-test-{os.getpid()}" / f"docker-{CONTAINER}.scope"
    group.mkdir(parents=True)
    words = [sys.executable, "torchrun", "--standalone", "--nproc_per_node=2", "train.py"]
    if cards:
        words = ["unshare", "-m", "sh", "-c", textwrap.dedent(GIVE_CARDS), "sh", *words]
    agent = subprocess.Popen(
        words,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: (group / "cgroup.procs").write_text("0"),  # noqa: PLW1509 - no thread holds a lock here
    )
    assert agent.stdin is not None
    assert agent.stdout is not None
    try:
        ranks = tuple(sorted(int(agent.stdout.readline()) for _ in range(2)))
        yield Launch(agent.pid, ranks)
    finally:
        agent.stdin.close()  # every process of the tree reads it to its end
        agent.wait(10)
        agent.stdout.read()  # ends when the last loader has ended
        agent.stdout.close()
        for _ in range(200):
            if not (group / "cgroup.procs").read_text():
                break
        group.rmdir()
        group.parent.rmdir()


def elsewhere(work: Callable[[], Any], *, uid: int = 0, prepare: Callable[[], None] = lambda: None) -> Any:
    """Do work in a child process, as another user and after preparation as root; return what it returns."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            prepare()
            if uid:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            os.write(writing, pickle.dumps(work()))
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        content = file.read()
    _, status = os.waitpid(child, 0)
    assert status == 0
    return pickle.loads(content)


def attributed(table: ProcessTable, ranks: tuple[int, ...]) -> tuple[Job, ...]:
    """The jobs of a node on which the ranks compute on one card each."""
    node = Node()
    node.processes = {process.pid: process for process in table.processes}
    for index, pid in enumerate(ranks):
        node.compute(pid, index)
    return node.settled()


def test_a_launch_seen_as_root(tmp_path: Path) -> None:
    """Root sees one job in its container, with layout, variables, launcher and loaders."""
    with launched(tmp_path) as launch:
        table = ProcfsHost().processes(frozenset(launch.ranks), 1.0)
        (job,) = attributed(table, launch.ranks)
        assert (job.kind, job.container) == (JobKind.CONTAINER, CONTAINER[:12])
        assert tuple(pid for pid, _ in job.processes) == launch.ranks
        assert launch.agent in {pid for pid, _ in job.relatives}
        assert len(job.relatives) == 3
        assert (job.layout.launcher, job.layout.world_size, job.layout.loader_workers) == ("torchrun", 2, 1)
        assert "environ" in job.layout.privileges
        again = attributed(ProcfsHost().processes(frozenset(launch.ranks), 1.0), launch.ranks)
        assert [one.gpu_job for one in again] == [job.gpu_job]


def test_a_launch_seen_as_an_ordinary_user(tmp_path: Path) -> None:
    """Without root another user's job has the same name, cards and layout; its variables are not guessed."""
    with launched(tmp_path) as launch:
        as_root = attributed(ProcfsHost().processes(frozenset(launch.ranks), 1.0), launch.ranks)
        table = elsewhere(lambda: ProcfsHost().processes(frozenset(launch.ranks), 1.0), uid=NOBODY)
        (job,) = attributed(table, launch.ranks)
        assert job.gpu_job == as_root[0].gpu_job
        assert (job.layout.launcher, job.layout.world_size) == ("torchrun", 2)
        assert job.layout.privileges == {"cmdline"}
        assert {process.environ for process in table.processes if process.pid in launch.ranks} == {Fault.NO_PERMISSION}
        assert all(process.net_namespace == 0 for process in table.processes)
        assert all(process.loopback_bytes >= 0 for process in table.processes if process.pid in launch.ranks)


@pytest.mark.parametrize("uid", [0, NOBODY])
def test_given_cards_are_seen_by_everyone(tmp_path: Path, uid: int) -> None:
    """Which cards a container was given, and its /dev/shm, need no privilege."""
    with launched(tmp_path, cards=True) as launch:
        table = elsewhere(lambda: ProcfsHost().processes(frozenset(launch.ranks), 1.0), uid=uid)
        ranks = [process for process in table.processes if process.pid in launch.ranks]
        assert [process.gpu_minors for process in ranks] == [{0, 3}, {0, 3}]
        assert {process.shm_size_bytes for process in ranks} == {64 * 1024**2}
        (job,) = attributed(table, launch.ranks)
        assert (job.allocated, [card.used for card in job.cards]) == (2, [True, True, False])


@pytest.mark.parametrize("uid", [0, NOBODY])
def test_a_container_that_computes_nothing_yet(tmp_path: Path, uid: int) -> None:
    """A really started container with cards is a job without GPU processes, for root and for others."""
    with launched(tmp_path, cards=True):
        host_table = elsewhere(lambda: ProcfsHost().processes(frozenset(), 1.0), uid=uid)
        (job,) = attributed(host_table, ())
        assert (job.kind, job.allocated, job.processes) == (JobKind.CONTAINER, 2, ())
        assert [card.used for card in job.cards] == [False, False]


def hide_processes() -> None:
    """Mount a procfs of its own that hides other users' processes."""
    assert ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS) == 0
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "proc", "-o", "hidepid=2", "proc", "/proc"], check=True)


def test_hidden_processes(tmp_path: Path) -> None:
    """Under hidepid an ordinary user is told how many GPU processes are hidden, and they are nobody's."""
    with launched(tmp_path) as launch:
        ranks = frozenset(launch.ranks)
        table = elsewhere(lambda: ProcfsHost().processes(ranks, 1.0), uid=NOBODY, prepare=hide_processes)
        assert (table.processes, table.hidden, table.foreign_pids) == ((), 2, False)
        (job,) = attributed(table, launch.ranks)
        assert (job.kind, job.processes, len(job.cards)) == (JobKind.UNATTRIBUTED, (), 2)


def test_a_pid_namespace_of_its_own() -> None:
    """Inside a pid namespace the driver's pids are known to be foreign."""
    code = "from gpumon.hardware.procfs import ProcfsHost; h = ProcfsHost(); t = h.processes(frozenset({1, 2}), 0.0);"
    code += "print(h.foreign_pids, len(t.processes), t.hidden)"
    words = ["unshare", "--fork", "--pid", "--mount-proc", sys.executable, "-c", code]
    result = subprocess.run(words, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert result.stdout.split() == ["True", "0", "0"]


def test_a_zombie_keeps_its_job(tmp_path: Path) -> None:
    """A rank that died and was not reaped keeps the texts it had."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0)
    host = ProcfsHost()
    try:
        (before, *_) = host.processes(frozenset({child}), 1.0).processes
        os.write(writing, b"x")
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        (after, *_) = host.processes(frozenset({child}), 100.0).processes
        assert (after.pid, after.state) == (child, "Z")
        assert (after.cmdline, after.cgroup) == (before.cmdline, before.cgroup)
    finally:
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_processes_that_end_while_they_are_read() -> None:
    """Hundreds of processes that end during the reading cost themselves and nothing else."""
    children = [subprocess.Popen(["true"], stdin=subprocess.DEVNULL) for _ in range(100)]
    table = ProcfsHost().processes(frozenset(child.pid for child in children) | {os.getpid()}, 1.0)
    assert os.getpid() in {process.pid for process in table.processes}
    for child in children:
        child.wait()
