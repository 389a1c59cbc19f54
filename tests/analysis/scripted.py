"""Scripted cards for the analysis: programs of phases become literal ticks, without any simulator.

A card repeats its phases for ever. Power is read from a ring at 50 Hz, utilization and memory-controller activity at
7 Hz, the link through byte counters every 50 ms or through 20 ms windows of alternating direction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpumon import analysis
from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, NvLinkFacts, PowerKind
from gpumon.model.fault import Fault
from gpumon.model.job import Job, JobCard, JobKind, Layout
from gpumon.model.process import CgroupSample, HostSample, Process, ProcessTable
from gpumon.model.samples import CardTick, Floats, LinkSlots, Series, Tick
from gpumon.model.settings import Settings
from gpumon.model.topology import NodeFacts, Topology
from gpumon.model.verdict import Verdict

NODE = NodeFacts("node", "none", "6.8", "580.1", 64, False, "host", True, 0.0)
TREE = Topology()
CEILING = 63.0e9  # generation 5, 16 lanes
FINE_S = 0.005


@dataclass(frozen=True, slots=True)
class Phase:
    """What a card does for some seconds."""

    seconds: float
    watts: float
    rx: float = 0.0  # bytes per second
    tx: float = 0.0
    kernel: float = 1.0  # share of the phase with a kernel resident
    memory: float = 0.3  # memory-controller activity


@dataclass(frozen=True, slots=True)
class Script:
    """A card: its phases, and how it can be watched."""

    phases: tuple[Phase, ...]
    windows: bool = False  # 20 ms windows instead of byte counters
    limit: float = 575.0
    default_limit: float = 575.0
    lag_s: float = 0.04  # of the power reading
    throttle: frozenset[str] = frozenset()
    clock_ratio: float = 0.95
    temperature: float = 60.0
    lanes: int = 16
    blind: frozenset[str] = frozenset()  # of: power, link, memory, utilization, processes
    late_every_s: float = 0.0  # a poller held up for 300 ms so often


def trace(script: Script, seconds: int) -> dict[str, Floats]:
    """Return the phases on a fine grid, shape (seconds / FINE_S,) each."""
    length = sum(phase.seconds for phase in script.phases)
    moments = (np.arange(round(seconds / FINE_S)) + 0.5) * FINE_S % length
    ends = np.cumsum([phase.seconds for phase in script.phases])
    which = np.minimum(np.searchsorted(ends, moments, side="right"), len(script.phases) - 1)
    names = ("watts", "rx", "tx", "kernel", "memory")
    return {name: np.array([getattr(phase, name) for phase in script.phases])[which] for name in names}


def _means(values: Floats, edges_s: Floats) -> Floats:
    """Return the mean of a fine grid between neighbouring edges."""
    places = np.clip(np.round(edges_s / FINE_S).astype(int), 0, values.size)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return (sums[places[1:]] - sums[places[:-1]]) / np.maximum(1, places[1:] - places[:-1])


def _slots(trace: dict[str, Floats], script: Script, second: int) -> LinkSlots:
    if "link" in script.blind:
        return LinkSlots()
    if script.windows:
        starts = second + np.array([0.02, 0.12, 0.22, 0.31, 0.43, 0.52, 0.63, 0.71, 0.83, 0.92])
        ends = starts + 0.02
        moved = {
            name: np.array([_means(trace[name], np.array(pair))[0] for pair in zip(starts, ends, strict=True)]) * 0.02
            for name in ("rx", "tx")
        }
        odd = np.arange(starts.size) % 2 == 1
        rx, tx = np.where(odd, np.nan, moved["rx"]), np.where(odd, moved["tx"], np.nan)
        return LinkSlots(starts, ends, rx, tx, source=LinkSource.WINDOW)
    edges = second + np.linspace(0.0, 1.0, 21)
    rx, tx = (_means(trace[name], edges) * np.diff(edges) for name in ("rx", "tx"))
    keep = np.ones(20, bool)
    if script.late_every_s and second % script.late_every_s == 0:
        keep[8:14] = False
    return LinkSlots(edges[:-1][keep], edges[1:][keep], rx[keep], tx[keep], source=LinkSource.COUNTER)


def _series(values: Floats, second: int, count: int, lag_s: float = 0.0) -> Series:
    edges = second + np.linspace(0.0, 1.0, count + 1)
    return Series(edges[1:], _means(values, np.maximum(0.0, edges - lag_s)))


def card_tick(index: int, trace: dict[str, Floats], script: Script, second: int) -> CardTick:
    power = _series(trace["watts"], second, 50, script.lag_s)
    # A cheap noise of one per cent that differs by card and second.
    power = Series(power.t_s, power.value * (1.0 + 0.017 * np.sin((index + 1.3) * 7919.0 * power.t_s)))
    kernel, memory = _series(trace["kernel"], second, 7), _series(trace["memory"] * trace["kernel"], second, 7)
    readings = {
        "utilization_ratio": float(kernel.value.mean()),
        "memory_controller_ratio": float(memory.value.mean()),
        "power_watts": float(power.value.mean()),
        "power_limit_watts": script.limit,
        "power_default_limit_watts": script.default_limit,
        "sm_clock_hertz": script.clock_ratio * 2.4e9,
        "sm_clock_max_hertz": 2.4e9,
        "temperature_gpu_celsius": script.temperature,
        "link_generation": 5.0,
        "link_generation_max": 5.0,
        "link_width_lanes": float(script.lanes),
        "link_width_max_lanes": float(script.lanes),
    }
    hidden = {"power": "power_watts", "memory": "memory_controller_ratio", "utilization": "utilization_ratio"}
    for name in script.blind & hidden.keys():
        del readings[hidden[name]]
    empty = Series()
    return CardTick(
        f"GPU-{index}",
        True,
        None,
        second + 1.0,
        pcie=_slots(trace, script, second),
        power=empty if "power" in script.blind else power,
        power_kind=PowerKind.NONE if "power" in script.blind else PowerKind.RING,
        utilization=empty if "utilization" in script.blind else kernel,
        memory_controller=empty if "memory" in script.blind else memory,
        readings=readings,
        throttle_reasons=script.throttle,
        processes=() if "processes" in script.blind else None,
    )


def card(index: int) -> Card:
    """Return a card as probed."""
    identity = CardIdentity(
        f"GPU-{index}", index, "NVIDIA GeForce RTX 5090", f"0000:{index:02x}:00.0", "blackwell", 0, 0
    )
    able = Capabilities(frozenset(), LinkSource.COUNTER, LinkSource.NONE, PowerKind.RING, 32)
    return Card(identity, able, NvLinkFacts(0, 0, "", math.nan, ()))


@dataclass(frozen=True, slots=True)
class HostScript:
    """What the job's processes do on the host; NaN where not readable."""

    cpus: float = 1.0  # of each GPU process
    loaders: float = 0.0
    read: float = 0.0  # bytes per second
    write: float = 0.0


