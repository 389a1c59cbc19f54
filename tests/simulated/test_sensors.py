"""Sensors show the physical truth with NVML's own artefacts, at the time of whoever asks."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gpumon.hardware.reader import CounterSample, GpmSample, Rings, SlowSample, WindowSample
from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.scenario import (
    Burn,
    FaultPlan,
    JobPlan,
    NodePlan,
    Scenario,
    Standing,
    Workload,
    slots,
)
from gpumon.hardware.simulated.scenarios import find_scenario
from gpumon.hardware.simulated.training import Training
from gpumon.model.fault import Fault
from tests.simulated.conftest import Reading

Opener = Callable[..., Reading]

FULL = Training(work.MODEL_1B, "ddp", micro_batch=1, sequence=512, overlap=False)


def _scenario(card: str, workload: Workload, count: int = 2, faults: tuple[FaultPlan, ...] = ()) -> Scenario:
    node = NodePlan(slots(card, count, sockets=1))
    return Scenario("s", "", node, (JobPlan("job", workload, tuple(range(count))),), faults)


def test_counters_wrap_at_32_bits_and_keep_every_byte(reader: Opener) -> None:
    """Differences of the raw counters modulo 2**32 add up to the bytes that really crossed."""
    node, card, clock = reader(_scenario("rtx5090", FULL))
    seen, wraps, before = 0, 0, None
    for poll in range(1, 400):
        clock.wait_until(poll * 0.05)
        sample = card.counters()
        assert isinstance(sample, CounterSample)
        assert sample.rx is not None
        assert 0 <= sample.rx < 2**32
        if before is not None:
            seen += (sample.rx - before) % 2**32
            wraps += sample.rx < before
        before = sample.rx
    truth = node.truth(0.05, 399 * 0.05)[0]
    assert seen == pytest.approx(truth.rx_bytes[0], abs=2)
    assert wraps > 10


def test_window_blocks_for_its_20_ms_and_tells_their_mean(reader: Opener) -> None:
    """The window call moves the caller's clock by about 20 ms and gives the mean of just that time in whole KB/s."""
    node, card, clock = reader(_scenario("rtx5090", FULL))
    clock.wait_until(3.0)
    for direction in ("rx", "tx"):
        before = clock.mono_s()
        sample = card.window(direction)
        assert isinstance(sample, WindowSample)
        assert 0.020 <= clock.mono_s() - before <= 0.022
        assert sample.t1_s - sample.t0_s == pytest.approx(0.020)
        truth = node.truth(sample.t0_s, sample.t1_s)[0]
        moved = (truth.rx_bytes if direction == "rx" else truth.tx_bytes)[0]
        assert sample.bytes_per_second == pytest.approx(moved / 0.020, abs=1000)
        assert sample.bytes_per_second % 1000 == 0


@pytest.mark.parametrize(("queue", "last_s"), [(False, 0.0205), (True, 8 * 0.0205)])
def test_windows_overlap_or_queue_between_cards(queue: bool, last_s: float) -> None:
    """Where the driver queues window calls, the eighth card waits for the seven before it."""
    from gpumon.hardware.simulated.node import SimulatedNode
    from gpumon.sampling.clocks import CountingClock

    base = find_scenario("rtx5090-x8-ddp-bound")
    node = SimulatedNode(replace(base, node=replace(base.node, queue_windows=queue)))
    cards = node.open()
    assert not isinstance(cards, Fault)
    clocks = [CountingClock() for _ in cards]
    readers = [node.card_reader(card, clock) for card, clock in zip(cards, clocks, strict=True)]
    for each in readers:
        each.window("rx")
    assert clocks[-1].mono_s() == pytest.approx(last_s)


def test_waiting_in_a_collective_reads_as_full_utilization(reader: Opener) -> None:
    """While a card only waits for others, its utilization is 100 % and its power a little above idle."""
    scenario = find_scenario("h100-sxm-x8-checkpoint")
    node, card, clock = reader(scenario, card=3)
    waiting = [t for t in np.arange(5.0, 40.0, 1.0) if node.truth(t - 1.0, t)[0].split["peer_wait"] > 0.85]
    clock.wait_until(float(waiting[1]))
    quick = card.quick()
    assert isinstance(quick, SlowSample)
    assert quick.readings["utilization_ratio"] == 1.0
    assert quick.readings["power_watts"] < 180
    assert quick.readings["memory_controller_ratio"] < 0.1


