"""gpumon beside nvitop-exporter: the same stand-in driver, the same 8 cards and processes, at the same time.

    python -m benchmarks.side_by_side [--seconds 60] [--windows] [--instant]

Both run their defaults over the C stand-in library under the real bindings, are scraped every 15 s as Prometheus
would, and are measured over the same minute, so noise of the machine falls on both. Each call of the stand-in takes
the time that was published for it (facts of NVML users: gridwatch, MangoHud #2104; docs/hardware.md); driver time is
calls a second times that. CPU is that of the process less what the stand-in library itself computed (its report counts
it); memory is the process's less the recording that the stand-in plays. Builds its own virtual environments with
compiled bytecode. `--windows` takes the byte counters away, so that traffic must be seen in 20 ms windows; `--instant`
lets every call answer at once. The sampler keeps its budget by what its calls take: the observed share of the traffic
is printed, because keeping a budget by looking less is easy.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpumon.hardware.simulated.export import export_timeline
from gpumon.hardware.simulated.timeline_file import read_timeline, write_timeline
from tests.standin.library import ControlFile, build

PROJECT = Path(__file__).resolve().parents[1]
SCENARIO = "rtx5090-x8-ddp-bound"
SCRAPE_S = 15.0
WARM_UP_S = 30.0
TICKS = os.sysconf("SC_CLK_TCK")
# Milliseconds a call holds the driver. Those not listed count as a cheap read of cached state.
PUBLISHED_MS: Mapping[str, float] = {
    "GetFieldValue:197": 0.3,  # 0.2 to 0.45 for both byte counters; the other fields of a batch take 3 us (gridwatch)
    "GetComputeRunningProcesses": 4.5,
    "GetGraphicsRunningProcesses": 4.5,
    "GetMPSComputeRunningProcesses": 4.5,
    "GetFanSpeed": 0.137,
    "GetMemoryInfo": 0.0116,
    "GetMemoryInfo_v2": 0.0116,
    "GetPowerUsage": 3.3,
}
CHEAP_MS = 0.0025
OBSERVED = re.compile(r"^gpumon_pcie_observed_ratio\{[^}]*\} (\S+)$", re.MULTILINE)
SLEEPING = ("GetPcieThroughput", "EventSetWait")  # asleep, not holding the driver


@dataclass(frozen=True, slots=True)
class Cost:
    """One exporter over the measured time."""

    name: str
    cpu_ratio: float  # of one core, less the stand-in's own
    driver_ratio: float
    memory_bytes: float
    series: int
    scrape_p50_s: float
    scrape_max_s: float
    observed_ratio: float  # of each direction, mean over the cards; NaN for an exporter that does not say


class Exporter:
    """A started exporter with a stand-in library of its own."""

    def __init__(
        self, command: list[str], port: int, folder: Path, library: Path, timeline: Path, *, instant: bool
    ) -> None:
        folder.mkdir()
        self.name = Path(command[0]).name
        self.url = f"http://127.0.0.1:{port}/metrics"
        self.control = ControlFile(folder, library)
        delays = [f"set * {name} ~{milliseconds:g}~=" for name, milliseconds in PUBLISHED_MS.items() if not instant]
        self.control.apply(f"timeline {timeline}", f"epoch {time.monotonic():.9f}", *delays)
        self._timeline = timeline
        environ = {**os.environ, **self.control.environment, "GPUMON_CONTROL": str(folder / "control")}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        self.process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.latencies: list[float] = []
        self.observed_ratio = math.nan

    def cpu_s(self) -> float:
        """Return user and system CPU of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory_bytes(self) -> float:
        """Return resident memory without the mapped recording, which a real driver does not have."""
        kilobytes, counts = 0.0, True
        for line in Path(f"/proc/{self.process.pid}/smaps").read_text("ascii", "replace").splitlines():
            name, _, value = line.partition(":")
            if " " in name:  # the head of a mapping: its addresses and its file
                counts = not line.endswith(str(self._timeline))
            elif name == "Rss" and counts:
                kilobytes += float(value.split()[0])
        return kilobytes * 1024

    def scrape(self) -> int:
        """Scrape once; return the number of series."""
        start_s = time.perf_counter()
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            text = answer.read().decode()
        self.latencies.append(time.perf_counter() - start_s)
        observed = [float(value) for value in OBSERVED.findall(text)]
        self.observed_ratio = statistics.mean(observed) if observed else math.nan
        return sum(not line.startswith("#") for line in text.splitlines())


