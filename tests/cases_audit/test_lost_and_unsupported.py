"""Reported kinds UNSUP, LOST and MIG on the page: what is not there has no series, and what went away is said."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from gpumon.hardware.procfs import ProcfsHost
from gpumon.ui import state_json
from tests.cases_audit.watched import Watched
from tests.nvml.cases import cards, case, tick
from tests.nvml.conftest import Libraries, empty_node
from tests.procfs.tree import Tree
from tests.standin.library import Standin, loaded

pytestmark = pytest.mark.tools

Watch = Callable[..., Watched]


def test_a_sparse_card_beside_a_full_one(standin: Standin, watch: Watch) -> None:
    """Report 20: the page parses, the full card is whole, and nothing stands in for what the sparse one lacks."""
    content = case("unsup-geforce")
    standin.apply(*cards(content), "card 1 ecc enabled", *tick(content, content["ticks"][0]))
    page = watch().tick(17)
    lacking = {"gpu_power_watts", "gpu_power_limit_watts", "gpu_energy_joules_total", "gpu_ecc_errors_total"}
    sparse, full = page.names(gpu="0"), page.names(gpu="1")
    assert not lacking & sparse
    assert lacking <= full
    assert page.value("gpu_utilization_ratio", gpu="0") == 0.5
    assert page.value("gpu_memory_used_bytes", gpu="0") == 1 << 30
    assert page.value("gpu_temperature_celsius", gpu="0", sensor="gpu") == 60
    assert all(math.isfinite(value) and value >= 0 for value in page.samples.values())


def test_no_fan_is_claimed(standin: Standin, watch: Watch) -> None:
    """Reports 21 and 22: nothing is said of fans: intended speed is no sign of a turning fan, and many have none."""
    standin.apply("card 0 minor 0")
    assert not [name for name in watch().tick(3).names() if "fan" in name]


def test_memory_shared_with_the_host(standin: Standin, watch: Watch) -> None:
    """Report 23: a card without memory of its own is there, has no memory series, and the page says what it is."""
    content = case("unsup-gb10")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    watched = watch()
    names = watched.tick(3).names(gpu="0")
    assert {"gpu_up", "gpu_utilization_ratio", "gpu_power_watts"} <= names
    assert not {"gpu_memory_used_bytes", "gpu_memory_total_bytes", "gpu_memory_reserved_bytes"} & names
    assert not watched.view.findings
    (card,) = json.loads(state_json.document(watched.view).body)["gpus"]
    assert (card["memory_shared_with_host"], card["memory_total_bytes"]) == (True, None)


@pytest.mark.parametrize("run", case("unsup-missing-entry-point")["runs"], ids=lambda run: run["name"])
def test_an_entry_point_that_is_not_there(
    libraries: Libraries, tree: Tree, tmp_path: Path, run: dict[str, list[str]]
) -> None:
    """Report 24: one name or the other gives the same series; with neither, a series names what is missing."""
    content = case("unsup-missing-entry-point")
    with loaded(libraries(595, tuple(run["missing"]))) as standin:
        standin.apply(*cards(content), "set * GetSamples !3")
        standin.apply("set 0 GetCurrentClocksEventReasons 0x44", "set 0 GetCurrentClocksThrottleReasons 0x44")
        node = empty_node(tmp_path)
        page = Watched(node, ProcfsHost(procfs_root=tree.proc, sysfs_root=tree.sys)).tick(3)
        node.close()
    missing = page.values("node_readings_missing", reading="throttle_reasons", reason="not_supported")
    if run["name"] == "neither":
        assert missing == [1.0]
        assert not page.values("gpu_throttled")
    else:
        assert missing == []
        assert page.value("gpu_throttled", reason="hw_thermal") == 1.0


def test_one_lost_card_of_four(standin: Standin, watch: Watch) -> None:
    """Report 28: the lost card is down under its last UUID and address, the others go on, no dead handle is used."""
    content = case("lost-one-of-four")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    watched = watch()
    for readings in content["ticks"]:
        standin.apply(*tick(content, readings))
        page = watched.tick()
    assert page.values("gpu_up") == [1.0, 0.0, 1.0, 1.0]
    assert page.value("gpu_info", uuid=content["gpus"][1]["uuid"], pci_bus_id="0000:20:00.0") == 1.0
    assert page.values("gpu_power_watts") == [200.0] * 3


def test_the_backend_stops_answering(standin: Standin, watch: Watch) -> None:
    """Report 30: series are gone within 3 s, ages grow, health turns bad within 10 s and good again by itself."""
    content = case("lost-stale-cache")
    standin.apply(*cards(content))
    watched = watch()
    good = watched.tick(10)
    assert watched.get("/-/healthy").status == 200
    standin.apply("set * everything !999")
    page = watched.tick(3)
    assert page.names(gpu="0") == {"gpu_info", "gpu_up", "gpu_last_sample_timestamp_seconds", "gpu_p2p_info"}
    assert page.values("gpu_up") == [0.0, 0.0]
    stamp = page.value("gpu_last_sample_timestamp_seconds", gpu="0")
    for _ in range(7):
        page = watched.tick()
        assert page.value("gpu_last_sample_timestamp_seconds", gpu="0") == stamp
    assert stamp is not None
    assert stamp <= (good.value("gpu_last_sample_timestamp_seconds", gpu="0") or 0.0)
    assert watched.get("/-/healthy").status == 503
    watched.tick(380)
    assert watched.get("/-/healthy").status == 503
    standin.apply("clear * everything")
    assert watched.tick(5).values("gpu_up") == [1.0, 1.0]
    assert watched.get("/-/healthy").status == 200


def test_a_driver_that_is_not_there_is_no_illness(standin: Standin, watch: Watch) -> None:
    """Report 30, the near twin: gpumon that waits for a driver, or was told to let go of it, is healthy."""
    standin.apply("card 0 minor 0", "set * Init !9")
    watched = watch()
    page = watched.tick(30)
    assert page.value("nvml_up") == 0.0
    assert watched.get("/-/healthy").status == 200
    standin.apply("clear * Init")
    assert watched.tick(5).value("nvml_up") == 1.0


def test_a_driver_restart(standin: Standin, watch: Watch) -> None:
    """Report 31: the cards come back with fresh handles, each initialisation is shut down once, no counter falls."""
    content = case("lost-driver-restart")
    standin.apply(*cards(content), "set 0 GetPcieReplayCounter 7", "set * GetSamples !3")
    watched = watch()
    before = watched.tick(20)
    standin.apply("set * everything !1", "set * Init !9")
    assert watched.tick(4).value("nvml_up") == 0.0
    standin.apply("clear * everything", "clear * Init")
    standin.apply("set 0 GetTotalEnergyConsumption 0", "set 0 GetPcieReplayCounter 0")
    after = watched.tick(20)
    assert after.values("gpu_up") == [1.0, 1.0]
    assert standin.count("init") == standin.count("shutdown") + 1
    falling = [key for key, value in before.samples.items() if key[0].endswith("_total") and after.samples[key] < value]
    assert falling == []


def test_board_readings_come_once(standin: Standin, watch: Watch) -> None:
    """Report 41: three slices, one board: its power and heat once, memory for each slice, no utilization."""
    content = case("mig-board-vs-slice")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    page = watch().tick(17)
    assert sum(page.values("gpu_power_watts")) == 400.0
    assert page.values("gpu_temperature_celsius", gpu="0", sensor="gpu") == [60.0]
    assert page.value("gpu_utilization_ratio", gpu="0") is None
    assert [used / (1 << 30) for used in page.values("gpu_mig_memory_used_bytes", gpu="0")] == [1, 9, 20]


@pytest.mark.parametrize("code", [9, 18])
def test_a_driver_that_goes_away_takes_no_card_from_a_job(
    standin: Standin, watch: Watch, tree: Tree, code: int
) -> None:
    """Report 33, the kind: while the driver is being exchanged no customer hears that a card was lost."""
    standin.apply("card 0 minor 0", "card 1 minor 1", "set 0 GetComputeRunningProcesses 70/1000")
    tree.process(70)
    watched = watch()
    assert watched.tick(10).values("job_gpus_lost") == [0.0]
    standin.apply("set * everything !1", f"set * Init !{code}")
    for _ in range(30):
        assert not any(watched.tick().values("job_gpus_lost"))
    standin.apply("clear * everything", "clear * Init")
    assert watched.tick(15).values("job_gpus") == [1.0]
