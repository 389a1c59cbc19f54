"""Six driver eras through the real binding: what each can do is found, and what it can do is read the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gpumon.hardware.reader import CounterSample, WindowSample
from gpumon.model.card import LinkSource, PowerKind
from gpumon.model.fault import Fault
from tests.nvml.conftest import Libraries, empty_node
from tests.nvml.reading import quick, rare, readers
from tests.standin.library import ERAS, loaded

pytestmark = pytest.mark.tools

_CARD = (
    "card 0 name NVIDIA GeForce RTX 5090",
    "card 0 architecture 10",
    "card 0 minor 3",
    "card 0 bus_id 00000000:C1:00.0",
    "card 0 memory_total_bytes 34359738368",
    "card 0 memory_reserved_bytes 500000000",
    "card 0 power_limit_watts 575",
    "card 0 power_default_limit_watts 575",
    "card 0 link_generation_max 5",
    "card 0 bus_busy 1",
    "card 0 numa_node 1",
    "rate 0 power 400",
    "rate 0 kernel 1.0",
    "rate 0 memory_controller 0.3",
    "rate 0 sm_clock 2.4e9",
    "rate 0 memory_clock 14e9",
    "rate 0 memory_used 2e10",
    "rate 0 temperature 61",
    "rate 0 pcie_rx 2e10",
    "rate 0 pcie_tx 1e10",
    "rate 0 sw_power_cap 1",
    "process 0 4242 compute 20000000000 0 1e9 1.0",
)


@dataclass(frozen=True)
class _Era:
    """What an era's driver gives on this card."""

    source: LinkSource
    instant_power: bool
    split_memory: bool
    thermal_seconds: bool
    bus_busy: bool
    numa_node: int


_WANTED = {
    470: _Era(LinkSource.WINDOW, False, False, False, False, -1),
    535: _Era(LinkSource.WINDOW, True, True, False, True, -1),
    550: _Era(LinkSource.WINDOW, True, True, False, True, 1),
    560: _Era(LinkSource.COUNTER, True, True, False, True, 1),
    580: _Era(LinkSource.COUNTER, True, True, True, True, 1),
    595: _Era(LinkSource.COUNTER, True, True, True, True, 1),
}


@pytest.mark.parametrize("era", ERAS)
def test_an_era(libraries: Libraries, tmp_path: Path, era: int) -> None:
    """Capabilities follow the driver; every reading that it has is the same in all eras; nothing raises."""
    wanted = _WANTED[era]
    with loaded(libraries(era)) as standin:
        standin.apply(*_CARD)
        node = empty_node(tmp_path)
        (reader,) = readers(node)
        card = reader.card
        sample, rarely = quick(reader), rare(reader)
        window, counters = reader.window("rx"), reader.counters()
        processes = reader.processes()
        node.close()
        assert not standin.violations()
    assert (card.identity.name, card.identity.architecture) == ("NVIDIA GeForce RTX 5090", "blackwell")
    assert (card.identity.pci_address, card.identity.minor) == ("0000:c1:00.0", 3)
    assert card.identity.numa_node == wanted.numa_node
    assert card.capabilities.pcie_source is wanted.source
    assert card.capabilities.power_kind is PowerKind.RING
    assert ("power_instant" in card.capabilities.features) is wanted.instant_power
    assert ("pcie_counter" in card.capabilities.features) is (wanted.source is LinkSource.COUNTER)
    assert sample.readings["power_watts"] == pytest.approx(400.0, rel=0.01)
    assert sample.readings["utilization_ratio"] == 1.0
    assert sample.readings["memory_controller_ratio"] == pytest.approx(0.3)
    assert sample.readings["temperature_gpu_celsius"] == 61
    assert sample.readings["sm_clock_hertz"] == 2.4e9
    assert sample.throttle_reasons == {"sw_power_cap"}
    assert sample.readings["throttle_power_seconds"] > 0.0
    assert ("throttle_sw_thermal_seconds" in sample.readings) is wanted.thermal_seconds
    assert ("bus_busy_ratio" in sample.readings) is wanted.bus_busy
    assert ("memory_reserved_bytes" in sample.readings) is wanted.split_memory
    assert sample.readings["memory_used_bytes"] == pytest.approx(2e10 if wanted.split_memory else 2.05e10)
    assert rarely.readings["power_limit_watts"] == 575.0
    assert rarely.readings["link_generation_max"] == 5
    assert isinstance(window, WindowSample)
    assert window.bytes_per_second == pytest.approx(2e10, rel=1e-4)
    assert isinstance(counters, CounterSample) is (wanted.source is LinkSource.COUNTER)
    assert not isinstance(processes, Fault)
    assert [(process.pid, process.used_memory_bytes) for process in processes] == [(4242, 2e10)]


@pytest.mark.parametrize("era", [535, 580, 595])
def test_a_card_with_gpm(libraries: Libraries, tmp_path: Path, era: int) -> None:
    """Where the card has GPM it is the best source, unless it does not fill its link figures in."""
    with loaded(libraries(era)) as standin:
        standin.apply(*_CARD, "card 0 gpm 1", "card 1 gpm 1", "set 1 GpmMetric:20 !3")
        node = empty_node(tmp_path)
        full, without_link = readers(node)
        node.close()
    assert full.card.capabilities.pcie_source is LinkSource.GPM
    assert without_link.card.capabilities.pcie_source is not LinkSource.GPM
    assert "gpm" in without_link.card.capabilities.features
