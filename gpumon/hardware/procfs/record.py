"""One process that belongs to a job, and its texts: read at first sight, then only when there is reason to.

`stat` is read every refresh: it proves the identity and carries the counters. The other texts are read again when the
process changes its name (exec), at some ages while it loads, and otherwise in turn, some processes a refresh.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gpumon.hardware.procfs import configs, environ, files, mounts, stat
from gpumon.hardware.procfs.mounts import Mounts
from gpumon.hardware.procfs.numa import NumaNodes
from gpumon.model.fault import Fault
from gpumon.model.process import Process

# A GPU process is read again at these ages: it renames itself and starts its threads while it loads.
GROWING_S = (2.0, 8.0, 30.0)
LONGEST_COMMAND = 32768
_LONGEST_CGROUP = 16384
_MOST_WORDS = 1024
_LONGEST_FOLDER = 1024
_MOST_THREADS = 64
# Threads that PyTorch and NCCL name; anything else of a process's threads is not kept.
_THREAD_PREFIXES = ("pt_", "NCCL")


class Part(Enum):
    """Why a process is followed; decides how much of it is read."""

    RANK = "rank"  # on a card: everything
    ABOVE = "above"  # started ranks, or holds a container's cards: no threads
    BELOW = "below"  # a loader: no variables either


@dataclass(slots=True)
class Texts:
    """What was read at one time."""

    read_s: float
    comm: str
    status: stat.Status
    cmdline: tuple[str, ...] | Fault
    cgroup: str | Fault
    environ: Mapping[str, str] | Fault
    mounts: Mounts | Fault
    mount_namespace: int
    net_namespace: int
    thread_names: str = ""
    numa_nodes: frozenset[int] = frozenset()
    folder: str = ""
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Record:
    """A process being followed. Belongs to one reader's thread."""

    pid: int
    start_ticks: int
    first_s: float
    part: Part
    texts: Texts

    def is_stale(self, comm: str, mono_s: float) -> bool:
        """Return True when the texts should be read again now."""
        read_age_s, age_s = self.texts.read_s - self.first_s, mono_s - self.first_s
        grown = self.part is Part.RANK and any(read_age_s < step_s <= age_s for step_s in GROWING_S)
        return grown or comm != self.texts.comm

    def process(self, now: stat.Stat, loopback_bytes: float, minors: frozenset[int] | Fault) -> Process:
        """Return the process as of one reading of its stat."""
        texts = self.texts
        known_mounts = None if isinstance(texts.mounts, Fault) else texts.mounts
        return Process(
            pid=self.pid,
            start_ticks=self.start_ticks,
            ppid=now.ppid,
            session=now.session,
            uid=texts.status.uid,
            state=now.state,
            comm=now.comm,
            cmdline=texts.cmdline,
            cgroup=texts.cgroup,
            environ=texts.environ,
            cpu_seconds=now.cpu_seconds,
            threads=now.threads,
            gpu_minors=minors,
            shm_size_bytes=known_mounts.shm_size_bytes if known_mounts else math.nan,
            io_wait_seconds=now.io_wait_seconds,
            cpus_allowed=texts.status.cpus_allowed,
            loopback_bytes=loopback_bytes,
            net_namespace=texts.net_namespace,
            rss_bytes=now.rss_bytes,
            swap_bytes=texts.status.swap_bytes,
            thread_names=texts.thread_names,
            numa_nodes=texts.numa_nodes,
            folder=texts.folder,
            slice_hook=known_mounts.slice_hook if known_mounts else "",
        )


