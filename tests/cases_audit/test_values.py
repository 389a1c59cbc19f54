"""Reported kinds VAL and CTR on the page: impossible values leave no series, and every figure has one meaning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpumon.model.metrics import METRICS
from tests.cases_audit.watched import Watched
from tests.nvml.cases import cards, case, tick
from tests.procfs.tree import Tree
from tests.standin.library import Standin

pytestmark = pytest.mark.tools

Watch = Callable[..., Watched]


def test_utilization_spikes_leave_no_series(standin: Standin, watch: Watch) -> None:
    """Report 1: impossible utilization is absent from the page and counted there, and no verdict moves."""
    content = case("val-util-spikes")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    watched = watch()
    watched.tick(3)
    seen, classes = [], set()
    for readings in content["ticks"]:
        standin.apply(*tick(content, readings))
        page = watched.tick()
        seen.append(page.value("gpu_utilization_ratio"))
        classes |= {job.verdict.job_class for job in watched.view.jobs}
    assert seen == [0.40, None, None, None, 0.0, None, 0.41]
    assert page.value("readings_rejected_total", reason="utilization") == 4
    assert len(classes) <= 1


def test_impossible_power_neither_shows_nor_counts(standin: Standin, watch: Watch) -> None:
    """Report 3: kilowatts leave no series, and neither the card's energy nor its job's jumps with them."""
    content = case("val-power-over-limit")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]), "set 0 GetTotalEnergyConsumption 5000")
    watched = watch()
    seen = []
    for readings in content["ticks"]:
        standin.apply(*tick(content, readings))
        page = watched.tick()
        seen.append(page.value("gpu_power_watts"))
        assert page.value("gpu_energy_joules_total") == 0.0
    assert seen == [690.0, 780.0, None, 695.0, None, None]


def test_a_name_that_is_no_text(standin: Standin, watch: Watch) -> None:
    """Report 4: the page is valid UTF-8 and has the card under its UUID with a replacement name."""
    content = case("val-name-bytes")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    found = {labels["uuid"]: labels["name"] for labels in watch().tick(2).label_sets("gpu_info")}
    assert found == {gpu["uuid"]: name for gpu, name in zip(content["gpus"], ("??A", "unknown"), strict=True)}


@pytest.mark.parametrize(("run", "joules"), [(0, 0.5), (1, 900.0)])
def test_a_jobs_energy_over_a_fall_of_the_counter(
    standin: Standin, watch: Watch, tree: Tree, run: int, joules: float
) -> None:
    """Report 9: a job is charged what was used, whether the counter glitched to zero or started again."""
    content = case("ctr-energy-drop-recover")
    ticks = content["runs"][run]["ticks"]
    standin.apply(*cards(content), *tick(content, ticks[0]), "set 0 GetComputeRunningProcesses 70/1000")
    tree.process(70)
    watched = watch()
    watched.tick(8)
    totals = [watched.tick().values("job_energy_joules_total")]
    for readings in ticks[1:]:
        if readings.get("reinit"):
            standin.apply("set * everything !1")
            watched.tick(2)
            standin.apply("clear * everything")
        standin.apply(*tick(content, readings))
        totals.append(watched.tick(4).values("job_energy_joules_total"))
    charged = [total for total in totals if total]
    assert charged[-1][0] - charged[0][0] == joules
    assert charged == sorted(charged)
    assert watched.tick().value("gpu_energy_joules_total") == joules


def test_a_rate_is_a_gauge_that_falls(standin: Standin, watch: Watch) -> None:
    """Report 10: traffic seen in windows is a gauge in bytes a second; only what never falls is called a total."""
    standin.apply("card 0 counter_bits 0", "set 0 GetPcieThroughput 300")
    watched = watch()
    before = watched.tick(4)
    standin.apply("set 0 GetPcieThroughput 20")
    after = watched.tick(20)
    rates = [page.value("pcie_throughput_bytes_per_second", direction="rx") for page in (before, after)]
    assert rates == [pytest.approx(300e3), pytest.approx(20e3)]
    totals = {row.name for row in METRICS if row.kind == "counter"}
    assert totals == {row.name for row in METRICS if row.name.endswith("_total")}
    for key, value in before.samples.items():
        assert key[0] not in totals or after.samples[key] >= value


def test_cards_are_counted_by_a_gauge(standin: Standin, watch: Watch) -> None:
    """Reports 12 and 29: eight cards, then seven: a gauge falls, and a second one keeps how many there should be."""
    standin.apply(*(f"card {index} minor {index}" for index in range(8)))
    watched = watch()
    page = watched.tick(3)
    assert (page.value("node_gpus", state="up"), page.value("node_gpus_expected")) == (8, 8)
    standin.apply("set 3 everything !15", "set 3 GetHandle !15")
    page = watched.tick(5)
    assert [page.value("node_gpus", state=state) for state in ("up", "lost")] == [7, 1]
    assert page.value("node_gpus_expected") == 8
    kinds = {row.name: row.kind for row in METRICS}
    assert (kinds["node_gpus"], kinds["node_gpus_expected"]) == ("gauge", "gauge")


def test_coarse_energy_is_no_power(standin: Standin, watch: Watch) -> None:
    """Report 13: while the energy counter stands still, power is what the driver says, and the card is not off."""
    content = case("ctr-energy-coarse")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]), "set 0 GetFieldValue:186 120000")
    watched = watch()
    for readings in content["ticks"]:
        standin.apply(*tick(content, readings))
        page = watched.tick()
        assert (page.value("gpu_power_watts"), page.value("gpu_up")) == (120.0, 1.0)
        used = readings["a"]["energy_mj"] - content["ticks"][0]["a"]["energy_mj"]
        assert page.value("gpu_energy_joules_total") == used / 1e3  # counted from the first sight on


def test_an_error_code_is_an_event(standin: Standin, watch: Watch) -> None:
    """Report 14: an Xid counts under its code with the time it was last seen, and a second one an hour later too."""
    standin.apply("card 0 minor 0")
    watched = watch()
    watched.tick(2)
    standin.apply("xid 0 31 now")
    first = watched.tick(3)
    again = watched.tick(600)
    standin.apply("xid 0 31 now")
    second = watched.tick(3)
    counts = [page.value("gpu_xid_errors_total", xid="31") for page in (first, again, second)]
    stamps = [page.value("gpu_xid_last_timestamp_seconds", xid="31") for page in (first, again, second)]
    assert counts == [1, 1, 2]
    assert stamps[0] == stamps[1]
    assert stamps[2] is not None
    assert stamps[2] - (stamps[0] or 0) == pytest.approx(603, abs=3)


def test_memory_in_use_and_the_drivers_own(standin: Standin, watch: Watch) -> None:
    """Report 15: used is without the driver's reserve where it is told apart; elsewhere no reserve is claimed."""
    content = case("ctr-memory-v1-v2")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    page = watch().tick(3)
    assert page.value("gpu_memory_used_bytes", gpu="0") == 10737418
    assert page.value("gpu_memory_reserved_bytes", gpu="0") == 644245094
    assert page.value("gpu_memory_used_bytes", gpu="1") == 541917184
    assert page.value("gpu_memory_reserved_bytes", gpu="1") is None


def test_each_direction_under_its_own_label(standin: Standin, watch: Watch) -> None:
    """Report 16: what the card sends is tx and what it receives rx; a refused direction has no series."""
    content = case("ctr-tx-rx")
    standin.apply(*cards(content), "card 0 counter_bits 0", "card 1 counter_bits 0")
    standin.apply(*tick(content, content["ticks"][0]))
    page = watch().tick(2)
    rates = [
        page.value("pcie_throughput_bytes_per_second", gpu=gpu, direction=direction)
        for gpu in "01"
        for direction in ("tx", "rx")
    ]
    assert rates == [pytest.approx(111e3), pytest.approx(222e3), pytest.approx(333e3), None]
