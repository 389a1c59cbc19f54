"""Reported kinds VAL and CTR: impossible values never get out, and units and directions are what they say."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.nvidia.card import NvmlCardReader
from gpumon.hardware.reader import CounterSample, WindowSample
from gpumon.model.fault import Fault
from tests.nvml.cases import cards, case, tick
from tests.nvml.reading import HandClock, opened, quick, readers
from tests.standin.library import Standin

pytestmark = pytest.mark.tools


def test_utilization_above_full_scale_is_no_sample(standin: Standin, node: NvmlNode) -> None:
    """Report 1: readings above 100 % are missing and counted; the true values before and after are read."""
    content = case("val-util-spikes")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    (reader,) = readers(node)
    seen = []
    for readings in content["ticks"]:
        standin.apply(*tick(content, readings))
        sample = quick(reader)
        seen.append(sample.readings.get("utilization_ratio"))
        if "utilization_ratio" in sample.faults:
            assert sample.faults["utilization_ratio"] is Fault.REJECTED
    assert seen == [0.40, None, None, None, 0.0, None, 0.41]
    assert sum(node.rejected().values()) == 5


def test_power_far_over_the_limit_is_no_sample(standin: Standin, node: NvmlNode) -> None:
    """Report 3: an excursion over the limit is real, kilowatts and unfilled values are not."""
    content = case("val-power-over-limit")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    (reader,) = readers(node)
    seen = []
    for readings in content["ticks"]:
        standin.apply(*tick(content, readings))
        seen.append(quick(reader).readings.get("power_watts"))
    assert seen == [690.0, 780.0, None, 695.0, None, None]


def test_impossible_power_stays_out_of_ring_and_counters(standin: Standin, node: NvmlNode) -> None:
    """Report 3, the kind: the same value is thrown away whichever call brings it."""
    standin.apply("card 0 power_limit_watts 700", "card 0 power_default_limit_watts 700")
    clock = HandClock()
    (reader,) = readers(node, clock)
    reader.rings()
    clock.advance(1.0)
    standin.apply("set 0 GetSamples:0 @0.1/690000;@0.2/15000000;@0.3/0;@0.4/4294967295;@0.5/695000")
    standin.apply("set 0 GetFieldValue:186 15000000")
    rings, counters = reader.rings(), reader.counters()
    assert not isinstance(rings, Fault)
    assert isinstance(counters, CounterSample)
    assert rings.power.value.tolist() == [690.0, 695.0]
    assert math.isnan(counters.power_watts)
    assert node.rejected()["power"] == 4


def test_undecodable_name_does_not_stop_the_start(standin: Standin, node: NvmlNode) -> None:
    """Report 4: a card whose name is no valid text has a replacement name and keeps its UUID."""
    content = case("val-name-bytes")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    first, second = opened(node)
    assert (first.identity.uuid, second.identity.uuid) == tuple(gpu["uuid"] for gpu in content["gpus"])
    assert first.identity.name == "??A"
    assert second.identity.name == "unknown"


@pytest.mark.parametrize("run", [0, 1])
def test_energy_that_falls_to_zero(standin: Standin, node: NvmlNode, run: int) -> None:
    """Report 9: a zero after more is no reading while the driver stays loaded; after a reload it is the new start."""
    content = case("ctr-energy-drop-recover")
    ticks = content["runs"][run]["ticks"]
    standin.apply(*cards(content), *tick(content, ticks[0]))
    (reader,) = readers(node)
    seen = []
    for readings in ticks:
        standin.apply(*tick(content, readings))
        if readings.get("reinit"):
            node.close()
            (reader,) = readers(node)
        seen.append(quick(reader).readings.get("energy_joules"))
    assert seen == ([1e6, None, None, 1000000.5], [1e6, 0.0, 400.0, 900.0])[run]


def test_equal_energy_is_a_reading(standin: Standin, node: NvmlNode) -> None:
    """Report 13: a counter that moves in steps is read as it stands, and power does not come from it."""
    content = case("ctr-energy-coarse")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]), "set 0 GetFieldValue:186 120000")
    (reader,) = readers(node)
    for readings in content["ticks"]:
        standin.apply(*tick(content, readings))
        sample = quick(reader)
        assert sample.readings["energy_joules"] == readings["a"]["energy_mj"] / 1e3
        assert sample.readings["power_watts"] == 120.0


def test_window_rate_is_bytes_per_second(standin: Standin, node: NvmlNode) -> None:
    """Report 10: a window is a rate in bytes per second that rises and falls, with 1 KB taken as 1000 bytes."""
    (reader,) = _one_card(standin, node)
    standin.apply("set 0 GetPcieThroughput 500 20 300")
    rates = [window.bytes_per_second for _ in range(3) if isinstance(window := reader.window("rx"), WindowSample)]
    assert rates == [500e3, 20e3, 300e3]


def test_directions_are_not_swapped(standin: Standin, node: NvmlNode) -> None:
    """Report 16: tx and rx keep their names in windows, counters and NVLink; one may be refused without the other."""
    content = case("ctr-tx-rx")
    links = ["card 0 nvlink_links 1", "nvlink_peer 0 0 1", "set 0 GetFieldValue:138 !3", "set 0 GetFieldValue:139 !3"]
    standin.apply(*cards(content), *links, *tick(content, content["ticks"][0]))
    standin.apply("set 0 GetFieldValue:197 197197", "set 0 GetFieldValue:198 198198")
    one, other = readers(node)
    assert _rate(one.window("tx")) == 111e3
    assert _rate(one.window("rx")) == 222e3
    assert _rate(other.window("tx")) == 333e3
    assert other.window("rx") is Fault.NOT_SUPPORTED
    counters = one.counters()
    assert isinstance(counters, CounterSample)
    assert (counters.tx, counters.rx) == (197197, 198198)
    assert (counters.nvlink_tx_bytes, counters.nvlink_rx_bytes) == (1111, 2222)


def _rate(window: WindowSample | Fault) -> float:
    assert isinstance(window, WindowSample)
    return window.bytes_per_second


def test_one_nvlink_that_restarts_does_not_lower_the_total(standin: Standin, node: NvmlNode) -> None:
    """Report 11: a link that starts again from zero adds what it has carried since; the total never falls."""
    content = case("ctr-nvlink-rate")
    standin.apply(*cards(content), "card 1 nvlink_links 2", "nvlink_peer 1 0 0", "nvlink_peer 1 1 2")
    standin.apply("set 1 GetFieldValue:138 !3", "set 1 GetFieldValue:139 !3")
    standin.apply("set 1 GetFieldValue:1204 0", "set 1 GetFieldValue:2204 0")
    standin.apply(*tick(content, content["ticks"][0]))
    reader = readers(node)[1]
    totals = []
    for readings in content["ticks"]:
        standin.apply(*tick(content, readings))
        counters = reader.counters()
        assert isinstance(counters, CounterSample)
        totals.append(counters.nvlink_tx_bytes)
    assert [after - before for before, after in pairwise(totals)] == [2000, 1000, 1500]


def test_a_sum_of_nvlinks_that_falls_does_not_lower_the_total(standin: Standin, node: NvmlNode) -> None:
    """Report 11, the kind: where the driver adds the links up, a fall adds nothing and counting goes on from there."""
    standin.apply("card 0 nvlink_links 1", "card 1 nvlink_links 1", "nvlink_peer 0 0 1", "nvlink_peer 1 0 0")
    standin.apply("set 0 GetFieldValue:139 0", "set 0 GetFieldValue:138 6000")
    reader = readers(node)[0]
    totals = []
    for count in (6000, 8000, 7000, 0, 8500):
        standin.apply(f"set 0 GetFieldValue:138 {count}")
        counters = reader.counters()
        assert isinstance(counters, CounterSample)
        totals.append(counters.nvlink_tx_bytes / 1024)
    assert totals == [6000, 8000, 8000, 8000, 9500]


def test_used_memory_is_without_what_the_driver_reserves(standin: Standin, node: NvmlNode) -> None:
    """Report 15: used and reserved are apart where the driver tells them apart; elsewhere there is no reserved."""
    content = case("ctr-memory-v1-v2")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    split, whole = (quick(reader) for reader in readers(node))
    assert split.readings["memory_used_bytes"] == 10737418
    assert split.readings["memory_reserved_bytes"] == 644245094
    assert whole.readings["memory_used_bytes"] == 541917184
    assert whole.faults["memory_reserved_bytes"] is Fault.NOT_SUPPORTED


@pytest.mark.parametrize("bits", [32, 64])
def test_byte_counters_come_modulo_their_width(standin: Standin, node: NvmlNode, bits: int) -> None:
    """A counter that has shown no more than 32 bits is taken modulo 2^32, whatever its type says."""
    start = 5 if bits == 32 else (1 << 40) + 5
    standin.apply("card 0 minor 0", f"set 0 GetFieldValue:198 {start}", f"set 0 GetFieldValue:197 {start}")
    (reader,) = readers(node)
    assert reader.card.capabilities.counter_bits == bits
    standin.apply(f"set 0 GetFieldValue:198 {(1 << 33) + 7}")
    counters = reader.counters()
    assert isinstance(counters, CounterSample)
    assert counters.rx == (7 if bits == 32 else (1 << 33) + 7)


def test_a_thousandfold_rate_is_no_window(standin: Standin, node: NvmlNode) -> None:
    """A rate beyond what the link can carry is rejected: some R56x drivers gave it a thousandfold."""
    (reader,) = _one_card(standin, node)
    standin.apply("set 0 GetPcieThroughput 20000000000")
    assert reader.window("rx") is Fault.REJECTED
    assert node.rejected() == {"pcie_window": 1}


def test_after_some_impossible_windows_none_is_believed(standin: Standin, node: NvmlNode) -> None:
    """When a card's windows are impossible again and again, those that only look possible are thrown away too."""
    (reader,) = _one_card(standin, node)
    standin.apply("set 0 GetPcieThroughput 20000000000*3 500")
    assert [reader.window("rx") for _ in range(5)] == [Fault.REJECTED] * 5
    assert node.rejected() == {"pcie_window": 3, "pcie_unit": 2}


