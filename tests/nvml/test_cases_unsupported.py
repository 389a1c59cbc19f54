"""Reported kind UNSUP: what a card or driver cannot do is missing with its reason, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.model.fault import Fault
from gpumon.model.fields import READINGS_BY_KEY
from tests.nvml.cases import cards, case, tick
from tests.nvml.conftest import Libraries, empty_node
from tests.nvml.reading import opened, quick, rare, readers
from tests.standin.library import Standin, loaded

pytestmark = pytest.mark.tools


def test_a_sparse_card_beside_a_full_one(standin: Standin, node: NvmlNode) -> None:
    """Report 20: the sparse card has what it has, the full one everything, and no placeholder stands for a value."""
    content = case("unsup-geforce")
    standin.apply(*cards(content), "card 1 ecc enabled", *tick(content, content["ticks"][0]))
    sparse, full = readers(node)
    sample, rarely = quick(sparse), rare(sparse)
    assert sample.readings["utilization_ratio"] == 0.5
    assert sample.readings["memory_used_bytes"] == 1073741824
    assert sample.readings["temperature_gpu_celsius"] == 60
    for key in ("power_watts", "energy_joules"):
        assert sample.faults[key] is Fault.NOT_SUPPORTED
        assert key not in sample.readings
    assert rarely.faults["power_limit_watts"] is Fault.NOT_SUPPORTED
    assert "ecc_corrected" not in rarely.readings
    assert sparse.processes() is Fault.NOT_SUPPORTED
    both = quick(full).readings | rare(full).readings
    assert both["power_watts"] == 300.0
    assert both["energy_joules"] == 0.005
    assert both["power_limit_watts"] == 700.0
    assert both["ecc_uncorrected"] == 0
    assert full.processes() == ()


def test_what_is_refused_is_asked_once(standin: Standin, node: NvmlNode) -> None:
    """Report 20, the kind: an unsupported call is made once for a card and counted once, however often it is wanted."""
    standin.apply("card 0 energy 0", "card 1 energy 0", "set * GetRemappedRows !3")
    both = readers(node)
    for _ in range(20):
        for reader in both:
            quick(reader), rare(reader), reader.processes()
    calls = [standin.calls(name, card) for name in ("GetTotalEnergyConsumption", "GetRemappedRows") for card in (0, 1)]
    counted = node.errors()["not_supported"]
    assert calls == [1, 1, 1, 1]
    for reader in both:
        quick(reader), rare(reader)
    assert node.errors()["not_supported"] == counted


def test_a_part_without_memory_of_its_own(standin: Standin, node: NvmlNode) -> None:
    """Report 23: the card is there, its memory is not, and its PCI domain stays in the address."""
    content = case("unsup-gb10")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    (reader,) = readers(node)
    sample = quick(reader)
    assert reader.card.identity.pci_address == "000f:01:00.0"
    assert sample.readings["utilization_ratio"] == 0.0
    assert sample.readings["power_watts"] == 11.17
    assert sample.readings["temperature_gpu_celsius"] == 35
    for key in ("memory_total_bytes", "memory_used_bytes", "memory_reserved_bytes"):
        assert sample.faults[key] is Fault.NOT_SUPPORTED
    assert rare(reader).faults["power_limit_watts"] is Fault.NOT_SUPPORTED


def test_a_memory_query_that_answers_zero(standin: Standin, node: NvmlNode) -> None:
    """Report 23, the kind: success with a total of 0 is as absent as a refusal."""
    standin.apply("card 0 minor 0", "set 0 GetMemoryInfo_v2 0,0,0")
    (reader,) = readers(node)
    assert quick(reader).faults["memory_total_bytes"] is Fault.NOT_SUPPORTED


@pytest.mark.parametrize("run", case("unsup-missing-entry-point")["runs"], ids=lambda run: run["name"])
def test_entry_points_differ_by_driver(libraries: Libraries, tmp_path: Path, run: dict[str, list[str]]) -> None:
    """Report 24: by the old name or the new, the same readings; with neither, only those of that call are missing."""
    content = case("unsup-missing-entry-point")
    with loaded(libraries(595, tuple(run["missing"]))) as standin:
        standin.apply(*cards(content), "set 0 GetCurrentClocksEventReasons 0x44")
        standin.apply("set 0 GetCurrentClocksThrottleReasons 0x44", "set 0 GetComputeRunningProcesses 12/1000")
        node = empty_node(tmp_path)
        (reader,) = readers(node)
        sample = quick(reader)
        processes = reader.processes()
        node.close()
    neither = run["name"] == "neither"
    assert sample.throttle_reasons == (frozenset() if neither else {"sw_power_cap", "hw_thermal"})
    assert sample.faults.get("throttle_reasons") is (Fault.NOT_SUPPORTED if neither else None)
    assert sample.readings["memory_used_bytes"] >= 0
    assert not isinstance(processes, Fault)
    assert [process.pid for process in processes] == [12]


def test_a_refused_permission_is_asked_again_only_later(standin: Standin, node: NvmlNode) -> None:
    """A call that needs privilege is left alone for a minute, and the other readings go on."""
    standin.apply("card 0 minor 0", "set 0 GetTotalEnergyConsumption !4")
    (reader,) = readers(node)
    for _ in range(10):
        assert quick(reader).faults["energy_joules"] is Fault.NO_PERMISSION
    assert standin.calls("GetTotalEnergyConsumption") == 1


def test_cards_that_are_not_ours_are_left_out(standin: Standin, node: NvmlNode) -> None:
    """A card whose handle is refused for want of permission belongs to somebody else: it is neither there nor lost."""
    standin.apply("card 0 minor 0", "card 1 minor 1", "card 2 minor 2", "set 1 GetHandle !4")
    assert [card.identity.index for card in opened(node)] == [0, 2]
    standin.apply("set * GetHandle !4")
    node.close()
    assert node.open() is Fault.NO_PERMISSION


def test_readings_are_those_of_the_field_table(standin: Standin, node: NvmlNode) -> None:
    """Every scalar has a row in the field table, and a full card fills every row that is not read by GPM."""
    standin.apply("card 0 ecc enabled", "card 0 memory_temperature 1", "card 0 bus_busy 1", "card 0 nvlink_links 2")
    standin.apply("nvlink_peer 0 0 1", "nvlink_peer 0 1 1", "card 1 nvlink_links 2", "rate 0 power 100")
    reader = readers(node)[0]
    found = quick(reader).readings | rare(reader).readings
    gpm = {key for key, row in READINGS_BY_KEY.items() if row.source.startswith("GPM")}
    assert set(found) == set(READINGS_BY_KEY) - gpm
