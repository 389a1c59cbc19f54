"""The process table from a built procfs: whom it follows, what it reads again, what it survives."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpumon.hardware.procfs import ProcfsHost
from gpumon.model.fault import Fault
from gpumon.model.process import Process, ProcessTable

from .tree import IDS, Tree, given

DOCKER = f"0::/system.slice/docker-{IDS[1]}.scope\n"


def by_pid(table: ProcessTable) -> dict[int, Process]:
    return {process.pid: process for process in table.processes}


def test_a_gpu_process_is_read_in_full(tree: Tree, host: ProcfsHost) -> None:
    """Identity, texts and counters of a GPU process, in base units."""
    tree.process(
        100,
        ["python", "train.py", "--lr", "1"],
        cgroup=DOCKER,
        environ={"RANK": "3", "HF_TOKEN": "hf_secret", "NCCL_P2P_DISABLE": "1"},
        mountinfo=given(0, 3),
        threads=["python", "pt_nccl_watchdg", "NCCL Service 0", "secret-name"],
    )
    (process,) = host.processes(frozenset({100}), 5.0).processes
    assert (process.pid, process.start_ticks, process.ppid, process.uid) == (100, 1000, 1, 1000)
    assert process.cmdline == ("python", "train.py", "--lr", "1")
    assert process.environ == {"RANK": "3", "NCCL_P2P_DISABLE": "1"}
    assert process.cpu_seconds == pytest.approx(2.5)
    assert process.gpu_minors == {0, 3}
    assert process.shm_size_bytes == 64 * 1024**2
    assert (process.io_wait_seconds, process.cpus_allowed, process.swap_bytes) == (0.07, 12, 8192.0)
    assert process.rss_bytes == 512 * os.sysconf("SC_PAGE_SIZE")
    assert process.loopback_bytes == 1234.0
    assert process.thread_names == "NCCL_Service_0 pt_nccl_watchdg"


def test_ancestors_and_loaders_come_along(tree: Tree, host: ProcfsHost) -> None:
    """The table holds GPU processes first, then what is above and below them, and nobody else."""
    tree.process(1, ["init"], ppid=0, start=1)
    tree.process(50, ["bash"])
    tree.process(60, ["torchrun"], ppid=50)
    tree.process(70, ppid=60)
    tree.process(80, ppid=70)
    tree.process(81, ppid=80)
    tree.process(90, ["other"])
    table = host.processes(frozenset({70}), 0.0)
    assert [process.pid for process in table.processes] == [70, 60, 50, 1, 80, 81]
    assert by_pid(table)[80].environ is Fault.NO_DATA


def test_a_container_given_cards_is_there_before_its_first_gpu_process(tree: Tree, host: ProcfsHost) -> None:
    """The oldest process of a container that was given cards is in the table; one that may only watch is not."""
    tree.process(100, ["sleep", "inf"], cgroup=DOCKER, mountinfo=given(2))
    tree.process(101, ["bash"], cgroup=DOCKER, mountinfo=given(2), ppid=100)
    watching = given(0).replace("/dev/nvidia-uvm", "/dev/nvidiactl")
    tree.process(200, ["exporter"], cgroup=f"0::/system.slice/docker-{IDS[2]}.scope\n", mountinfo=watching)
    table = host.processes(frozenset(), 0.0)
    assert [(process.pid, process.gpu_minors) for process in table.processes] == [(100, {2})]


def test_sliced_cards_are_noticed(tree: Tree, host: ProcfsHost) -> None:
    """A container whose NVML is hooked by HAMi's library says so."""
    tree.process(100, cgroup=DOCKER, mountinfo=given(2, hook=True))
    assert host.processes(frozenset({100}), 0.0).processes[0].slice_hook == "hami"


def test_cards_by_their_procfs_folder(tree: Tree) -> None:
    """A toolkit that binds only the card's procfs folder is understood through the card's minor number."""
    tree.write("proc/driver/nvidia/gpus/0000:41:00.0/information", "Model: \t X\nDevice Minor: \t 5\n")
    mountinfo = given().replace("/dev/nvidiactl", "") + (
        "60 22 0:22 /driver/nvidia/gpus/0000:41:00.0 /proc/driver/nvidia/gpus/0000:41:00.0 ro - proc proc rw\n"
    )
    tree.process(100, cgroup=DOCKER, mountinfo=mountinfo)
    host = ProcfsHost(procfs_root=tree.proc, sysfs_root=tree.sys)
    assert host.processes(frozenset({100}), 0.0).processes[0].gpu_minors == {5}