def timeline_with(pids: list[int], path: Path, seconds: float) -> None:
    """Write the scenario's timeline with one really running process on each card."""
    export_timeline(SCENARIO, 0, seconds, path)
    run = read_timeline(path)
    lines = []
    for line in run.lines:
        words = line.split()
        if words[0] == "process":
            words[2] = str(pids[int(words[1])])
        lines.append(" ".join(words))
    write_timeline(path, seconds, lines, run.cards)


def measure(exporters: list[Exporter], seconds: float) -> list[Cost]:
    """Return what each cost over the same time."""
    time.sleep(WARM_UP_S)
    for exporter in exporters:
        exporter.scrape()
        exporter.latencies.clear()
    before = [(exporter.cpu_s(), exporter.control.report()) for exporter in exporters]
    start_s = time.monotonic()
    series = [0] * len(exporters)
    while (left_s := start_s + seconds - time.monotonic()) > 0:
        for number, exporter in enumerate(exporters):
            series[number] = exporter.scrape()
        time.sleep(min(SCRAPE_S, left_s))
    costs = []
    for exporter, (cpu_s, report), count in zip(exporters, before, series, strict=True):
        now, span_s = exporter.control.report(), time.monotonic() - start_s
        inside_s = (now["cpu_inside_us"] - report["cpu_inside_us"]) / 1e6
        costs.append(
            Cost(
                exporter.name,
                (exporter.cpu_s() - cpu_s - inside_s) / span_s,
                driver_ratio(report, now, span_s),
                exporter.memory_bytes(),
                count,
                statistics.median(exporter.latencies),
                max(exporter.latencies),
                exporter.observed_ratio,
            )
        )
    return costs


def driver_ratio(before: Mapping[str, float], after: Mapping[str, float], span_s: float) -> float:
    """Return the share of each second inside the driver, from calls and their published cost."""
    total_ms = 0.0
    for what, count in after.items():
        words = what.split()
        if words[0] in ("call", "field") and words[1] not in SLEEPING:
            total_ms += (count - before.get(what, 0.0)) * PUBLISHED_MS.get(words[1], CHEAP_MS)
    return total_ms / 1000 / span_s


def environment(folder: Path, *packages: str) -> Path:
    """Make a virtual environment with compiled bytecode and return its bin folder."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [folder / "bin/pip", "install", "--quiet", "--quiet", *packages], check=True, env=environ, cwd=PROJECT
    )
    return folder / "bin"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--windows", action="store_true", help="no byte counters")
    parser.add_argument("--instant", action="store_true", help="every call answers at once")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        ours = environment(folder / "gpumon", ".")
        theirs = environment(folder / "nvitop", "nvitop-exporter")
        timeline = folder / "run.timeline"
        holders = [subprocess.Popen(["sleep", "3600"]) for _ in range(8)]
        timeline_with([holder.pid for holder in holders], timeline, WARM_UP_S + options.seconds + 60)
        library = build(folder, 535 if options.windows else 595, ())
        run_gpumon = [str(ours / "gpumon"), "run", "--listen", "127.0.0.1:19836"]
        run_nvitop = [str(theirs / "nvitop-exporter"), "--port", "19837"]
        started = [
            Exporter(run_gpumon, 19836, folder / "a", library, timeline, instant=options.instant),
            Exporter(run_nvitop, 19837, folder / "b", library, timeline, instant=options.instant),
        ]
        try:
            costs = measure(started, options.seconds)
        finally:
            for child in (*(exporter.process for exporter in started), *holders):
                child.terminate()
                child.wait()
    print(f"8 cards, {'windows only' if options.windows else 'byte counters'}, {options.seconds:g} s side by side")
    print(
        f"{'':16} {'CPU net':>9} {'driver':>8} {'memory':>9} {'series':>7} {'scrape p50':>11} {'longest':>9} "
        f"{'observed':>9}"
    )
    for cost in costs:
        print(
            f"{cost.name:16} {cost.cpu_ratio:8.2%} {cost.driver_ratio:8.2%} {cost.memory_bytes / 2**20:5.1f} MiB "
            f"{cost.series:7} {cost.scrape_p50_s * 1e3:8.1f} ms {cost.scrape_max_s * 1e3:6.1f} ms "
            f"{cost.observed_ratio:9.2f}"
        )
    print(f"gpumon / nvitop-exporter, CPU net: {costs[0].cpu_ratio / costs[1].cpu_ratio:.2f}")


if __name__ == "__main__":
    main()