def _table(host: HostScript | None, processes: int, second: int) -> ProcessTable:
    if host is None or second % 3:
        return ProcessTable() if host is None else _table(host, processes, second - second % 3)

    def process(pid: int, cpus: float) -> Process:
        return Process(
            pid=pid,
            start_ticks=1,
            ppid=1,
            session=1,
            uid=1000,
            state="R",
            comm="python",
            cmdline=Fault.NO_PERMISSION,
            cgroup="",
            environ=Fault.NO_PERMISSION,
            cpu_seconds=cpus * second,
            threads=1,
            gpu_minors=Fault.NOT_FOUND,
        )

    members = [process(100 + number, host.cpus) for number in range(processes)] + [process(900, host.loaders)]
    group = CgroupSample("/job", read_bytes=host.read * second, write_bytes=host.write * second)
    return ProcessTable(read_s=float(second + 1), processes=tuple(members), cgroups={"/job": group})


def job(cards: int, layout: Layout, processes: int | None = None) -> Job:
    """Return a job on the first cards, one GPU process a card unless said otherwise."""
    count = cards if processes is None else processes
    return Job(
        "session:1",
        JobKind.SESSION,
        "unassigned",
        tuple(JobCard(f"GPU-{index}") for index in range(cards)),
        tuple((100 + number, 1) for number in range(count)),
        relatives=((900, 1),),
        cgroups=("/job",),
        layout=layout,
    )


def tick_of(
    second: int, cards: tuple[Card, ...], card_ticks: tuple[CardTick, ...], table: ProcessTable | None = None
) -> Tick:
    """Return the tick of one second."""
    processes = table if table is not None else ProcessTable()
    now_s, host = second + 1.0, HostSample()
    return Tick(second + 1, now_s, 1e9 + now_s, True, None, NODE, cards, TREE, card_ticks, processes, host)


def watch(
    scripts: Sequence[Script],
    seconds: int = 36,
    layout: Layout | None = None,
    host: HostScript | None = HostScript(),
    processes: int | None = None,
    *,
    first_seen_s: float = math.nan,
) -> list[Verdict]:
    """Return the verdict after every tick of a node that runs one job on all its cards."""
    different = {script: trace(script, seconds) for script in scripts}
    traces = [different[script] for script in scripts]
    cards = tuple(card(index) for index in range(len(scripts)))
    runs = replace(job(len(scripts), layout or Layout(), processes), first_seen_s=first_seen_s)
    memory = analysis.initial_memory()
    verdicts = []
    for second in range(seconds):
        card_ticks = tuple(
            card_tick(index, traced, script, second)
            for index, (traced, script) in enumerate(zip(traces, scripts, strict=True))
        )
        tick = tick_of(second, cards, card_ticks, _table(host, len(runs.processes), second))
        memory, found = analysis.analyse(memory, tick, (runs,), Settings())
        verdicts.append(found.verdicts[runs.gpu_job])
    return verdicts


def judged(scripts: Sequence[Script], **options: object) -> Verdict:
    """Return the last verdict of `watch`."""
    return watch(scripts, **options)[-1]  # type: ignore[arg-type]  # the options of watch, passed on


def blinded(scripts: Sequence[Script], *signals: str) -> list[Script]:
    """Return the scripts without some signals."""
    return [replace(script, blind=script.blind | frozenset(signals)) for script in scripts]