def test_power_ring_is_fifty_samples_a_second_at_work_and_one_at_rest(reader: Opener) -> None:
    """A drain after one second brings about 50 samples of a busy card; an idle card makes one a second."""
    for workload, samples in ((Burn("dense"), 50), (Standing(), 1)):
        _, card, clock = reader(_scenario("rtx4090", workload))
        clock.wait_until(30.0)
        card.rings()
        clock.wait_until(31.0)
        rings = card.rings()
        assert isinstance(rings, Rings)
        assert rings.power.t_s.size == samples
        assert rings.utilization.t_s.size == pytest.approx(7, abs=1)
        assert np.all((rings.power.t_s > 30.0) & (rings.power.t_s <= 31.0))


def test_ring_holds_no_more_than_119_samples(reader: Opener) -> None:
    """What is drained too late is lost."""
    _, card, clock = reader(_scenario("rtx4090", Burn("dense")))
    clock.wait_until(60.0)
    rings = card.rings()
    assert isinstance(rings, Rings)
    assert rings.power.t_s.size == 119
    assert rings.power.t_s[0] > 57.0


def test_instantaneous_power_follows_the_step_and_its_mean_the_energy(reader: Opener) -> None:
    """The ring swings between computing and waiting; its mean is the energy counter's within noise."""
    _, card, clock = reader("rtx5090-x8-ddp-bound")
    values: list[float] = []
    energies = []
    for second in range(11, 41):
        clock.wait_until(float(second))
        rings, quick = card.rings(), card.quick()
        assert isinstance(rings, Rings)
        assert isinstance(quick, SlowSample)
        if second > 11:
            values += rings.power.value.tolist()
        energies.append(quick.readings["energy_joules"])
    assert max(values) - min(values) > 200
    assert statistics.fmean(values) == pytest.approx((energies[-1] - energies[0]) / 29, rel=0.02)


def test_power_read_without_the_instantaneous_field_is_a_mean_of_one_second(reader: Opener) -> None:
    """Under a driver before 525 a GeForce card's power hardly shows a step of a quarter of a second."""
    base = find_scenario("rtx5090-x8-ddp-bound")
    old = replace(base, node=replace(base.node, driver="515.105.01"))
    spreads = []
    for scenario in (base, old):
        _, card, clock = reader(scenario)
        readings = []
        for poll in range(200):
            clock.wait_until(20 + poll * 0.05)
            quick = card.quick()
            assert isinstance(quick, SlowSample)
            readings.append(quick.readings["power_watts"])
        spreads.append(statistics.pstdev(readings))
    assert spreads[1] < 0.2 * spreads[0]


def test_energy_counter_moves_every_tenth_of_a_second(reader: Opener) -> None:
    """Between refreshes the energy counter stands still."""
    _, card, clock = reader(_scenario("rtx4090", Burn("dense")))
    shown = []
    for poll in range(100):
        clock.wait_until(5.0 + poll * 0.01)
        quick = card.quick()
        assert isinstance(quick, SlowSample)
        shown.append(quick.readings["energy_joules"])
    assert 9 <= len(set(shown)) <= 11


def test_gpm_needs_a_tenth_of_a_second_and_tells_real_work(reader: Opener) -> None:
    """GPM gives nothing the first time or too soon; afterwards SM and tensor activity and exact bytes."""
    node, card, clock = reader("h100-sxm-x8-ddp")
    clock.wait_until(10.0)
    assert card.gpm() is Fault.NO_DATA
    clock.wait_until(10.05)
    assert card.gpm() is Fault.NO_DATA
    clock.wait_until(11.05)
    sample = card.gpm()
    assert isinstance(sample, GpmSample)
    truth = node.truth(10.05, 11.05)[0]
    assert sample.nvlink_rx_bytes + sample.nvlink_tx_bytes == pytest.approx(truth.nvlink_bytes[0])
    assert sample.readings["tensor_active_ratio"] > 0.2
    assert sample.readings["sm_active_ratio"] > 0.7


