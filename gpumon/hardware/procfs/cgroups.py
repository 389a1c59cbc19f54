"""Counters of control groups: version 2, version 1 and hybrid trees under one name for each figure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gpumon.hardware.procfs import files
from gpumon.model.fault import Fault
from gpumon.model.process import CgroupSample

_QUOTA_STAYS_S = 60.0  # limits change when somebody edits a container, not while it runs
_MICROSECONDS = 1e-6
_NANOSECONDS = 1e-9


class CgroupTree:
    """The mounted control groups. Figures of a group are those of its whole subtree, as the kernel counts."""

    def __init__(self, sysfs_root: str) -> None:
        self._root = f"{sysfs_root}/fs/cgroup"
        self._unified = ""  # folder of the version 2 tree; "" without one
        self._controllers: dict[str, str] = {}  # version 1: controller -> folder
        self._limits: dict[str, tuple[float, str, float]] = {}  # path -> (read at, group with a quota, its CPUs)
        self._find()
        self._is_whole_host = self._root_is_first()

    def _find(self) -> None:
        if not isinstance(files.content(f"{self._root}/cgroup.controllers"), Fault):
            self._unified = self._root
            return
        for name in files.names(self._root):
            if name == "unified":
                self._unified = f"{self._root}/unified"
            for controller in name.split(","):
                self._controllers[controller] = f"{self._root}/{name}"

    def _root_is_first(self) -> bool:
        """Return True when "/" is the host's root group, whose figures are those of everybody.

        Inside a container "/" is the container's own group. Only other groups than the first have a cgroup.type
        (version 2); only the first has a cgroup.sane_behavior (version 1).
        """
        if self._controllers:
            folder = self._controllers.get("cpuacct", self._controllers.get("cpu", ""))
            return not isinstance(files.content(f"{folder}/cgroup.sane_behavior"), Fault)
        return isinstance(files.content(f"{self._unified}/cgroup.type"), Fault)

    def path_of(self, text: str) -> str:
        """Return the path under which a process's group is sampled, "" when there is none to read.

        Version 2 where it carries the controllers, else the path of version 1's cpu accounting.
        """
        wanted = {"cpuacct", "cpu"} & self._controllers.keys()
        for line in text.split("\n"):
            parts = line.split(":", 2)
            if len(parts) != 3 or not parts[2].startswith("/") or "/.." in parts[2]:
                continue
            if (wanted and wanted & set(parts[1].split(","))) or (not wanted and parts[:2] == ["0", ""]):
                return "" if parts[2] == "/" and self._is_whole_host else parts[2]
        return ""

    def sample(self, paths: Iterable[str], mono_s: float) -> dict[str, CgroupSample]:
        """Read the groups; one that is gone is left out."""
        wanted = dict.fromkeys(paths)
        self._limits = {path: limit for path, limit in self._limits.items() if path in wanted}
        read = self._version1 if self._controllers else self._version2
        samples = ((path, read(path, mono_s)) for path in wanted)
        return {path: sample for path, sample in samples if sample is not None}

    def _version2(self, path: str, mono_s: float) -> CgroupSample | None:
        folder = self._unified + path.rstrip("/")
        cpu = _table(f"{folder}/cpu.stat")
        if cpu is None:
            return None
        limited, cpus = self._limit(path, mono_s)
        limits = cpu if limited in ("", path) else _table(f"{self._unified}{limited}/cpu.stat") or {}
        read_bytes, write_bytes = _io(f"{folder}/io.stat")
        return CgroupSample(
            path=path,
            cpu_seconds=cpu.get("usage_usec", math.nan) * _MICROSECONDS,
            throttled_seconds=limits.get("throttled_usec", math.nan) * _MICROSECONDS,
            throttled_periods=limits.get("nr_throttled", math.nan),
            periods=limits.get("nr_periods", math.nan),
            cpu_quota_cpus=cpus,
            read_bytes=read_bytes,
            write_bytes=write_bytes,
            io_pressure_some_seconds=_pressure(f"{folder}/io.pressure"),
        )

    def _version1(self, path: str, mono_s: float) -> CgroupSample | None:
        accounting = self._controllers.get("cpuacct", self._controllers.get("cpu", ""))
        usage = files.number(f"{accounting}{path.rstrip('/')}/cpuacct.usage")
        if isinstance(usage, Fault):
            return None
        limited, cpus = self._limit(path, mono_s)
        limits = _table(f"{self._controllers.get('cpu', '')}{(limited or path).rstrip('/')}/cpu.stat") or {}
        read_bytes, write_bytes = self._block_io(path)
        pressure = _pressure(f"{self._unified}{path.rstrip('/')}/io.pressure") if self._unified else math.nan
        return CgroupSample(
            path=path,
            cpu_seconds=usage * _NANOSECONDS,
            throttled_seconds=limits.get("throttled_time", math.nan) * _NANOSECONDS,
            throttled_periods=limits.get("nr_throttled", math.nan),
            periods=limits.get("nr_periods", math.nan),
            cpu_quota_cpus=cpus,
            read_bytes=read_bytes,
            write_bytes=write_bytes,
            io_pressure_some_seconds=pressure,
        )

    def _limit(self, path: str, mono_s: float) -> tuple[str, float]:
        """Return the nearest group at or above the path that has a CPU quota, and the quota in CPUs.

        Runtimes set the limit on the container's group, and its processes may live in groups below; only the limited
        group counts throttling.
        """
        known = self._limits.get(path)
        if known is not None and mono_s - known[0] < _QUOTA_STAYS_S:
            return known[1], known[2]
        group, cpus = path.rstrip("/"), math.nan
        while True:
            cpus = self._quota(group)
            if not math.isnan(cpus) or not group:
                break
            group = group.rpartition("/")[0]
        limited = "" if math.isnan(cpus) else group or "/"
        self._limits[path] = mono_s, limited, cpus
        return limited, cpus

    def _quota(self, group: str) -> float:
        if self._controllers:
            folder = self._controllers.get("cpu", "") + group
            quota, period = (files.number(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period"))
            if isinstance(quota, Fault) or isinstance(period, Fault) or quota <= 0 or period <= 0:
                return math.nan
            return quota / period
        text = files.text(f"{self._unified}{group}/cpu.max")
        words = [] if isinstance(text, Fault) else text.split()
        if len(words) != 2 or not (words[0].isdigit() and words[1].isdigit()) or words[1] == "0":
            return math.nan
        return int(words[0]) / int(words[1])

    def _block_io(self, path: str) -> tuple[float, float]:
        folder = self._controllers.get("blkio", "") + path.rstrip("/")
        for name in ("blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"):
            text = files.text(f"{folder}/{name}")
            if not isinstance(text, Fault):
                rows = [line.split() for line in text.splitlines()]
                sums = {"Read": 0.0, "Write": 0.0}
                for row in rows:
                    if len(row) == 3 and row[1] in sums and row[2].isdigit():
                        sums[row[1]] += int(row[2])
                return sums["Read"], sums["Write"]
        return math.nan, math.nan


def _table(path: str) -> dict[str, float] | None:
    """Return a file of "name value" lines."""
    text = files.text(path)
    if isinstance(text, Fault):
        return None
    rows = (line.split() for line in text.splitlines())
    return {row[0]: float(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def _io(path: str) -> tuple[float, float]:
    """Return bytes read and written on all devices together. Source: io.stat, "MAJ:MIN rbytes=N wbytes=N ..."."""
    text = files.text(path)
    if isinstance(text, Fault):
        return math.nan, math.nan
    sums = {"rbytes": 0.0, "wbytes": 0.0}
    for word in text.split():
        name, equals, value = word.partition("=")
        if equals and name in sums and value.isdigit():
            sums[name] += int(value)
    return sums["rbytes"], sums["wbytes"]


def _pressure(path: str) -> float:
    """Return the time in which some task waited. Source: pressure stall information, "some ... total=MICROSECONDS"."""
    text = files.text(path)
    return math.nan if isinstance(text, Fault) else some_pressure_seconds(text)


def some_pressure_seconds(text: str) -> float:
    """Return the `total` of the "some" line of a pressure file, NaN without one."""
    for line in text.splitlines():
        if line.startswith("some "):
            total = line.rpartition("total=")[2]
            return int(total) * _MICROSECONDS if total.isdigit() else math.nan
    return math.nan
