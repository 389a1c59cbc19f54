"""The signals findings rest on: what each is, who may read it, and whether it was there.

A closed table. Without a signal a finding that needs it does not exist: a guess in its place would be worse than
silence. The documents list it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gpumon.analysis.findings.subject import Subject

ANYBODY = ("anybody", "任何用户")
SAME_USER = ("the job's user, or root", "任务所属用户或 root")
NOT_HIDDEN = ("anybody, unless /proc is mounted with hidepid", "任何用户（/proc 以 hidepid 挂载时除外）")
HOST_ONLY = (
    "anybody on the host; unknown inside a virtual machine",
    "主机上的任何用户；虚拟机内不可知",
)
HOST_ROOT = ("root on the host", "主机上的 root")


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal. `there` tells whether the job's window had it."""

    name: str
    what: tuple[str, str]  # English, Chinese
    privilege: tuple[str, str]
    there: Callable[[Subject], bool]


def _every(subject: Subject, figure: Callable[[Subject, int], float]) -> bool:
    return subject.size > 0 and all(not math.isnan(figure(subject, at)) for at in range(subject.size))


def _readable(subject: Subject, name: str) -> bool:
    return not math.isnan(subject.rate(name))


PCIE = Signal(
    "pcie",
    ("PCIe traffic of each card, both directions (NVML)", "每张卡的 PCIe 双向流量（NVML）"),
    ANYBODY,
    lambda s: s.size > 0 and all(facts.seen.pcie.known for facts in s.cards),
)
NVLINK = Signal(
    "nvlink",
    ("NVLink traffic of each card (NVML)", "每张卡的 NVLink 流量（NVML）"),
    ANYBODY,
    lambda s: s.size > 0 and all(facts.seen.nvlink is not None and facts.seen.nvlink.known for facts in s.cards),
)
UTILIZATION = Signal(
    "utilization",
    ("share of time with a kernel running (NVML)", "有内核在运行的时间占比（NVML）"),
    ANYBODY,
    lambda s: _every(s, lambda t, at: t.cards[at].seen.utilization),
)
POWER = Signal(
    "power",
    ("power draw (NVML)", "功率（NVML）"),
    ANYBODY,
    lambda s: _every(s, lambda t, at: t.cards[at].seen.power_mean),
)
POWER_LIMIT = Signal(
    "power_limit",
    ("power limit and its default (NVML)", "功率上限及其默认值（NVML）"),
    ANYBODY,
    lambda s: s.size > 0 and all(facts.seen.power_limit > 0.0 and facts.seen.power_default > 0.0 for facts in s.cards),
)
MEMORY = Signal(
    "memory",
    ("device memory in use (NVML)", "显存占用（NVML）"),
    ANYBODY,
    lambda s: _every(s, lambda t, at: t.cards[at].memory_share),
)
CLOCK_REASONS = Signal(
    "clock_reasons",
    ("why the clock is held down: heat, power (NVML)", "降频原因：温度、功率（NVML）"),
    ANYBODY,
    lambda s: s.size > 0,
)
LINK_STATE = Signal(
    "link_state",
    ("width and generation of the link under load (NVML, sysfs)", "负载下的链路宽度和代数（NVML、sysfs）"),
    ANYBODY,
    lambda s: s.size > 0 and any(facts.downtrained is not None for facts in s.cards),
)
PROCESS_LIST = Signal(
    "process_list",
    ("which process is on which card (NVML)", "哪个进程在哪张卡上（NVML）"),
    ANYBODY,
    lambda s: s.job.kind.value != "unattributed" and len(s.job.processes) > 0,
)
PEER_ACCESS = Signal(
    "peer_access",
    ("what the driver says about direct access between cards (NVML)", "驱动声明的卡间直连状态（NVML）"),
    ANYBODY,
    lambda s: bool(s.pairs) and all(pair.p2p != "unknown" for pair in s.pairs),
)
PCI_TREE = Signal(
    "pci_tree",
    ("the bridges above each card (sysfs)", "每张卡上方的 PCI 桥（sysfs）"),
    HOST_ONLY,
    lambda s: not s.topology.flat and s.size > 0 and all(facts.path is not None for facts in s.cards),
)
ACCESS_CONTROL = Signal(
    "access_control",
    ("access control of the bridges, or the IOMMU's mode (sysfs)", "PCI 桥的 ACS 设置或 IOMMU 模式（sysfs）"),
    HOST_ROOT,
    lambda s: s.topology.acs_enabled is not None or bool(s.topology.iommu),
)
COMMAND_LINE = Signal(
    "command_line",
    ("command line, as it was started: what was asked for", "启动时的命令行：要求的是什么"),
    NOT_HIDDEN,
    lambda s: bool(s.layout.privileges & {"cmdline", "config"}),
)
BACKEND = Signal(
    "backend",
    ("the library that exchanges data: command line, or names of PyTorch's threads", "通信库：命令行或线程名"),
    NOT_HIDDEN,
    lambda s: bool(s.layout.backend),
)
ENVIRONMENT = Signal(
    "environment",
    ("allow-listed environment variables: NCCL_*, CUDA_VISIBLE_DEVICES, ...", "白名单内的环境变量：NCCL_* 等"),
    SAME_USER,
    lambda s: "environ" in s.layout.privileges,
)
ALLOCATION = Signal(
    "allocation",
    ("cards the job's container was given (/proc/PID/mountinfo, container runtime)", "容器分到的显卡"),
    NOT_HIDDEN,
    lambda s: s.job.allocated > 0,
)
SHARED_MEMORY = Signal(
    "shared_memory",
    ("size of /dev/shm (/proc/PID/mountinfo)", "/dev/shm 的大小（/proc/PID/mountinfo）"),
    NOT_HIDDEN,
    lambda s: any(not math.isnan(process.shm_size_bytes) for process in s.processes),
)
LOOPBACK = Signal(
    "loopback",
    ("bytes through the loopback device (/proc/PID/net/dev)", "回环网卡流量（/proc/PID/net/dev）"),
    NOT_HIDDEN,
    lambda s: _readable(s, "loopback_bytes_per_second"),
)
CPU_TIME = Signal(
    "cpu_time",
    ("CPU time of the job's processes (/proc/PID/stat)", "任务各进程的 CPU 时间（/proc/PID/stat）"),
    NOT_HIDDEN,
    lambda s: _readable(s, "gpu_process_cpus"),
)
CPU_QUOTA = Signal(
    "cpu_quota",
    ("CPU quota of the control group and how often it held the job", "控制组的 CPU 配额和被限流的比例"),
    ANYBODY,
    lambda s: _readable(s, "throttled_ratio"),
)
AFFINITY = Signal(
    "affinity",
    ("CPUs a process may run on (/proc/PID/status)", "进程可用的 CPU（/proc/PID/status）"),
    NOT_HIDDEN,
    lambda s: any(process.cpus_allowed > 0 for process in s.processes),
)
NUMA = Signal(
    "numa",
    (
        "the card's NUMA node, and those of the CPUs its process may run on",
        "显卡与进程可用 CPU 的 NUMA 节点",
    ),
    NOT_HIDDEN,
    lambda s: any(facts.numa_nodes and facts.card.identity.numa_node >= 0 for facts in s.cards),
)
DISK_WAIT = Signal(
    "disk_wait",
    ("time spent waiting for the disk (/proc/PID/stat, PSI of the control group)", "等待磁盘的时间"),
    NOT_HIDDEN,
    lambda s: _readable(s, "io_wait_ratio") or _readable(s, "io_pressure_ratio"),
)
DISK_WRITES = Signal(
    "disk_writes",
    ("bytes the control group writes (io.stat)", "控制组写入的字节数（io.stat）"),
    ANYBODY,
    lambda s: _readable(s, "write_bytes_per_second"),
)
SWAP = Signal(
    "swap",
    ("swap traffic of the host and swapped memory of the job (/proc)", "主机交换流量和任务被换出的内存（/proc）"),
    NOT_HIDDEN,
    lambda s: (
        not math.isnan(s.swap.in_bytes_per_second + s.swap.out_bytes_per_second)
        and any(not math.isnan(process.swap_bytes) for process in (*s.processes, *s.relatives))
    ),
)
STRATEGY = Signal(
    "strategy",
    (
        "how the work is cut up: traffic, memory, processes and command line together",
        "切分方式：由流量、显存、进程和命令行综合判断",
    ),
    NOT_HIDDEN,
    lambda s: bool(s.strategy.strategy),
)
TIME_SPLIT = Signal(
    "time_split",
    ("the job's time split: utilization with power or GPM, and traffic (NVML)", "时间分解：占用率、功率或 GPM、流量"),
    ANYBODY,
    lambda s: s.split is not None,
)
TENANTS = Signal(
    "tenants",
    ("whose job it is (the configuration's rules)", "任务属于哪个租户（配置中的规则）"),
    ANYBODY,
    lambda s: s.tenants_known,
)

SIGNALS: tuple[Signal, ...] = (
    PCIE,
    NVLINK,
    UTILIZATION,
    POWER,
    POWER_LIMIT,
    MEMORY,
    CLOCK_REASONS,
    LINK_STATE,
    PROCESS_LIST,
    PEER_ACCESS,
    PCI_TREE,
    ACCESS_CONTROL,
    COMMAND_LINE,
    BACKEND,
    ENVIRONMENT,
    ALLOCATION,
    SHARED_MEMORY,
    LOOPBACK,
    CPU_TIME,
    CPU_QUOTA,
    AFFINITY,
    NUMA,
    DISK_WAIT,
    DISK_WRITES,
    SWAP,
    STRATEGY,
    TIME_SPLIT,
    TENANTS,
)
