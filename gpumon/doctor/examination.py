"""Everything the checks look at, read once: driver, cards, tree, packages, device files, host."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path

from gpumon.doctor.patience import within
from gpumon.hardware.procfs import ProcfsHost
from gpumon.hardware.reader import CardReader, NodeReader, SlowSample
from gpumon.hardware.roots import default_procfs_root, default_sysfs_root
from gpumon.hardware.standing import unsupported_platform
from gpumon.hardware.sysfs import aer_errors
from gpumon.model.card import Card
from gpumon.model.clock import Clock
from gpumon.model.fault import Fault
from gpumon.model.topology import NodeFacts, Topology

_DISTRIBUTIONS = (
    "gpumon-exporter",
    "nvidia-ml-py",
    "pynvml",
    "numpy",
    "apscheduler",
    "structlog",
    "msgspec",
    "psutil",
    "textual",
    "apprise",
)
# One card's scalars take milliseconds; a driver that brings a card up first takes seconds.
_ANSWER_TIMEOUT_S = 10.0
# adjtimex(2) returns TIME_ERROR while no daemon disciplines the clock. The kernel's struct timex has 208 bytes.
_TIME_ERROR = 5
_TIMEX_BYTES = 256


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """A device file of the driver and whether this user may open it."""

    path: str
    readable: bool


@dataclass(frozen=True, slots=True)
class ProcessSight:
    """How much of the cards' processes can be seen from here."""

    listed: int = 0  # by the driver
    hidden: int = 0  # of those, not shown by procfs
    foreign: bool = False  # the driver's numbers are of another namespace than this procfs
    slice_hooks: tuple[str, ...] = ()  # libraries that answer for NVML inside containers


@dataclass(frozen=True, slots=True)
class Examination:
    """The node as the doctor found it. None or NaN: could not be read."""

    facts: NodeFacts
    cards: tuple[Card, ...] = ()
    fault: Fault | None = None  # why the driver does not answer
    topology: Topology = field(default_factory=Topology)
    readings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # uuid -> key -> value, base units
    silent: frozenset[str] = frozenset()  # uuids of cards whose calls did not come back
    aer: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # PCI address -> kind -> count since boot
    platform: str = "linux"
    unsupported: str = ""  # wsl, jetson
    distributions: Mapping[str, str] = field(default_factory=dict)  # installed Python packages -> version
    device_files: tuple[DeviceFile, ...] = ()
    profiling_restricted: bool | None = None  # the driver keeps profiling counters for administrators
    hidepid: str = ""  # of procfs: "", "1", "2", "invisible", "ptraceable", ...
    processes: ProcessSight = field(default_factory=ProcessSight)
    user_id: int = 0
    shm_bytes: float = float("nan")  # size of /dev/shm
    clock_synchronised: bool | None = None
    clock_source: str = ""
    wall_s: float = float("nan")
    config_problems: tuple[str, ...] | None = None  # None: nobody looked
    open_s: float = float("nan")  # what opening the driver and probing the cards took
    topology_s: float = float("nan")  # what reading the PCI tree and the peer matrix took


def answering(examination: Examination) -> tuple[Card, ...]:
    """Return the cards that can be measured: probed without a fault, and not silent since."""
    return tuple(
        card for card in examination.cards if card.fault is None and card.identity.uuid not in examination.silent
    )


def examine(
    node: NodeReader,
    clock: Callable[[Card], Clock],
    *,
    check_config: Callable[[], Sequence[str]] | None = None,
    procfs_root: Path | None = None,
    sysfs_root: Path | None = None,
    filesystem_root: Path = Path("/"),
) -> Examination:
    """Read the node once. `node` is opened and left open; the caller closes it.

    Args:
        node: the driver or a simulated node.
        clock: makes the clock of one card's reader.
        check_config: returns the problems of the configuration, none when it is valid.
    """
    proc = procfs_root or default_procfs_root()
    sysfs = sysfs_root or default_sysfs_root()
    before_s = time.perf_counter()
    opened = node.open()
    opened_s = time.perf_counter()
    cards = () if isinstance(opened, Fault) else tuple(opened)
    facts = node.facts()
    read_s = time.perf_counter()
    topology = node.topology(cards)
    topology_s = time.perf_counter() - read_s
    readings = read_cards(node, cards, clock)
    return Examination(
        facts=facts,
        cards=cards,
        fault=opened if isinstance(opened, Fault) else None,
        topology=topology,
        readings=readings,
        silent=frozenset(card.identity.uuid for card in cards if card.fault is None) - readings.keys(),
        aer={} if facts.simulated else _aer(topology, sysfs),
        platform="linux" if facts.simulated else sys.platform,
        unsupported="" if facts.simulated else unsupported_platform(facts, procfs_root=proc),
        distributions=_distributions(),
        device_files=() if facts.simulated else _device_files(filesystem_root),
        profiling_restricted=None if facts.simulated else _profiling_restricted(proc),
        hidepid=_hidepid(proc),
        processes=ProcessSight() if facts.simulated else _sight(_listed(node, cards, clock), proc, sysfs),
        user_id=os.getuid(),
        shm_bytes=_shm_bytes(filesystem_root / "dev/shm"),
        clock_synchronised=_clock_synchronised(),
        clock_source=_text(sysfs / "devices/system/clocksource/clocksource0/current_clocksource"),
        wall_s=time.time(),
        config_problems=None if check_config is None else tuple(check_config()),
        open_s=opened_s - before_s,
        topology_s=topology_s,
    )


