"""Ticks by literal values, for the recording's tests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, NvLinkFacts, PowerKind
from gpumon.model.fault import Fault
from gpumon.model.process import CgroupSample, Container, HostSample, Process, ProcessTable
from gpumon.model.samples import CardTick, Event, GpuProcess, LinkSlots, Series, Tick
from gpumon.model.topology import CardPath, LinkHop, NodeFacts, Topology

NODE = NodeFacts("node7", "none", "6.1", "580.1", 64, False, "host", True, 1e9)


def card(index: int) -> Card:
    """A GeForce card with byte counters."""
    return Card(
        CardIdentity(
            f"GPU-{index:08d}", index, "NVIDIA GeForce RTX 5090", f"0000:{index:02x}:00.0", "blackwell", index, 0
        ),
        Capabilities(frozenset({"pcie_counter"}), LinkSource.COUNTER, LinkSource.NONE, PowerKind.RING, 32),
        NvLinkFacts(0, 0, "", math.nan, ()),
    )


def topology(cards: tuple[Card, ...]) -> Topology:
    """Each card on its own root port."""
    return Topology(
        paths=tuple(
            CardPath(
                one.identity.uuid,
                one.identity.pci_address,
                (LinkHop(one.identity.pci_address, "", 5, 16, 5, 16),),
                "pci0000:00",
                0,
            )
            for one in cards
        )
    )


def _process(pid: int, **read: Any) -> Process:
    return Process(
        pid=pid,
        start_ticks=4000,
        ppid=1,
        session=10,
        uid=1000,
        state="R",
        comm="python",
        cpu_seconds=12.34,
        threads=5,
        **read,
    )


def processes(read_s: float) -> ProcessTable:
    """A training rank and one whose details are hidden."""
    return ProcessTable(
        read_s=read_s,
        processes=(
            _process(
                10,
                cmdline=("python", "train.py", "--api_key", "abc"),
                cgroup="0::/docker/ab",
                environ={"RANK": "0"},
                gpu_minors=frozenset({0}),
            ),
            _process(11, **dict.fromkeys(("cmdline", "cgroup", "environ", "gpu_minors"), Fault.NO_PERMISSION)),
        ),
        cgroups={"/docker/ab": CgroupSample("/docker/ab", cpu_seconds=5.0)},
        containers={"ab": Container("ab", "secret-name", "docker", "img", {"team": "acme"}, frozenset({0}))},
        hidden=1,
        users={1000: "alice"},
    )


def tick(seq: int, cards: tuple[Card, ...], layout: Topology, table: ProcessTable, seed: int = 0) -> Tick:
    """One noisy second of a communication-bound job."""
    rng = np.random.default_rng((seed, seq))
    t0 = 1000.0 + seq
    edges = t0 + np.arange(19) * (1 / 18) + rng.normal(0, 0.001, 19)
    ring_t = t0 + np.arange(50) * 0.02
    slow_t = t0 + np.arange(7) / 7
    return Tick(
        seq=seq,
        mono_s=t0 + 1,
        wall_s=1.7e9 + seq,
        nvml_up=True,
        nvml_fault=None,
        node=NODE,
        cards=cards,
        topology=layout,
        card_ticks=tuple(
            CardTick(
                uuid=one.identity.uuid,
                up=one.identity.index != 3,
                fault=Fault.LOST if one.identity.index == 3 else None,
                last_sample_s=t0 + 0.9,
                pcie=LinkSlots(
                    t0_s=edges[:-1],
                    t1_s=edges[1:],
                    rx_bytes=np.where(np.arange(18) % 4 < 2, rng.normal(1.5e9, 2e7, 18), rng.uniform(0, 1e6, 18)),
                    tx_bytes=np.where(np.arange(18) % 4 < 2, rng.normal(1.5e9, 2e7, 18), math.nan),
                    power_watts=rng.normal(300, 6, 18),
                    source=LinkSource.COUNTER,
                ),
                power=Series(ring_t, rng.normal(300, 6, 50)),
                power_kind=PowerKind.RING,
                utilization=Series(slow_t, rng.integers(95, 101, 7) / 100),
                memory_controller=Series(slow_t, rng.integers(5, 20, 7) / 100),
                sm_clock=Series(slow_t, np.full(7, 2.4e9)),
                readings={
                    "power_watts": float(rng.normal(300, 6)),
                    "temperature_gpu_celsius": 60.0 + seq % 3,
                    "memory_used_bytes": 20e9,
                    "energy_joules": 1e6 + 300.0 * seq,
                    "utilization_ratio": 1.0,
                    "sm_clock_hertz": 2.4e9,
                },
                faults={"ecc_corrected": Fault.NOT_SUPPORTED},
                throttle_reasons=frozenset({"sw_power_cap"}) if seq % 7 == 0 else frozenset(),
                processes=(GpuProcess(10, "compute", 1.9e10, "", 0.97),),
                processes_s=table.read_s,
            )
            for one in cards
        ),
        processes=table,
        host=HostSample(cpu_busy_seconds=100.0 + seq, memory_total_bytes=2**38),
        events=(Event(t0, "xid", cards[0].identity.uuid, 31),) if seq == 5 else (),
    )


def ticks(count: int, card_count: int = 8) -> list[Tick]:
    """Seconds of a node; the process list is read every third."""
    cards = tuple(card(n) for n in range(card_count))
    layout = topology(cards)
    made, table = [], processes(1000.0)
    for seq in range(count):
        if seq % 3 == 0:
            table = processes(1000.0 + seq)
        made.append(tick(seq, cards, layout, table))
    return made