def test_texts_stay_the_same_objects(tree: Tree, host: ProcfsHost) -> None:
    """A refresh reads counters; texts that say the same stay the same objects, and exec brings new ones."""
    tree.process(100)
    (first,) = host.processes(frozenset({100}), 0.0).processes
    tree.process(100, cpu_ticks=900)
    (second,) = host.processes(frozenset({100}), 3.0).processes
    assert second.cpu_seconds == pytest.approx(9.0)
    assert second.cmdline is first.cmdline
    assert second.cgroup is first.cgroup
    assert second.environ is first.environ
    tree.process(100, ["VLLM::Worker_TP0"], comm="VLLM::Worker_TP")
    (third,) = host.processes(frozenset({100}), 100.0).processes
    assert third.cmdline == ("VLLM::Worker_TP0",)


def test_a_reused_pid_is_another_process(tree: Tree, host: ProcfsHost) -> None:
    """A pid with another start time is read anew."""
    tree.process(100, ["a"], environ={"RANK": "0"})
    host.processes(frozenset({100}), 0.0)
    tree.end(100)
    tree.process(100, ["b"], start=99999, environ={"RANK": "1"})
    (process,) = host.processes(frozenset({100}), 3.0).processes
    assert (process.start_ticks, process.cmdline, process.environ) == (99999, ("b",), {"RANK": "1"})


def test_a_dead_process_keeps_its_texts(tree: Tree, host: ProcfsHost) -> None:
    """A zombie's command line and control group are gone from procfs and stay known."""
    tree.process(100, ["python", "train.py"], cgroup=DOCKER)
    host.processes(frozenset({100}), 0.0)
    tree.process(100, [], cgroup="0::/\n", state="Z")
    (process,) = host.processes(frozenset({100}), 100.0).processes
    assert (process.state, process.cmdline, process.cgroup) == ("Z", ("python", "train.py"), DOCKER)


def test_names_that_are_no_text(tree: Tree, host: ProcfsHost) -> None:
    """A name that is no UTF-8, or holds parentheses and newlines, is read as far as it is text."""
    tree.process(100)
    raw = (tree.proc / "100/stat").read_bytes().replace(b"(python)", b"(a\xff) (b\n)")
    (tree.proc / "100/stat").write_bytes(raw)
    (process,) = host.processes(frozenset({100}), 0.0).processes
    assert (process.comm, process.start_ticks) == ("a\ufffd) (b\n", 1000)


