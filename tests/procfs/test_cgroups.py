"""Counters of control groups in the three layouts of the tree."""

from __future__ import annotations

import math

from gpumon.hardware.procfs.cgroups import CgroupTree

from .tree import Tree

GROUP = "/system.slice/docker-1.scope"
IO = "8:0 rbytes=100 wbytes=50 rios=1 wios=1\n8:16 rbytes=11 wbytes=7\n"
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"


def version2(tree: Tree, place: str = "sys/fs/cgroup") -> None:
    tree.write("sys/fs/cgroup/cgroup.controllers", "cpu io\n")
    tree.write(f"{place}{GROUP}/cpu.stat", "usage_usec 2000000\nnr_periods 9\nnr_throttled 4\nthrottled_usec 500000\n")
    tree.write(f"{place}{GROUP}/cpu.max", "150000 100000\n")
    tree.write(f"{place}{GROUP}/io.stat", IO)
    tree.write(f"{place}{GROUP}/io.pressure", PRESSURE)


def version1(tree: Tree) -> None:
    for controller, name, content in [
        ("cpu,cpuacct", "cpuacct.usage", "2000000000\n"),
        ("cpu,cpuacct", "cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 500000000\n"),
        ("cpu,cpuacct", "cpu.cfs_quota_us", "150000\n"),
        ("cpu,cpuacct", "cpu.cfs_period_us", "100000\n"),
        (
            "blkio",
            "blkio.throttle.io_service_bytes_recursive",
            "8:0 Read 100\n8:0 Write 57\n8:0 Total 157\n8:1 Read 11\n",
        ),
    ]:
        tree.write(f"sys/fs/cgroup/{controller}/docker/1/{name}", content)
    tree.write("sys/fs/cgroup/cpu,cpuacct/cgroup.sane_behavior", "0\n")


def test_version_2(tree: Tree) -> None:
    """CPU, throttling, quota, disk and pressure of a version 2 group, in base units."""
    version2(tree)
    groups = CgroupTree(str(tree.sys))
    path = groups.path_of(f"0::{GROUP}\n")
    sample = groups.sample([path], 0.0)[GROUP]
    assert (sample.cpu_seconds, sample.throttled_seconds, sample.throttled_periods, sample.periods) == (2.0, 0.5, 4, 9)
    assert (sample.cpu_quota_cpus, sample.read_bytes, sample.write_bytes) == (1.5, 111.0, 57.0)
    assert sample.io_pressure_some_seconds == 1.5


def test_version_1(tree: Tree) -> None:
    """The same figures from the version 1 files; there is no pressure."""
    version1(tree)
    groups = CgroupTree(str(tree.sys))
    path = groups.path_of("5:blkio:/docker/1\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/x\n")
    sample = groups.sample([path], 0.0)["/docker/1"]
    assert (sample.cpu_seconds, sample.throttled_seconds, sample.periods) == (2.0, 0.5, 9)
    assert (sample.cpu_quota_cpus, sample.read_bytes, sample.write_bytes) == (1.5, 111.0, 57.0)
    assert math.isnan(sample.io_pressure_some_seconds)


def test_hybrid(tree: Tree) -> None:
    """In a hybrid tree the counters are version 1's and the pressure is version 2's."""
    version1(tree)
    tree.write("sys/fs/cgroup/unified/docker/1/io.pressure", PRESSURE)
    groups = CgroupTree(str(tree.sys))
    path = groups.path_of("4:cpu,cpuacct:/docker/1\n0::/elsewhere\n")
    sample = groups.sample([path], 0.0)["/docker/1"]
    assert (sample.cpu_seconds, sample.io_pressure_some_seconds) == (2.0, 1.5)


def test_throttling_is_counted_where_the_quota_is(tree: Tree) -> None:
    """A process in a group below the container's is throttled by the container's quota."""
    version2(tree)
    tree.write(f"sys/fs/cgroup{GROUP}/init/cpu.stat", "usage_usec 1000000\nnr_throttled 0\nthrottled_usec 0\n")
    tree.write(f"sys/fs/cgroup{GROUP}/init/cpu.max", "max 100000\n")
    sample = CgroupTree(str(tree.sys)).sample([f"{GROUP}/init"], 0.0)[f"{GROUP}/init"]
    assert (sample.cpu_seconds, sample.throttled_seconds, sample.cpu_quota_cpus) == (1.0, 0.5, 1.5)


def test_a_group_that_is_gone(tree: Tree) -> None:
    """A group that no longer exists is left out; missing files are missing figures."""
    version2(tree)
    tree.write("sys/fs/cgroup/bare/cpu.stat", "usage_usec 5\n")
    samples = CgroupTree(str(tree.sys)).sample(["/gone", "/bare"], 0.0)
    assert list(samples) == ["/bare"]
    assert math.isnan(samples["/bare"].read_bytes)


def test_the_hosts_root_is_nobodys(tree: Tree) -> None:
    """The first group's figures are everybody's and are not sampled; a container's own root is."""
    version2(tree)
    assert CgroupTree(str(tree.sys)).path_of("0::/\n") == ""
    tree.write("sys/fs/cgroup/cgroup.type", "domain\n")
    assert CgroupTree(str(tree.sys)).path_of("0::/\n") == "/"


def test_paths_that_leave_the_tree(tree: Tree) -> None:
    """A group outside of what the namespace shows is not read."""
    version2(tree)
    assert CgroupTree(str(tree.sys)).path_of("0::/../../other\n") == ""