def test_gpm_and_counters_are_not_supported_where_the_card_lacks_them(reader: Opener) -> None:
    """An RTX 3090 has neither; under a driver before 555 nobody has the byte counters."""
    _, card, _ = reader(_scenario("rtx3090", Standing()))
    assert card.gpm() is Fault.NOT_SUPPORTED
    assert card.counters() is Fault.NOT_SUPPORTED
    base = _scenario("rtx5090", Standing())
    _, card, _ = reader(replace(base, node=replace(base.node, driver="550.144.03")))
    assert card.counters() is Fault.NOT_SUPPORTED


def test_link_and_clocks_fall_when_nothing_runs(reader: Opener) -> None:
    """An idle card shows generation 1, low clocks and the idle reason; a busy one its full link."""
    for workload, generation in ((Standing(), 1), (Burn("dense"), 4)):
        _, card, clock = reader(_scenario("rtx4090", workload))
        clock.wait_until(20.0)
        quick = card.quick()
        assert isinstance(quick, SlowSample)
        assert quick.readings["link_generation"] == generation
        assert quick.readings["link_width_lanes"] == 16
        assert ("idle" in quick.throttle_reasons) == (generation == 1)
        assert (quick.readings["sm_clock_hertz"] < 1e9) == (generation == 1)


def test_readings_do_not_depend_on_the_order_of_cards() -> None:
    """A card read after another one has run ahead shows the same as one read alone."""
    from gpumon.hardware.simulated.node import SimulatedNode
    from gpumon.sampling.clocks import CountingClock

    shown = []
    for ahead_s in (0.0, 30.0):
        node = SimulatedNode("rtx5090-x8-ddp-bound", 3)
        cards = node.open()
        assert not isinstance(cards, Fault)
        clocks = (CountingClock(), CountingClock())
        first, second = (node.card_reader(card, clock) for card, clock in zip(cards[:2], clocks, strict=True))
        clocks[0].wait_until(ahead_s)
        first.counters()
        clocks[1].wait_until(10.0)
        # As text: a missing reading is NaN, which is not equal to itself.
        shown.append(repr((second.counters(), second.quick(), second.processes())))
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("lost", Fault.LOST),
        ("reset_required", Fault.RESET_REQUIRED),
        ("driver_not_loaded", Fault.DRIVER_NOT_LOADED),
        ("unknown", Fault.UNKNOWN),
        ("garbage", Fault.REJECTED),
    ],
)
def test_planned_faults_hit_every_call_in_their_time(reader: Opener, kind: str, fault: Fault) -> None:
    """Between its times a fault answers every call of that card; before and after all is well."""
    scenario = _scenario("rtx5090", Burn("dense"), faults=(FaultPlan(0, kind, 10.0, 20.0),))
    node, card, clock = reader(scenario)
    clock.wait_until(9.0)
    assert isinstance(card.quick(), SlowSample)
    clock.wait_until(12.0)
    assert {card.counters(), card.window("rx"), card.rings(), card.quick(), card.rare(), card.processes()} == {fault}
    assert node.errors()[fault.value] == 6
    clock.wait_until(20.0)
    assert isinstance(card.quick(), SlowSample)


def test_hung_call_blocks_its_own_card_only(reader: Opener) -> None:
    """A call that hangs comes back when the fault ends, on that card's clock."""
    scenario = _scenario("rtx5090", Burn("dense"), faults=(FaultPlan(0, "hung", 10.0, 70.0),))
    _, card, clock = reader(scenario)
    clock.wait_until(10.0)
    assert card.quick() is Fault.TIMEOUT
    assert clock.mono_s() == 70.0
    _, other, other_clock = reader(scenario, card=1)
    other_clock.wait_until(10.0)
    assert isinstance(other.quick(), SlowSample)
    assert other_clock.mono_s() == 10.0


def test_throttle_reasons_follow_the_cause(reader: Opener) -> None:
    """Lowered limit, heat and brake set their own bits and their own time counters."""
    for name, reason, key in (
        ("rtx5090-x8-power-limited", "sw_power_cap", "throttle_power_seconds"),
        ("rtx4090-x4-heat", "sw_thermal", "throttle_sw_thermal_seconds"),
        ("rtx4090-x4-brake", "hw_power_brake", "throttle_hw_power_brake_seconds"),
    ):
        _, card, clock = reader(name)
        clock.wait_until(100.0)
        quick = card.quick()
        assert isinstance(quick, SlowSample)
        assert reason in quick.throttle_reasons
        assert quick.readings[key] > 10
