"""The processes on the cards, their relatives, their control groups and containers, and the host's load.

Implements `hardware.reader.HostReader` over a real (or mounted, or built) procfs and sysfs. A refresh reads one stat
file a process, and only what may have changed beside it. Used by one thread.
"""

from __future__ import annotations

import math
import pwd
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpumon.hardware.procfs import files, load, record, stat
from gpumon.hardware.procfs.census import Census
from gpumon.hardware.procfs.cgroups import CgroupTree
from gpumon.hardware.procfs.containers import ContainerDirectory
from gpumon.hardware.procfs.openfiles import OpenCards
from gpumon.hardware.procfs.record import Part, Record, TextReader
from gpumon.hardware.roots import default_procfs_root, default_sysfs_root
from gpumon.hardware.standing import has_host_pids
from gpumon.model.fault import Fault
from gpumon.model.process import HostSample, Process, ProcessTable

# A GPU process or launcher stays followed this long after the driver last listed it: between two rounds of an elastic
# job, and while its card is silent.
FOLLOWED_S = 120.0
MOST_BELOW = 64  # loaders of one process
MOST_PROCESSES = 4096  # followed at once, GPU processes not counted
REREAD_PER_REFRESH = 16
ERRORS_EVERY = 10
USERS_PER_REFRESH = 8  # a lookup may ask a directory server
MOST_USERS = 4096
DEFAULT_PID_MAX = 4194304  # PID_MAX_LIMIT of 64-bit kernels
_CONTAINER_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_OWNER = re.compile(r"/(?:user-|uid_)(?P<uid>[0-9]{1,10})(?:\.slice)?(?=/|$)", re.MULTILINE)