def test_energy_that_no_card_can_have_drawn(standin: Standin, node: NvmlNode) -> None:
    """A counter that leaps beyond the card's power since the last look is no reading; the true one is, again."""
    standin.apply("card 0 power_limit_watts 400", f"set 0 GetTotalEnergyConsumption 1000000 {1 << 60} 1400000 5000")
    clock = HandClock()
    (reader,) = readers(node, clock)
    standin.apply(f"set 0 GetTotalEnergyConsumption 1000000 {1 << 60} 1400000 5000")
    seen = []
    for _ in range(4):
        seen.append(quick(reader).readings.get("energy_joules"))
        clock.advance(1.0)
    assert seen == [1000.0, None, 1400.0, 5.0]


def test_values_that_are_not_filled_are_read_by_their_type(standin: Standin, node: NvmlNode) -> None:
    """Bytes of a field's union that its type does not use may hold anything."""
    standin.apply("card 0 minor 0", "set 0 GetFieldValue:186 t1:250000", "set 0 GetFieldValue:82 t0:61.0")
    (reader,) = readers(node)
    readings = quick(reader).readings
    assert (readings["power_watts"], readings["temperature_memory_celsius"]) == (250.0, 61.0)


def _one_card(standin: Standin, node: NvmlNode) -> list[NvmlCardReader]:
    standin.apply("card 0 link_generation_max 4", "card 0 link_width_max 16")
    return readers(node)
