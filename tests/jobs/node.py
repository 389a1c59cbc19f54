"""A node for attribution tests: cards, processes and containers as literal values, ticks made of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gpumon import jobs
from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, MigSlice, NvLinkFacts, PowerKind
from gpumon.model.fault import Fault
from gpumon.model.job import Job
from gpumon.model.process import CgroupSample, Container, HostSample, Process, ProcessTable
from gpumon.model.samples import CardTick, GpuProcess, Series, Tick
from gpumon.model.settings import Settings, TenantRule, TenantSettings
from gpumon.model.topology import NodeFacts, Topology

GIB = float(1 << 30)
IDS = tuple(f"{number:02x}" * 32 for number in range(256))  # container ids
BOOT_S = 1_700_000_000.0


def card(index: int, *, uuid: str = "", minor: int | None = None, slices: tuple[MigSlice, ...] = ()) -> Card:
    """A card of no particular model."""
    return Card(
        identity=CardIdentity(
            uuid=uuid or f"GPU-aaaa{index:04x}-0000-4000-8000-000000000000",
            index=index,
            name="Example GPU",
            pci_address=f"0000:{index:02x}:00.0",
            architecture="ada",
            minor=index if minor is None else minor,
            numa_node=0,
        ),
        capabilities=Capabilities(frozenset(), LinkSource.NONE, LinkSource.NONE, PowerKind.NONE, 0),
        nvlink=NvLinkFacts(0, 0, "", math.nan, ()),
        mig_enabled=bool(slices),
        mig_slices=slices,
    )


def case_cards(entries: Iterable[Mapping[str, object]]) -> tuple[Card, ...]:
    """The `gpus` of a case file."""
    made = []
    for entry in entries:
        slices = tuple(
            MigSlice(str(one["uuid"]), str(one.get("name", "")), int(one.get("gi", -1)), int(one.get("ci", 0)))  # type: ignore[call-overload]
            for one in entry.get("mig", ())  # type: ignore[attr-defined]
        )
        made.append(card(int(entry["index"]), uuid=str(entry["uuid"]), minor=entry.get("minor"), slices=slices))  # type: ignore[call-overload, arg-type]
    return tuple(made)


def docker(number: int) -> str:
    """The control group of a Docker container."""
    return f"0::/system.slice/docker-{IDS[number]}.scope\n"


SESSION = "0::/user.slice/user-1000.slice/session-3.scope\n"


@dataclass
class Node:
    """What the next ticks show; change it between them."""

    cards: tuple[Card, ...] = field(default_factory=lambda: tuple(card(index) for index in range(8)))
    processes: dict[int, Process] = field(default_factory=dict)
    on_card: dict[int, list[GpuProcess]] = field(default_factory=dict)  # by card index
    lost: set[int] = field(default_factory=set)
    busy: set[int] = field(default_factory=set)
    containers: dict[str, Container] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    configs: dict[tuple[int, int], Mapping[str, str]] = field(default_factory=dict)
    cgroups: dict[str, CgroupSample] = field(default_factory=dict)
    users: dict[int, str] = field(default_factory=lambda: {0: "root", 1000: "alice", 1001: "bob"})
    foreign: bool = False
    settings: Settings = field(default_factory=Settings)
    boot_s: float = BOOT_S
    memory: jobs.Memory = field(default_factory=jobs.initial_memory)
    now_s: float = 1000.0
    seq: int = 0

    def start(
        self,
        pid: int,
        words: str | tuple[str, ...] | Fault = "python train.py",
        *,
        cards: Iterable[int] = (),
        cgroup: str | Fault = SESSION,
        ppid: int = 1,
        environ: Mapping[str, str] | Fault = Fault.NO_PERMISSION,
        start_ticks: int | None = None,
        memory_bytes: float = GIB,
        sm: float = math.nan,
        **more: object,
    ) -> Process:
        """Start a process; with cards it computes on them."""
        cmdline = tuple(words.split()) if isinstance(words, str) and not isinstance(words, Fault) else words
        first = cmdline[0] if isinstance(cmdline, tuple) and cmdline else ""
        values: dict[str, object] = {
            "session": pid,
            "uid": 1000,
            "state": "S",
            "comm": re.split(r"[/ ]", first)[-1][:15],
            "gpu_minors": frozenset(),
            "cpu_seconds": 1.0,
            "threads": 1,
            **more,
        }
        self.processes[pid] = Process(
            pid=pid,
            start_ticks=pid * 100 if start_ticks is None else start_ticks,
            ppid=ppid,
            cmdline=cmdline,
            cgroup=cgroup,
            environ=environ,
            **values,  # type: ignore[arg-type]
        )
        for index in cards:
            self.compute(pid, index, memory_bytes=memory_bytes, sm=sm)
        return self.processes[pid]

    def compute(
        self,
        pid: int,
        index: int,
        *,
        memory_bytes: float = GIB,
        sm: float = math.nan,
        mig: str = "",
        kind: str = "compute",
    ) -> None:
        """Let the driver list a pid on a card."""
        self.on_card.setdefault(index, []).append(GpuProcess(pid, kind, memory_bytes, mig, sm))

    def leave(self, pid: int) -> None:
        """The driver no longer lists the pid."""
        for index, listed in self.on_card.items():
            self.on_card[index] = [one for one in listed if one.pid != pid]

    def end(self, *pids: int) -> None:
        """Processes end, and leave their cards."""
        for pid in pids:
            self.processes.pop(pid, None)
            self.leave(pid)

    def change(self, pid: int, **changes: object) -> None:
        """A process is read anew."""
        self.processes[pid] = replace(self.processes[pid], **changes)

    def read(self) -> Tick:
        """The next tick, three seconds later, with a fresh reading of everything."""
        self.seq += 1
        self.now_s += 3.0
        table = ProcessTable(
            read_s=self.now_s - 0.2,
            processes=tuple(self.processes.values()),
            cgroups=dict(self.cgroups),
            containers=dict(self.containers),
            users=self.users,
            configs=self.configs,
            containers_pending=self.pending,
            foreign_pids=self.foreign,
        )
        return Tick(
            seq=self.seq,
            mono_s=self.now_s,
            wall_s=self.boot_s + self.now_s,
            nvml_up=True,
            nvml_fault=None,
            node=NodeFacts("node", "none", "6.1", "570", 64, False, "host", not self.foreign, self.boot_s),
            cards=self.cards,
            topology=Topology(),
            card_ticks=tuple(self._card_tick(one) for one in self.cards),
            processes=table,
            host=HostSample(),
        )

    def _card_tick(self, one: Card) -> CardTick:
        index = one.identity.index
        lost = index in self.lost
        busy = 1.0 if index in self.busy else 0.0
        return CardTick(
            uuid=one.uuid if hasattr(one, "uuid") else one.identity.uuid,
            up=not lost,
            fault=Fault.LOST if lost else None,
            last_sample_s=self.now_s,
            utilization=Series(np.array([self.now_s]), np.array([busy])),
            readings={} if lost else {"memory_total_bytes": 80 * GIB},
            processes=None if lost else tuple(self.on_card.get(index, ())),
            processes_s=self.now_s - 0.5,
        )

    def tick(self, count: int = 1) -> tuple[Job, ...]:
        """Attribute the next ticks; the jobs of the last one."""
        found: tuple[Job, ...] = ()
        for _ in range(count):
            self.memory, found = jobs.attribute(self.memory, self.read(), self.settings)
        return found

    def settled(self) -> tuple[Job, ...]:
        """Attribute until nothing is left to read."""
        return self.tick(12)

    def restart(self) -> None:
        """A new daemon looks at the same node."""
        self.memory = jobs.initial_memory()


def cards_of(job: Job, *, used: bool | None = None) -> list[int]:
    """The job's card indexes, of cards named by `card`."""
    return [int(one.uuid[8:12], 16) for one in job.cards if used is None or one.used is used]


def tenants(*rules: TenantRule) -> Settings:
    """Settings with these rules and the tenants they name."""
    return Settings(tenants=TenantSettings(tuple(dict.fromkeys(rule.tenant for rule in rules)), rules))