def read_cards(
    node: NodeReader, cards: Sequence[Card], clock: Callable[[Card], Clock]
) -> Mapping[str, Mapping[str, float]]:
    """Return the scalars of each usable card: uuid -> key of model/fields.py -> value. A hung card is left out."""
    answers = {
        card.identity.uuid: within(_ANSWER_TIMEOUT_S, partial(_scalars, node.card_reader(card, clock(card))))
        for card in cards
        if card.fault is None
    }
    return {uuid: answer for uuid, answer in answers.items() if not isinstance(answer, Fault)}


def _scalars(reader: CardReader) -> Mapping[str, float]:
    readings: dict[str, float] = {}
    for sample in (reader.quick(), reader.rare()):
        if isinstance(sample, SlowSample):
            readings.update(sample.readings)
    return readings


def _listed(node: NodeReader, cards: Sequence[Card], clock: Callable[[Card], Clock]) -> frozenset[int]:
    """Return the pids that the driver lists on any card that answers."""
    answers = (
        within(_ANSWER_TIMEOUT_S, node.card_reader(card, clock(card)).processes) for card in cards if card.fault is None
    )
    return frozenset(process.pid for found in answers if not isinstance(found, Fault) for process in found)


def _sight(listed: frozenset[int], proc: Path, sysfs: Path) -> ProcessSight:
    host = ProcfsHost(procfs_root=proc, sysfs_root=sysfs, environ=False)
    table = host.processes(listed, 0.0)
    hooks = {process.slice_hook for process in table.processes} - {""}
    return ProcessSight(len(listed), table.hidden, table.foreign_pids, tuple(sorted(hooks)))


def _aer(topology: Topology, sysfs: Path) -> Mapping[str, Mapping[str, float]]:
    """Return the error counts of both ends of every hop; an end without AER is left out."""
    ends = {end for path in topology.paths for hop in path.hops for end in (hop.address, hop.upstream) if end}
    ends |= {gpu.address for gpu in topology.pci_gpus}
    counts = {end: aer_errors(end, sysfs_root=sysfs) for end in sorted(ends)}
    return {end: count for end, count in counts.items() if not isinstance(count, Fault)}


def _distributions() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _device_files(root: Path) -> tuple[DeviceFile, ...]:
    files = sorted(path for path in (root / "dev").glob("nvidia*") if path.name != "nvidia-caps")
    return tuple(DeviceFile(str(path), os.access(path, os.R_OK | os.W_OK)) for path in files)


def _profiling_restricted(proc: Path) -> bool | None:
    """Return the module option NVreg_RestrictProfilingToAdminUsers as the loaded driver applies it."""
    for line in _text(proc / "driver/nvidia/params").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "RmProfilingAdminOnly":
            return value.strip() != "0"
    return None


def _hidepid(proc: Path) -> str:
    """Return the hidepid option of the procfs we read, "" without."""
    for line in _text(proc / "self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("proc ") and before.split()[4:5] == [str(proc)]:
            for option in after.split()[-1].split(","):
                name, _, value = option.partition("=")
                if name == "hidepid" and value not in {"0", "off"}:
                    return value
    return ""


def _shm_bytes(path: Path) -> float:
    try:
        status = os.statvfs(path)
    except OSError:
        return float("nan")
    return float(status.f_blocks * status.f_frsize)


def _clock_synchronised() -> bool | None:
    """Return whether something keeps the wall clock right, None where the system call is not allowed."""
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
    if adjtimex is None:
        return None
    state = int(adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    return None if state < 0 else state != _TIME_ERROR


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
