"""Host, virtual machine, container: as built procfs and sysfs trees show them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from gpumon.hardware.procfs import ProcfsHost
from gpumon.hardware.standing import in_virtual_machine, node_facts, unsupported_platform
from gpumon.model.topology import NodeFacts
from tests.procfs.test_host import namespace_tree

from .conftest import Tree

FIRST_PID_NAMESPACE, OTHER_PID_NAMESPACE = "pid:[4026531836]", "pid:[4026533000]"


def _facts(tree: Tree) -> NodeFacts:
    return node_facts("570.86.15", procfs_root=tree.proc, sysfs_root=tree.sys, filesystem_root=tree.root / "fs")


def _machine(
    tree: Tree,
    *,
    vendor: str = "Supermicro",
    product: str = "SYS-420GP-TNR",
    hypervisor: bool = False,
    pid_namespace: str = FIRST_PID_NAMESPACE,
    kthreadd: bool = True,
    kernel: str = "6.8.0-45-generic",
    cgroup: str = "0::/system.slice/gpumon.service",
) -> None:
    tree.write(tree.proc / "sys/kernel/hostname", "node-7")
    tree.write(tree.proc / "sys/kernel/osrelease", kernel)
    tree.write(tree.proc / "cpuinfo", f"processor\t: 0\nflags\t\t: fpu sse{' hypervisor' if hypervisor else ''} avx")
    tree.write(tree.proc / "stat", "cpu  9 9\ncpu0 4 4\ncpu1 5 5\nintr 1\nbtime 1753000000")
    tree.write(tree.proc / "self/cgroup", cgroup)
    (tree.proc / "self/ns").mkdir()
    (tree.proc / "self/ns/pid").symlink_to(pid_namespace)
    if kthreadd:
        tree.write(tree.proc / "2/comm", "kthreadd")
    tree.write(tree.sys / "class/dmi/id/sys_vendor", vendor)
    tree.write(tree.sys / "class/dmi/id/product_name", product)


def test_bare_host(tree: Tree) -> None:
    """A bare server is a host without virtualization and sees the host's pids."""
    _machine(tree)
    assert _facts(tree) == NodeFacts(
        hostname="node-7",
        virtualization="none",
        kernel="6.8.0-45-generic",
        driver_version="570.86.15",
        cpu_count=2,
        simulated=False,
        standing="host",
        host_pids=True,
        boot_wall_s=1753000000.0,
    )


@pytest.mark.parametrize(
    ("vendor", "product", "hypervisor", "name"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", True, "kvm"),
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", False, "kvm"),  # the guest's CPU hides the flag
        ("VMware, Inc.", "VMware7,1", True, "vmware"),
        ("Microsoft Corporation", "Virtual Machine", True, "hyperv"),
        ("Xen", "HVM domU", True, "xen"),
        ("Amazon EC2", "p5.48xlarge", True, "amazon"),
        ("Google", "Google Compute Engine", True, "google"),
        ("Acme", "Cloud", True, "vm"),
    ],
)
def test_virtual_machines(tree: Tree, vendor: str, product: str, hypervisor: bool, name: str) -> None:
    """A guest is told by its DMI names or by the CPU's flag."""
    _machine(tree, vendor=vendor, product=product, hypervisor=hypervisor)
    facts = _facts(tree)
    assert (facts.virtualization, facts.standing, in_virtual_machine(facts)) == (name, "vm", True)


def test_whole_machine_of_a_cloud_is_a_host(tree: Tree) -> None:
    """A bare-metal instance carries the cloud's DMI name without the CPU's flag."""
    _machine(tree, vendor="Amazon EC2", product="g4dn.metal")
    assert _facts(tree).standing == "host"


def test_xen_first_domain_is_a_host(tree: Tree) -> None:
    """Xen's first domain has the flag but owns the PCI tree."""
    _machine(tree, hypervisor=True)
    tree.write(tree.proc / "xen/capabilities", "control_d")
    assert _facts(tree).virtualization == "none"