def fail(monkeypatch: pytest.MonkeyPatch, decide: Callable[[str], int]) -> list[str]:
    """Let opening files fail as `decide` says (an errno, 0 for none); return the list of opened paths."""
    opened: list[str] = []
    real = os.open

    def open_(path: object, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append(str(path))
        code = decide(str(path))
        if code:
            raise OSError(code, os.strerror(code), str(path))
        return real(path, flags, mode, dir_fd=dir_fd)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", open_)
    return opened


def test_processes_that_vanish(
    tree: Tree, host: ProcfsHost, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, shared_dir: Path
) -> None:
    """A process that ends at an awkward moment, or may not be read, costs itself and nothing else."""
    case = json.loads((shared_dir / "cases/proc-race.json").read_text("utf-8"))
    pids = frozenset(entry["pid"] for entry in case["ticks"][0]["a"]["procs"])
    for pid in pids - {101}:
        tree.process(pid, cgroup=DOCKER)
    (tree.proc / "102/cgroup").unlink()

    def decide(path: str) -> int:
        return {"103/cgroup": errno.ESRCH}.get(path.partition("/proc/")[2], errno.EACCES if "/proc/104/" in path else 0)

    fail(monkeypatch, decide)
    with caplog.at_level(logging.DEBUG):
        table = host.processes(pids, 0.0)
    found = by_pid(table)
    assert sorted(found) == [102, 103, 105]
    assert found[105].cgroup == DOCKER
    assert found[102].cgroup is Fault.NOT_FOUND
    assert found[103].cgroup is Fault.NOT_FOUND
    assert table.hidden == 2
    assert not [entry for entry in caplog.records if entry.levelno >= logging.WARNING]


def test_hidden_processes_are_counted(tree: Tree, host: ProcfsHost) -> None:
    """GPU processes that procfs does not show (hidepid) are counted, not guessed."""
    tree.process(100)
    table = host.processes(frozenset({100, 200, 300}), 0.0)
    assert ([process.pid for process in table.processes], table.hidden) == ([100], 2)


def test_a_process_replaced_while_it_is_read(tree: Tree, host: ProcfsHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pid that becomes another process between two of its files is left for the next refresh."""
    tree.process(100, ["a"])

    def decide(path: str) -> int:
        if path.endswith("/100/cmdline"):
            tree.process(100, ["b"], start=55555)
        return 0

    fail(monkeypatch, decide)
    assert host.processes(frozenset({100}), 0.0).processes == ()


def test_long_mount_tables_are_read_to_their_end(tree: Tree, host: ProcfsHost) -> None:
    """A mount table of several hundred lines is not cut after its first piece."""
    filler = "".join(
        f"{n} 22 0:50 / /var/lib/docker/overlay2/{n:064}/merged rw - overlay overlay rw\n" for n in range(900)
    )
    tree.process(100, mountinfo=filler + given(6))
    assert host.processes(frozenset({100}), 0.0).processes[0].gpu_minors == {6}


def test_impossible_pids_are_not_looked_up(
    tree: Tree, host: ProcfsHost, monkeypatch: pytest.MonkeyPatch, shared_dir: Path
) -> None:
    """Of a scrambled list only numbers that can be pids are looked up in procfs."""
    case = json.loads((shared_dir / "cases/proc-abi-garbage.json").read_text("utf-8"))
    tree.write("proc/sys/kernel/pid_max", f"{case['pid_max']}\n")
    tree.process(1184)
    opened = fail(monkeypatch, lambda path: 0)
    table = host.processes(frozenset(entry["pid"] for entry in case["ticks"][0]["a"]["procs"]), 0.0)
    assert [process.pid for process in table.processes] == [1184]
    for pid in (0, 4294967295, 7500000):
        assert not [path for path in opened if f"/proc/{pid}/" in path]


def namespace_tree(tmp_path: Path, files: dict[str, str]) -> Path:
    """The `procfs` of a case file: names with slashes, `ns_pid` for the namespace link."""
    root = tmp_path / "proc"
    for name, content in files.items():
        folder, _, leaf = name.partition("/")
        target = root / folder / ("ns/pid" if leaf == "ns_pid" else leaf)
        target.parent.mkdir(parents=True, exist_ok=True)
        if leaf == "ns_pid":
            target.symlink_to(content)
        else:
            target.write_text(content if leaf != "comm" else f"{content}\n", "utf-8")
    return root


def test_foreign_pids_are_not_looked_up(tmp_path: Path, shared_dir: Path) -> None:
    """Without the host's pids no local process of the same number is taken for a GPU process."""
    run = json.loads((shared_dir / "cases/proc-namespace.json").read_text("utf-8"))["runs"][0]
    root = namespace_tree(tmp_path, run["procfs"])
    tree = Tree(tmp_path / "other")
    for pid in (1, 37):
        tree.process(pid)
        (tree.proc / str(pid)).joinpath("comm").write_text("x")
        for name in ("stat", "status", "cmdline", "cgroup"):
            (root / str(pid) / name).write_text((tree.proc / str(pid) / name).read_text())
    host = ProcfsHost(procfs_root=root, sysfs_root=tree.sys)
    table = host.processes(frozenset({1, 37, 4242}), 0.0)
    assert host.foreign_pids
    assert table.foreign_pids
    assert (table.processes, table.hidden) == ((), 0)


def test_a_mounted_host_procfs_is_trusted(tmp_path: Path, shared_dir: Path) -> None:
    """With the host's procfs mounted elsewhere the driver's pids are looked up there."""
    run = json.loads((shared_dir / "cases/proc-namespace.json").read_text("utf-8"))["runs"][1]
    root = namespace_tree(tmp_path, run["host_procfs"])
    tree = Tree(tmp_path / "other")
    tree.process(4242)
    for name in ("stat", "status", "cmdline"):
        (root / "4242" / name).write_text((tree.proc / "4242" / name).read_text())
    table = ProcfsHost(procfs_root=root, sysfs_root=tree.sys).processes(frozenset({4242}), 0.0)
    assert not table.foreign_pids
    assert "249529523f67" in str(table.processes[0].cgroup)


def test_own_processes_by_open_device_files(tmp_path: Path) -> None:
    """In a container without host pids a process that holds cards and CUDA's file open is found; a monitor is not."""
    tree = Tree(tmp_path)
    (tree.proc / "2/comm").unlink()
    (tree.proc / "2").rmdir()
    (tree.proc / "1/ns").mkdir(parents=True)
    (tree.proc / "1/ns/pid").symlink_to("pid:[4026532501]")
    (tree.proc / "self").symlink_to("7")
    for pid, targets in {
        7: ["/dev/nvidia-uvm", "/dev/nvidia0"],  # gpumon itself
        20: ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1", "/data/x"],
        30: ["/dev/nvidiactl", "/dev/nvidia0"],
    }.items():
        tree.process(pid)
        (tree.proc / f"{pid}/fd").mkdir()
        for number, target in enumerate(targets):
            (tree.proc / f"{pid}/fd/{number}").symlink_to(target)
    host = ProcfsHost(procfs_root=tree.proc, sysfs_root=tree.sys)
    table = host.processes(frozenset({777}), 0.0)
    assert [(process.pid, process.gpu_minors) for process in table.processes] == [(20, {0, 1})]


def test_a_card_that_fell_silent_keeps_its_process_followed(tree: Tree, host: ProcfsHost) -> None:
    """A process that is no longer listed is followed for two minutes while it lives."""
    tree.process(100)
    host.processes(frozenset({100}), 0.0)
    assert len(host.processes(frozenset(), 60.0).processes) == 1
    assert host.processes(frozenset(), 200.0).processes == ()


def test_users_by_the_hosts_own_file(tree: Tree, host: ProcfsHost) -> None:
    """User names come from the host's passwd file when its procfs is mounted, and owners of sessions are named too."""
    tree.write("proc/1/root/etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n")
    tree.process(100, uid=0, cgroup="0::/user.slice/user-1000.slice/session-3.scope\n")
    assert host.processes(frozenset({100}), 0.0).users == {0: "root", 1000: "alice"}


def test_ten_thousand_births_leave_nothing_behind() -> None:
    """After ten thousand short GPU processes the reader holds no more than after the first ones."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # in memory: 30,000 changes to files
        tree = Tree(Path(folder))
        host = ProcfsHost(procfs_root=tree.proc, sysfs_root=tree.sys)
        bear(tree, host)
        table = host.processes(frozenset(), 601.0)
        assert table.processes == ()
        held = [value for value in vars(host).values() if isinstance(value, dict)]
        assert all(len(value) < 50 * 45 for value in held)  # 120 s of them may be followed
        assert len(host._census.known) <= 1


def bear(tree: Tree, host: ProcfsHost) -> None:
    """Fifty processes every three seconds, each gone before the next fifty."""
    for slot in range(50):
        (tree.proc / str(900 + slot)).mkdir()
        (tree.proc / str(900 + slot) / "cgroup").write_text(DOCKER)
    pids = range(900, 950)
    for batch in range(200):
        born = range(1000 + 50 * batch, 1050 + 50 * batch)
        for old, new in zip(pids, born, strict=True):
            fields = f"{new} (w{new}) S 1 1 1 {'0 ' * 7}1 1 0 0 20 0 1 0 {new} 0 1 {'0 ' * 20}"
            (tree.proc / str(old) / "stat").write_text(fields)
            (tree.proc / str(old)).rename(tree.proc / str(new))
        pids = born
        assert len(host.processes(frozenset(pids), 3.0 * batch).processes) == 50
    for pid in pids:
        tree.end(pid)


def test_host_counters(tree: Tree, host: ProcfsHost) -> None:
    """The host's counters in base units; what is not there is missing."""
    tree.write("proc/stat", "cpu  100 0 50 800 40 5 5 0 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    tree.write("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    400 kB\n")
    tree.write("proc/vmstat", "pswpin 2\npswpout 3\n")
    tree.write(
        "proc/diskstats", " 8 0 sda 1 0 8 0 1 0 16 0\n 8 1 sda1 1 0 8 0 1 0 16 0\n 253 0 dm-0 1 0 8 0 1 0 16 0\n"
    )
    (tree.sys / "block/sda").mkdir(parents=True)
    (tree.sys / "block/dm-0").mkdir()
    tree.write("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0 total=1\n")
    tree.write("proc/net/dev", "    lo: 77 1 0\n")
    tree.write("sys/bus/pci/devices/0000:41:00.0/aer_dev_correctable", "RxErr 3\nTOTAL_ERR_COR 3\n")
    sample = host.host({"0000:41:00.0": "GPU-a"})
    assert (sample.cpu_busy_seconds, sample.cpu_iowait_seconds, sample.cpu_total_seconds) == (1.6, 0.4, 10.0)
    assert (sample.memory_available_bytes, sample.memory_total_bytes) == (409600.0, 1024000.0)
    assert sample.swap_out_bytes == 3 * os.sysconf("SC_PAGE_SIZE")
    assert (sample.disk_read_bytes, sample.disk_write_bytes) == (4096.0, 8192.0)
    assert sample.pressure_io_some_seconds == 2.5
    assert math.isnan(sample.pressure_cpu_some_seconds)
    assert sample.loopback_bytes == 77.0
    assert sample.aer_errors == {"GPU-a": {"correctable": 3.0}}