class TextReader:
    """Reads the texts of processes; mount tables once for each mount namespace."""

    def __init__(self, root: str, sysfs: str, *, environ: bool) -> None:
        """Args: environ: read allow-listed variables and configuration files where permitted."""
        self._root = root
        self._environ = environ
        self._nodes = NumaNodes(sysfs)
        self._minors = self._minors_by_address()
        self._mounts: dict[int, Mounts] = {}  # by namespace

    def forget_namespaces(self, alive: set[int]) -> None:
        """Keep only the mount tables of namespaces that are in use."""
        self._mounts = {inode: known for inode, known in self._mounts.items() if inode in alive}

    def read(self, pid: int, now: stat.Stat, before: Texts | None, mono_s: float, part: Part) -> Texts:
        """Read a process's texts. A dead process has none any more: what was known stays."""
        if before is not None and now.state in ("Z", "X"):
            return before
        folder = f"{self._root}/{pid}"
        raw_status = files.text(f"{folder}/status", 16384)
        status = stat.Status() if isinstance(raw_status, Fault) else stat.parse_status(raw_status)
        cmdline = _command_line(files.content(f"{folder}/cmdline", LONGEST_COMMAND))
        cgroup = files.text(f"{folder}/cgroup", _LONGEST_CGROUP)
        namespace = files.namespace(f"{folder}/ns/mnt")
        fresh = before is None or before.comm != now.comm
        texts = Texts(
            read_s=mono_s,
            comm=now.comm,
            status=status,
            cmdline=cmdline,
            cgroup=cgroup,
            environ=self._variables(folder, part) if fresh or before is None else before.environ,
            mounts=self.mounts(pid, namespace) if before is None else before.mounts,
            mount_namespace=namespace,
            net_namespace=files.namespace(f"{folder}/ns/net") if before is None else before.net_namespace,
            thread_names=self._threads(folder) if part is Part.RANK else "",
            numa_nodes=self._nodes.of(status.cpus_mask),
            folder=files.link(f"{folder}/cwd")[:_LONGEST_FOLDER] if fresh or before is None else before.folder,
        )
        if before is not None:
            _keep_equal(texts, before)
        if self._environ and not isinstance(cmdline, Fault) and configs.named(cmdline):
            texts.config = self._config(folder, status.uid, cmdline, before)
        return texts

    def mounts(self, pid: int, namespace: int) -> Mounts | Fault:
        """Return a process's mounts; read once for a namespace where its inode may be seen."""
        if namespace in self._mounts:
            return self._mounts[namespace]
        text = files.text(f"{self._root}/{pid}/mountinfo", mounts.LONGEST)
        if isinstance(text, Fault):
            return text
        known = mounts.parse(text, self._minors)
        if namespace:
            self._mounts[namespace] = known
        return known

    def _variables(self, folder: str, part: Part) -> Mapping[str, str] | Fault:
        if part is Part.BELOW or not self._environ:
            return Fault.NO_DATA
        raw = files.content(f"{folder}/environ", environ.LONGEST)
        return raw if isinstance(raw, Fault) else environ.parse(raw)

    def _config(self, folder: str, uid: int, cmdline: tuple[str, ...], before: Texts | None) -> Mapping[str, str]:
        if before is not None and before.cmdline == cmdline:
            return before.config
        table = files.text(f"{folder}/mountinfo", mounts.LONGEST)
        if isinstance(table, Fault):
            return {}
        return configs.read(folder, uid, cmdline, mounts.parse(table, {}, fstypes=True).fstypes or {})

    def _threads(self, folder: str) -> str:
        found: set[str] = set()
        for thread in files.names(f"{folder}/task")[:_MOST_THREADS]:
            name = files.text(f"{folder}/task/{thread}/comm", 64)
            if not isinstance(name, Fault) and name.startswith(_THREAD_PREFIXES):
                found.add("".join(char for char in name.strip() if char.isalnum() or char in "_ ").replace(" ", "_"))
        return " ".join(sorted(found))

    def _minors_by_address(self) -> dict[str, int]:
        """Return N of /dev/nvidiaN by PCI address. Source: /proc/driver/nvidia/gpus/ADDRESS/information."""
        folder = f"{self._root}/driver/nvidia/gpus"
        found: dict[str, int] = {}
        for address in files.names(folder):
            text = files.text(f"{folder}/{address}/information")
            for line in "" if isinstance(text, Fault) else text.splitlines():
                name, _, value = line.partition(":")
                if name == "Device Minor" and value.strip().isdigit():
                    found[address.lower()] = int(value)
        return found


def _command_line(raw: bytes | Fault) -> tuple[str, ...] | Fault:
    if isinstance(raw, Fault):
        return raw
    words = raw.rstrip(b"\0").split(b"\0")[:_MOST_WORDS]
    return tuple(word.decode("utf-8", "replace") for word in words) if words != [b""] else ()


def _keep_equal(texts: Texts, before: Texts) -> None:
    """Keep the old object where the new one says the same, so that whoever compares finds it by identity.

    A text that has become unreadable while the process lives (a race, a namespace that is being torn down) also
    stays as it was.
    """
    for name in ("cmdline", "cgroup", "environ"):
        old, new = getattr(before, name), getattr(texts, name)
        if new == old or (isinstance(new, Fault) and not isinstance(old, Fault)) or (name == "cmdline" and new == ()):
            setattr(texts, name, old)


def self_cgroup(root: str) -> str:
    """Return gpumon's own control group file, "" when it cannot be read."""
    text = files.text(f"{root}/self/cgroup", _LONGEST_CGROUP)
    return "" if isinstance(text, Fault) else text


def own_pid(root: str) -> int:
    """Return gpumon's own pid as the given procfs counts, -1 when it does not show it."""
    target = files.link(f"{root}/self")
    return int(target) if target.isdigit() else -1
