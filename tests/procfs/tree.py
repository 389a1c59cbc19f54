"""A procfs and a sysfs built of plain files."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

IDS = tuple(f"{number:02x}" * 32 for number in range(256))  # container ids
LOOPBACK = "Inter-|\n face |bytes\n    lo: 1234 10 0 0 0 0 0 0 1234 10 0 0 0 0 0 0\n  eth0: 99 1 0 0 0 0 0 0 9 1\n"
GIVEN_NOTHING = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n25 22 0:23 / /dev/shm rw - tmpfs shm rw,size=65536k\n"


def given(*minors: int, hook: bool = False) -> str:
    """The mountinfo of a container that was given cards to compute on."""
    lines = [f"4{n} 22 0:6 /nvidia{n} /dev/nvidia{n} rw - devtmpfs udev rw" for n in minors]
    lines.append("39 22 0:6 /nvidia-uvm /dev/nvidia-uvm rw - devtmpfs udev rw")
    if hook:
        lines.append("50 22 8:1 /vgpu/libvgpu.so /usr/local/vgpu/libvgpu.so ro - ext4 /dev/sda1 rw")
    return GIVEN_NOTHING + "".join(f"{line}\n" for line in lines)


class Tree:
    """The folders `proc` and `sys` below a folder."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.sys = folder / "proc", folder / "sys"
        (self.proc / "sys/kernel").mkdir(parents=True)
        (self.sys / "fs/cgroup").mkdir(parents=True)
        self.write("proc/sys/kernel/pid_max", "4194304\n")
        self.write("proc/2/comm", "kthreadd\n")

    def write(self, path: str, content: str) -> None:
        """Write a file below `proc` or `sys`."""
        target = self.proc.parent / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, "utf-8")

    def process(
        self,
        pid: int,
        words: Iterable[str] = ("python", "train.py"),
        *,
        ppid: int = 1,
        start: int = 0,
        cgroup: str = "0::/\n",
        comm: str = "python",
        state: str = "S",
        environ: Mapping[str, str] | None = None,
        mountinfo: str = GIVEN_NOTHING,
        uid: int = 1000,
        threads: Iterable[str] = (),
        cpu_ticks: int = 250,
    ) -> None:
        """Start a process, or change it."""
        folder = self.proc / str(pid)
        (folder / "net").mkdir(parents=True, exist_ok=True)
        fields = [
            state,
            ppid,
            pid,
            pid,
            *[0] * 7,
            cpu_ticks,
            0,
            0,
            0,
            20,
            0,
            3,
            0,
            start or pid * 10,
            0,
            512,
            *[0] * 17,
            7,
        ]
        files = {
            "stat": f"{pid} ({comm}) {' '.join(map(str, fields))} 0 0\n",
            "status": f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nVmSwap:\t8 kB\nCpus_allowed:\tff,0000000f\n",
            "cmdline": "".join(f"{word}\0" for word in words),
            "cgroup": cgroup,
            "environ": "".join(f"{name}={value}\0" for name, value in (environ or {}).items()),
            "mountinfo": mountinfo,
            "net/dev": LOOPBACK,
        }
        for name, content in files.items():
            (folder / name).write_text(content, "utf-8")
        for number, thread in enumerate(threads):
            self.write(f"proc/{pid}/task/{pid + number}/comm", f"{thread}\n")

    def end(self, pid: int) -> None:
        """A process ends."""
        shutil.rmtree(self.proc / str(pid))