class ProcfsHost:
    """The host as procfs shows it."""

    def __init__(
        self,
        *,
        procfs_root: Path | None = None,
        sysfs_root: Path | None = None,
        containers: ContainerDirectory | None = None,
        environ: bool = True,
    ) -> None:
        """Prepare; reads little.

        Args:
            procfs_root, sysfs_root: by default GPUMON_PROCFS_ROOT, GPUMON_SYSFS_ROOT, /proc and /sys.
            containers: asked for names of the containers met; None: nobody is asked.
            environ: read allow-listed variables and configuration files where permitted.
        """
        procfs = procfs_root or default_procfs_root()
        self._root = str(procfs)
        self._sysfs = str(sysfs_root or default_sysfs_root())
        self._containers = containers
        self._foreign = not has_host_pids(procfs)
        self._own_users = procfs == Path("/proc")
        self._cgroups = CgroupTree(self._sysfs)
        self._texts = TextReader(self._root, self._sysfs, environ=environ)
        self._census = Census(self._root, self._has_cards)
        self._open_cards = OpenCards(self._root)
        self._records: dict[int, Record] = {}
        self._on_card_s: dict[tuple[int, int], float] = {}  # GPU process -> when it was last listed
        self._turn = 0  # whose texts are read again next
        self._users: dict[int, str] = {}
        self._errors: Mapping[str, Mapping[str, float]] = {}  # uuid -> kind -> count, of the cards' links
        self._errors_of: Mapping[str, str] | None = None  # the addresses they were read for
        self._errors_calls = 0  # since then

    @property
    def foreign_pids(self) -> bool:
        """True when the driver's pids are not this procfs's; said by doctor."""
        return self._foreign

    def processes(self, gpu_pids: frozenset[int], mono_s: float) -> ProcessTable:
        """Read the GPU processes, their ancestors and children, and one process of each container given cards.

        Where the driver's pids are foreign, `gpu_pids` is not looked at: a local process of the same number is
        somebody else. Vanished processes are skipped; hidden ones are counted.
        """
        self._census.refresh()
        open_cards = self._open_files() if self._foreign else {}
        on_card = frozenset(open_cards) if self._foreign else self._possible(gpu_pids)
        parts = self._parts(on_card, mono_s)
        due = self._due(tuple(parts))
        loopback = _Loopback(self._root)
        found: list[Process] = []
        records: dict[int, Record] = {}
        for pid, part in parts.items():
            read = self._follow(pid, part, mono_s, reread=pid in due)
            if read is None:
                continue
            known, now = read
            records[pid] = known
            minors = open_cards.get(pid, frozenset()) if self._foreign else _minors(known)
            found.append(known.process(now, loopback.bytes_of(known), minors))
        self._records = records
        self._note_listed(on_card, mono_s)
        self._texts.forget_namespaces({one.texts.mount_namespace for one in records.values()})
        return self._table(tuple(found), on_card, mono_s)

    def host(self, uuids_by_address: Mapping[str, str]) -> HostSample:
        """Read the host's cumulative counters, and AER counters of the links above the given PCI addresses.

        The latter at every tenth call: errors of a link are judged over minutes.
        """
        if self._errors_of is not uuids_by_address or self._errors_calls % ERRORS_EVERY == 0:
            self._errors = load.link_error_counts(self._sysfs, uuids_by_address)
            self._errors_of, self._errors_calls = uuids_by_address, 0
        self._errors_calls += 1
        return load.host_sample(self._root, self._sysfs, self._errors)

    def _table(self, found: tuple[Process, ...], on_card: frozenset[int], mono_s: float) -> ProcessTable:
        groups = {process.cgroup for process in found if not isinstance(process.cgroup, Fault)}
        ids = frozenset(match for text in groups for match in _CONTAINER_ID.findall(text))
        directory = self._containers
        if directory is not None:
            directory.want(ids)
        shown = {process.pid for process in found}
        paths = (self._cgroups.path_of(text) for text in groups)
        return ProcessTable(
            read_s=mono_s,
            processes=found,
            cgroups=self._cgroups.sample((path for path in paths if path), mono_s),
            containers=directory.known() if directory is not None else {},
            hidden=len(on_card - shown),
            users=self._names(found, groups),
            configs={
                (pid, one.start_ticks): one.texts.config for pid, one in self._records.items() if one.texts.config
            },
            containers_pending=directory.pending() if directory is not None else frozenset(),
            foreign_pids=self._foreign,
        )

    def _possible(self, gpu_pids: frozenset[int]) -> frozenset[int]:
        """A driver's list read with a wrong stride holds numbers that are no pids: no file is opened for those."""
        limit = files.number(f"{self._root}/sys/kernel/pid_max")
        most = DEFAULT_PID_MAX if isinstance(limit, Fault) else int(limit)
        return frozenset(pid for pid in gpu_pids if 0 < pid <= most)

    def _open_files(self) -> dict[int, frozenset[int]]:
        own = record.own_pid(self._root)
        return self._open_cards.refresh(
            (pid, known.start_ticks) for pid, known in self._census.known.items() if pid != own
        )

    def _parts(self, on_card: frozenset[int], mono_s: float) -> dict[int, Part]:
        """Return whom to read, GPU processes first."""
        listed = set(on_card)
        known = self._census.known
        for (pid, start_ticks), last_s in self._on_card_s.items():
            if mono_s - last_s < FOLLOWED_S and pid in known and known[pid].start_ticks == start_ticks:
                listed.add(pid)
        parts = dict.fromkeys(sorted(listed), Part.RANK)
        above = self._census.ancestors(listed)
        below = [child for pid in listed for child in self._census.descendants(pid, MOST_BELOW)]
        followed = (
            pid for pid, one in self._records.items() if one.part is Part.ABOVE and mono_s - one.first_s < FOLLOWED_S
        )
        holders = () if self._foreign else self._census.holders()
        for pid in (*above, *followed, *holders):
            parts.setdefault(pid, Part.ABOVE)
        for pid in below:
            parts.setdefault(pid, Part.BELOW)
            if len(parts) >= MOST_PROCESSES + len(listed):
                break
        return parts

    def _due(self, pids: tuple[int, ...]) -> frozenset[int]:
        """Return whose texts are read again in this refresh."""
        start = self._turn % len(pids) if pids else 0
        self._turn = start + REREAD_PER_REFRESH
        return frozenset(pids[start : start + REREAD_PER_REFRESH])

    def _has_cards(self, pid: int) -> bool:
        """Return True for a process in a container that was given cards; gpumon's own container is not one to show."""
        known = self._census.known.get(pid)
        group = files.text(f"{self._root}/{pid}/cgroup", 16384)
        own = record.self_cgroup(self._root)
        if own and (group == own or (known is not None and known.cgroup == own)):
            return False
        found = self._texts.mounts(pid, files.namespace(f"{self._root}/{pid}/ns/mnt"))
        return not isinstance(found, Fault) and bool(found.minors)

    def _follow(self, pid: int, part: Part, mono_s: float, *, reread: bool) -> tuple[Record, stat.Stat] | None:
        """Read one process; None when it is gone, hidden, or was replaced while it was read."""
        now = self._stat(pid)
        if now is None:
            return None
        known = self._records.get(pid)
        if known is not None and known.start_ticks != now.start_ticks:
            known = None
        if known is None or reread or known.part is not part or known.is_stale(now.comm, mono_s):
            before = known.texts if known is not None else None
            texts = self._texts.read(pid, now, before, mono_s, part)
            after = self._stat(pid) if known is None else now
            if after is None or after.start_ticks != now.start_ticks:
                return None
            first_s = known.first_s if known is not None else mono_s
            known = Record(pid, now.start_ticks, first_s, part, texts)
        return known, now

    def _stat(self, pid: int) -> stat.Stat | None:
        raw = files.record(f"{self._root}/{pid}/stat")
        return None if isinstance(raw, Fault) else stat.parse(raw)

    def _note_listed(self, on_card: frozenset[int], mono_s: float) -> None:
        listed = {(pid, self._records[pid].start_ticks): mono_s for pid in on_card if pid in self._records}
        recent = {key: last_s for key, last_s in self._on_card_s.items() if mono_s - last_s < FOLLOWED_S}
        self._on_card_s = {**recent, **listed}

    def _names(self, found: Iterable[Process], groups: Iterable[str]) -> Mapping[int, str]:
        """Return user names of the processes and of the owners their control groups name."""
        wanted = {process.uid for process in found if process.uid >= 0}
        wanted |= {int(match["uid"]) for text in groups for match in _OWNER.finditer(text)}
        new = [uid for uid in sorted(wanted) if uid not in self._users][:USERS_PER_REFRESH]
        if len(self._users) > MOST_USERS:
            self._users.clear()
        self._users.update({uid: self._user(uid) for uid in new})
        return {uid: name for uid in wanted if (name := self._users.get(uid, ""))}

    def _user(self, uid: int) -> str:
        """Return a user's name as the host knows it; with a mounted procfs, by the host's own passwd file only."""
        if self._own_users:
            try:
                return pwd.getpwuid(uid).pw_name
            except (KeyError, OverflowError):
                return ""
        text = files.text(f"{self._root}/1/root/etc/passwd", 1 << 20)
        for line in "" if isinstance(text, Fault) else text.splitlines():
            words = line.split(":")
            if len(words) > 2 and words[2] == str(uid):
                return words[0]
        return ""


class _Loopback:
    """Loopback bytes of each network namespace, read once a refresh."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._bytes: dict[object, float] = {}

    def bytes_of(self, known: Record) -> float:
        """Return the bytes that the loopback device of the process's namespace received.

        Where namespaces may not be told apart, processes of one control group are taken to share one.
        """
        texts = known.texts
        key: object = texts.net_namespace or texts.cgroup
        if known.part is Part.BELOW and key not in self._bytes:
            return math.nan
        if key not in self._bytes:
            text = files.text(f"{self._root}/{known.pid}/net/dev", 65536)
            self._bytes[key] = math.nan if isinstance(text, Fault) else load.loopback_bytes(text)
        return self._bytes[key]


def _minors(known: Record) -> frozenset[int] | Fault:
    return known.texts.mounts if isinstance(known.texts.mounts, Fault) else known.texts.mounts.minors