@pytest.mark.parametrize(
    ("mark", "content", "cgroup", "name"),
    [
        (".dockerenv", "", "0::/", "docker"),
        ("run/.containerenv", 'engine="podman"', "0::/", "podman"),
        ("run/systemd/container", "lxc", "0::/", "lxc"),
        ("run/secrets/kubernetes.io/serviceaccount/token", "x", "0::/", "kubernetes"),
        ("run/other", "", "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-ab.scope", "kubernetes"),
        ("run/other", "", "12:devices:/docker/0123456789ab", "docker"),
        ("run/other", "", "0::/", "container"),  # only the pid namespace tells
    ],
)
def test_containers(tree: Tree, mark: str, content: str, cgroup: str, name: str) -> None:
    """A container is told by its marks, its cgroup, or its pid namespace."""
    _machine(tree, pid_namespace=OTHER_PID_NAMESPACE, kthreadd=False, cgroup=cgroup)
    tree.write(tree.root / "fs" / mark, content)
    facts = _facts(tree)
    assert (facts.virtualization, facts.standing, facts.host_pids) == (name, "container", False)
    assert not in_virtual_machine(facts)


def test_container_with_host_pids(tree: Tree) -> None:
    """A container started with the host's pid namespace sees host pids."""
    _machine(tree)
    tree.write(tree.root / "fs/.dockerenv", "")
    facts = _facts(tree)
    assert (facts.standing, facts.host_pids) == ("container", True)


def test_host_procfs_mounted_into_a_container(tree: Tree) -> None:
    """With the host's procfs as its root, pids are the host's although gpumon's own namespace is another."""
    _machine(tree, pid_namespace=OTHER_PID_NAMESPACE, kthreadd=True)
    tree.write(tree.root / "fs/.dockerenv", "")
    assert _facts(tree).host_pids


@pytest.mark.parametrize(("run", "tree_name", "host_pids"), [(0, "procfs", False), (1, "host_procfs", True)])
def test_reported_container(tmp_path: Path, shared_dir: Path, run: int, tree_name: str, host_pids: bool) -> None:
    """Report 56: a container's own procfs has no host pids; the host's, mounted elsewhere and named, has."""
    content = json.loads((shared_dir / "cases/proc-namespace.json").read_text("utf-8"))
    proc = namespace_tree(tmp_path, content["runs"][run][tree_name])
    assert node_facts(procfs_root=proc, sysfs_root=tmp_path, filesystem_root=tmp_path).host_pids is host_pids
    assert ProcfsHost(procfs_root=proc, sysfs_root=tmp_path).foreign_pids is not host_pids


def test_hidepid_does_not_hide_the_namespace(tree: Tree) -> None:
    """Where hidepid hides pid 2, the namespace's inode still says host."""
    _machine(tree, kthreadd=False)
    assert _facts(tree).host_pids


def test_container_in_a_virtual_machine(tree: Tree) -> None:
    """The standing is the container's, the virtualization the machine's: its PCI tree is invented."""
    _machine(tree, vendor="QEMU", hypervisor=True, pid_namespace=OTHER_PID_NAMESPACE, kthreadd=False)
    tree.write(tree.root / "fs/.dockerenv", "")
    facts = _facts(tree)
    assert (facts.standing, facts.virtualization, in_virtual_machine(facts)) == ("container", "kvm", True)


def test_nothing_readable(tree: Tree) -> None:
    """An empty procfs gives unknowns, not an exception."""
    facts = _facts(tree)
    assert (facts.hostname, facts.kernel, facts.host_pids) == ("", "", False)
    assert math.isnan(facts.boot_wall_s)


def test_wsl_is_recognised(tree: Tree) -> None:
    """WSL is told by its kernel's name."""
    _machine(tree, kernel="5.15.153.1-microsoft-standard-WSL2", hypervisor=True)
    facts = _facts(tree)
    assert unsupported_platform(facts, procfs_root=tree.proc, filesystem_root=tree.root) == "wsl"


def test_jetson_is_recognised(tree: Tree) -> None:
    """A Jetson is told by the board name in its device tree."""
    _machine(tree)
    (tree.proc / "device-tree").mkdir()
    (tree.proc / "device-tree/model").write_bytes(b"NVIDIA Jetson AGX Orin Developer Kit\0")
    assert unsupported_platform(_facts(tree), procfs_root=tree.proc, filesystem_root=tree.root) == "jetson"
