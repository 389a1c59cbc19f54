"""Builds the stand-in `libnvidia-ml.so.1` for a driver era and lets a test script it.

In the test's own process the library is handed to pynvml as the one it has loaded; a process of its own finds it
through LD_LIBRARY_PATH and follows a control file. The lines of a script are told at the head of script.c.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pynvml

SOURCES = Path(__file__).parent
ERAS = (470, 535, 550, 560, 580, 595)

# Entry points by the first era that has them (facts from the change log of NVIDIA's NVML reference).
SINCE = {
    "nvmlDeviceGetMemoryInfo_v2": 535,
    "nvmlDeviceGetComputeRunningProcesses_v3": 535,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": 535,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": 535,
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": 535,
    "nvmlDeviceGetDynamicPstatesInfo": 535,
    "nvmlDeviceGetCurrentClocksEventReasons": 535,
    "nvmlGpmQueryDeviceSupport": 535,
    "nvmlGpmSampleAlloc": 535,
    "nvmlGpmSampleFree": 535,
    "nvmlGpmSampleGet": 535,
    "nvmlGpmMetricsGet": 535,
    "nvmlDeviceGetNumaNodeId": 550,
    "nvmlDeviceGetTemperatureV": 580,
}


def build(folder: Path, era: int, without: Sequence[str] = ()) -> Path:
    """Compile the library of an era, less some entry points; return its path. Built once for a folder."""
    hidden = [*(name for name, first in SINCE.items() if era < first), *without]
    target = folder / "-".join([str(era), *sorted(without)]) / "libnvidia-ml.so.1"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    exports = target.with_suffix(".map")
    exports.write_text(
        "{ global: nvml*; standin_*; local: " + "".join(f"{name}; " for name in hidden) + "*; };\n", "ascii"
    )
    part = target.with_suffix(f".{os.getpid()}")
    subprocess.run(
        [
            *("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-DERA={era}"),
            *("-Wl,-soname,libnvidia-ml.so.1", f"-Wl,--version-script={exports}", "-o", str(part)),
            *sorted(str(source) for source in SOURCES.glob("*.c")),
            *("-lm", "-lpthread"),
        ],
        check=True,
    )
    part.rename(target)
    return target


class Standin:
    """The library in this process."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.standin_count.restype = ctypes.c_long
        self.apply("reset")

    def apply(self, *lines: str) -> None:
        """Apply lines of script."""
        for line in lines:
            self._library.standin_apply(line.encode())

    def calls(self, name: str, card: int = 0) -> int:
        """Return how often an entry point was called for a card (-1: for none)."""
        return int(self._library.standin_count(f"call {name} {card}".encode()))

    def count(self, what: str) -> int:
        """Return a count by its name in the report: init, shutdown."""
        return int(self._library.standin_count(what.encode()))

    def report(self) -> dict[str, float]:
        """Return everything that was counted."""
        buffer = ctypes.create_string_buffer(1 << 18)
        self._library.standin_report(buffer, ctypes.c_size_t(len(buffer)))
        return _parse(buffer.value.decode())

    def violations(self) -> dict[str, float]:
        """Return what must never happen and did."""
        return {what: count for what, count in self.report().items() if what.startswith("violation")}


def _parse(report: str) -> dict[str, float]:
    pairs = (line.rpartition(" ") for line in report.splitlines())
    return {what: float(count) for what, _, count in pairs}


@contextlib.contextmanager
def loaded(path: Path) -> Iterator[Standin]:
    """Let pynvml use a library for a while, as if the dynamic linker had found it."""
    standin = Standin(path)
    before = pynvml.nvmlLib
    pynvml.nvmlLib = ctypes.CDLL(str(path))
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield standin
    finally:
        # What a failed test left hanging must not keep the library busy for the next one.
        standin.apply("reset")
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()


class ControlFile:
    """The script of a library in another process."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._folder = folder
        self._library = library
        self._script = folder / "standin.script"
        self._script.write_text("", "utf-8")
        self.devices = folder / "devices"
        self.devices.mkdir()

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables under which a process finds the library and follows this script."""
        return {
            "LD_LIBRARY_PATH": str(self._library.parent),
            "STANDIN_SCRIPT": str(self._script),
            "STANDIN_DEVICES": str(self.devices),
        }

    def apply(self, *lines: str) -> None:
        """Append lines; the library sees them at its next call."""
        with self._script.open("a", encoding="utf-8") as script:
            script.writelines(line + "\n" for line in lines)

    def report(self, timeout_s: float = 5.0) -> dict[str, float]:
        """Ask for everything that was counted; needs a call to the library to be answered."""
        target = self._folder / f"report-{time.monotonic_ns()}"
        self.apply(f"report {target}")
        until_s = time.monotonic() + timeout_s
        while not target.exists():
            assert time.monotonic() < until_s, "the stand-in library made no report: nothing calls it"
            time.sleep(0.01)
        return _parse(target.read_text("utf-8"))
