"""The daemon over the real bindings and over the simulated reader: the same scenario, the same figures."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpumon.hardware.simulated.export import export_timeline
from tests.app.daemon import Running, running
from tests.standin.library import ControlFile, build

pytestmark = [pytest.mark.tools, pytest.mark.realtime]

SCENARIO = "rtx5090-x8-ddp-bound"
WATCHED_S = 40.0


def means(daemon: Running) -> dict[str, float]:
    """Return cumulative sums over the cards, from which means follow."""
    sums: dict[str, float] = {}
    for line in daemon.get("/metrics").splitlines():
        name = line.partition("{")[0].removeprefix("gpumon_")
        for direction in ("rx", "tx"):
            if name.startswith("pcie_observed") and name.endswith("_total") and f'direction="{direction}"' in line:
                sums[f"{name} {direction}"] = sums.get(f"{name} {direction}", 0.0) + float(line.split()[-1])
        if name in {"gpu_energy_joules_total", "gpu_busy_seconds_total"}:
            sums[name] = sums.get(name, 0.0) + float(line.split()[-1])
    return sums


def watched(daemon: Running) -> dict[str, float]:
    """Watch for a while and return what was seen: bytes a second, watts, utilization, memory, class."""
    daemon.wait(lambda: daemon.value("nvml_up") == 1 and means(daemon).get("gpu_energy_joules_total"))
    time.sleep(3)
    before, start_s = means(daemon), time.monotonic()
    time.sleep(WATCHED_S)
    after, span_s = means(daemon), time.monotonic() - start_s
    change = {name: after[name] - before[name] for name in after}
    state = daemon.state()
    assert len(state["gpus"]) == 8
    assert {job["class"] for job in state["jobs"]} == {"communication"}
    return {
        "rx": change["pcie_observed_bytes_total rx"] / change["pcie_observed_seconds_total rx"],
        "tx": change["pcie_observed_bytes_total tx"] / change["pcie_observed_seconds_total tx"],
        "watts": change["gpu_energy_joules_total"] / span_s / 8,
        "busy": change["gpu_busy_seconds_total"] / span_s / 8,
        "memory": sum(card["memory_used_bytes"] for card in state["gpus"]),
        "clock": sum(card["sm_clock_hertz"] for card in state["gpus"]),
        "ceiling": sum(card["pcie"]["ceiling_bytes_per_second"] for card in state["gpus"]),
    }


def test_simulated_reader_and_stand_in_library_agree(tmp_path: Path) -> None:
    """Traffic, power, utilization, memory, clocks and capacity agree within 2 %, and so does the verdict."""
    export_timeline(SCENARIO, 0, 20 + WATCHED_S * 2, tmp_path / "run.timeline")
    script = ControlFile(tmp_path, build(tmp_path, 595, ()))
    script.apply(f"timeline {tmp_path / 'run.timeline'}", f"epoch {time.monotonic():.9f}")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with running(tmp_path / "a", **script.environment) as real:
        over_bindings = watched(real)
        assert real.value("node_simulated") == 0
        real.stop()
    with running(tmp_path / "b", "--simulate", SCENARIO) as simulated:
        over_reader = watched(simulated)
        simulated.stop()
    for name, figure in over_reader.items():
        assert over_bindings[name] == pytest.approx(figure, rel=0.02), name
