"""Where gpumon stands: host, virtual machine or container, and what that lets it see.

The answer decides what is honest to say: in a virtual machine the PCI tree is the hypervisor's invention, in a
container without host pids the driver's process list may name strangers.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from gpumon.hardware.roots import default_procfs_root, default_sysfs_root
from gpumon.model.topology import NodeFacts

HOST, VIRTUAL_MACHINE, CONTAINER = "host", "vm", "container"
UNKNOWN_CONTAINER = "container"
UNKNOWN_MACHINE = "vm"

# Words in DMI strings of machines that cannot be anything but virtual. A guest may hide the CPU's hypervisor flag
# (consumer drivers once refused to start under it), so these count without the flag.
_DMI_MACHINES = (
    ("qemu", "kvm"),
    ("kvm", "kvm"),
    ("kubevirt", "kvm"),
    ("openstack", "kvm"),
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("hvm domu", "xen"),
    ("bochs", "bochs"),
    ("parallels", "parallels"),
    ("bhyve", "bhyve"),
    ("virtual machine", "hyperv"),
)
# Clouds that sell whole machines under the same DMI name as virtual ones: only with the flag.
_DMI_CLOUDS = (
    ("amazon", "amazon"),
    ("google", "google"),
    ("alibaba", "alibaba"),
    ("tencent", "tencent"),
    ("huawei", "huawei"),
    ("digitalocean", "digitalocean"),
)
_DMI_FILES = ("sys_vendor", "product_name", "board_vendor", "bios_vendor")

_CGROUP_CONTAINERS = (
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("containerd", "containerd"),
    ("crio", "crio"),
    ("/lxc", "lxc"),
)
_CONTAINER_NAMES = frozenset({name for _, name in _CGROUP_CONTAINERS} | {UNKNOWN_CONTAINER})

# The first pid namespace has a fixed inode (PROC_PID_INIT_INO in the kernel's proc_ns.h).
_FIRST_PID_NAMESPACE = "pid:[4026531836]"


def node_facts(
    driver_version: str = "",
    *,
    procfs_root: Path | None = None,
    sysfs_root: Path | None = None,
    filesystem_root: Path = Path("/"),
) -> NodeFacts:
    """Read the node's facts; needs no driver and no privilege, about 20 small files.

    Args:
        driver_version: of the loaded driver; "" without one.
        procfs_root, sysfs_root: by default GPUMON_PROCFS_ROOT, GPUMON_SYSFS_ROOT, /proc and /sys.
        filesystem_root: where /run and container marks lie.
    Returns: `virtualization` names the machine when there is a hypervisor, else the container, else "none".
    """
    proc = procfs_root or default_procfs_root()
    machine = _machine(proc, sysfs_root or default_sysfs_root())
    container = _container(proc, filesystem_root)
    return NodeFacts(
        hostname=_text(proc / "sys/kernel/hostname"),
        virtualization=machine or container or "none",
        kernel=_text(proc / "sys/kernel/osrelease"),
        driver_version=driver_version,
        cpu_count=_cpu_count(proc),
        simulated=False,
        standing=CONTAINER if container else VIRTUAL_MACHINE if machine else HOST,
        host_pids=has_host_pids(proc),
        boot_wall_s=_boot_wall_s(proc),
    )


def in_virtual_machine(facts: NodeFacts) -> bool:
    """Return True when the PCI tree that gpumon sees is a hypervisor's, also from a container inside the machine."""
    return facts.virtualization not in _CONTAINER_NAMES | {"none", ""}


def unsupported_platform(
    facts: NodeFacts, *, procfs_root: Path | None = None, filesystem_root: Path = Path("/")
) -> str:
    """Return "wsl" or "jetson" where gpumon does not work, "" elsewhere. A vGPU guest shows by its cards' names."""
    proc = procfs_root or default_procfs_root()
    if facts.virtualization == "wsl":
        return "wsl"
    model = _text(proc / "device-tree/model").lower()
    if "jetson" in model or "tegra" in model or (filesystem_root / "etc/nv_tegra_release").exists():
        return "jetson"
    return ""


def _machine(proc: Path, sysfs: Path) -> str:
    """Return the hypervisor's name, "" on bare metal."""
    if "microsoft" in _text(proc / "sys/kernel/osrelease").lower():
        return "wsl"
    if "control_d" in _text(proc / "xen/capabilities"):
        return ""  # Xen's first domain owns the hardware
    dmi = " ".join(_text(sysfs / "class/dmi/id" / name) for name in _DMI_FILES).lower()
    for word, name in _DMI_MACHINES:
        if word in dmi:
            return name
    if _hypervisor_flag(proc):
        if _text(sysfs / "hypervisor/type") == "xen":
            return "xen"
        return next((name for word, name in _DMI_CLOUDS if word in dmi), UNKNOWN_MACHINE)
    return ""


def _hypervisor_flag(proc: Path) -> bool:
    """Return whether the CPU says that a hypervisor runs below it: CPUID leaf 1, ECX bit 31, x86 only."""
    for line in _text(proc / "cpuinfo").splitlines():
        if line.startswith("flags"):
            return "hypervisor" in line.split()
    return False


def _container(proc: Path, root: Path) -> str:
    """Return the container manager's name, "container" when only the namespace betrays it, "" outside of one."""
    for name in ("run/systemd/container", "run/host/container-manager"):
        manager = _text(root / name)
        if manager:
            return manager if manager in _CONTAINER_NAMES else UNKNOWN_CONTAINER
    if (root / "run/secrets/kubernetes.io").exists():
        return "kubernetes"
    cgroup = _text(proc / "self/cgroup")
    for word, name in _CGROUP_CONTAINERS:
        if word in cgroup:
            return name
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    namespace = _pid_namespace(proc)
    return UNKNOWN_CONTAINER if namespace and namespace != _FIRST_PID_NAMESPACE else ""


def has_host_pids(proc: Path) -> bool:
    """Return whether the driver's pids mean processes of this procfs.

    Pid 2 is kthreadd in the first namespace and nowhere else. Where it is hidden (hidepid), our own namespace answers
    for /proc; a tree that was mounted elsewhere and named by the operator is trusted unless its first process tells
    otherwise, which takes root to read.
    """
    if _text(proc / "2/comm") == "kthreadd" or _pid_namespace(proc) == _FIRST_PID_NAMESPACE:
        return True
    if proc == Path("/proc"):
        return False
    first = _pid_namespace(proc, "1")
    return first == _FIRST_PID_NAMESPACE or (not first and (proc / "1").is_dir())


def _pid_namespace(proc: Path, whose: str = "self") -> str:
    try:
        return str((proc / whose / "ns/pid").readlink())
    except OSError:
        return ""


def _cpu_count(proc: Path) -> int:
    """Return the number of CPUs online, whatever this process may use."""
    rows = _text(proc / "stat").splitlines()
    return sum(1 for row in rows if row.startswith("cpu") and not row.startswith("cpu ")) or os.cpu_count() or 1


def _boot_wall_s(proc: Path) -> float:
    for row in _text(proc / "stat").splitlines():
        name, _, value = row.partition(" ")
        if name == "btime" and value.isdigit():
            return float(value)
    return math.nan


def _text(path: Path) -> str:
    """Return the file's text without surrounding blanks and zero bytes, "" when it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip("\0 \n\t")
    except OSError:
        return ""
