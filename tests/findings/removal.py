"""Each signal taken away from a job, as it is missing where its privilege or its source is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from gpumon.analysis.evidence import LinkEvidence
from gpumon.analysis.findings import signals
from gpumon.analysis.findings.signals import Signal
from gpumon.analysis.findings.subject import Subject, Swap
from gpumon.analysis.humps import Humps
from gpumon.analysis.strategy import Seen
from gpumon.model.job import JobKind
from gpumon.model.topology import Topology
from tests.findings.subjects import asked, each_card, each_facts, hosted

UNSEEN = LinkEvidence()


def _privileges(subject: Subject, *gone: str) -> Subject:
    return asked(subject, privileges=subject.layout.privileges - set(gone))


def _processes(subject: Subject, **changes: object) -> Subject:
    return replace(
        subject,
        processes=tuple(replace(one, **changes) for one in subject.processes),  # type: ignore[arg-type]
        relatives=tuple(replace(one, **changes) for one in subject.relatives),  # type: ignore[arg-type]
    )


REMOVED: Mapping[Signal, Callable[[Subject], Subject]] = {
    signals.PCIE: lambda s: each_card(s, pcie=UNSEEN),
    signals.NVLINK: lambda s: each_card(s, nvlink=None),
    signals.UTILIZATION: lambda s: each_card(s, utilization=math.nan, gap=math.nan),
    signals.POWER: lambda s: each_card(s, power=Humps()),
    signals.POWER_LIMIT: lambda s: each_card(s, power_limit=math.nan, power_default=math.nan),
    signals.MEMORY: lambda s: each_facts(s, memory_total=math.nan),
    signals.CLOCK_REASONS: lambda s: each_card(s, throttled={}),
    signals.LINK_STATE: lambda s: each_facts(s, downtrained=None),
    signals.PROCESS_LIST: lambda s: replace(s, job=replace(s.job, kind=JobKind.UNATTRIBUTED, processes=())),
    signals.PEER_ACCESS: lambda s: replace(s, topology=replace(s.topology, p2p=())),
    signals.PCI_TREE: lambda s: replace(
        each_facts(s, path=None), topology=Topology(p2p=s.topology.p2p, flat=True, acs_enabled=None)
    ),
    signals.ACCESS_CONTROL: lambda s: replace(s, topology=replace(s.topology, acs_enabled=None, iommu="")),
    signals.COMMAND_LINE: lambda s: _privileges(s, "cmdline", "config"),
    signals.BACKEND: lambda s: asked(s, backend=""),
    signals.ENVIRONMENT: lambda s: _privileges(asked(s, nccl=(), visible_devices=None), "environ"),
    signals.ALLOCATION: lambda s: replace(s, job=replace(s.job, allocated=-1)),
    signals.SHARED_MEMORY: lambda s: _processes(s, shm_size_bytes=math.nan),
    signals.LOOPBACK: lambda s: hosted(s, loopback_bytes_per_second=math.nan),
    signals.CPU_TIME: lambda s: hosted(s, gpu_process_cpus=math.nan, busiest_process_cpus=math.nan),
    signals.CPU_QUOTA: lambda s: hosted(s, throttled_ratio=math.nan),
    signals.AFFINITY: lambda s: _processes(s, cpus_allowed=0),
    signals.NUMA: lambda s: each_facts(s, numa_nodes=frozenset()),
    signals.DISK_WAIT: lambda s: hosted(s, io_wait_ratio=math.nan, io_pressure_ratio=math.nan),
    signals.DISK_WRITES: lambda s: hosted(s, write_bytes_per_second=math.nan),
    signals.SWAP: lambda s: replace(s, swap=Swap()),
    signals.STRATEGY: lambda s: replace(s, strategy=Seen()),
    signals.TIME_SPLIT: lambda s: replace(s, split=None),
    signals.TENANTS: lambda s: replace(s, tenants_known=False),
}
