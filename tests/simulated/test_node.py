"""The simulated node answers the reader seam as the real one does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpumon.hardware.simulated import work
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.hardware.simulated.scenario import FaultPlan, JobPlan, NodePlan, Scenario, slots
from gpumon.hardware.simulated.scenarios import find_scenario
from gpumon.hardware.simulated.training import Training
from gpumon.model.card import LinkSource
from gpumon.model.errors import GpumonError
from gpumon.model.fault import Fault
from gpumon.model.fields import READINGS_BY_KEY, THROTTLE_REASONS
from gpumon.model.process import ProcessTable
from gpumon.model.settings import SamplingSettings
from gpumon.sampling import simulated_time
from gpumon.sampling.clocks import CountingClock


def _table(node: SimulatedNode, at_s: float = 5.0) -> ProcessTable:
    cards = node.open()
    assert not isinstance(cards, Fault)
    pids: set[int] = set()
    for card in cards:
        clock = CountingClock()
        reader = node.card_reader(card, clock)
        clock.wait_until(at_s)
        listed = reader.processes()
        assert not isinstance(listed, Fault)
        pids |= {process.pid for process in listed}
    return node.processes(frozenset(pids), at_s)


def test_unknown_scenario_is_named() -> None:
    """A scenario that does not exist is a readable error."""
    with pytest.raises(GpumonError, match="no-such"):
        SimulatedNode("no-such")


def test_readings_are_those_of_the_field_table() -> None:
    """Every key of quick and rare samples, and every throttle reason, is known to the model."""
    for name in ("h100-sxm-x8-ddp", "rtx5090-x8-ddp-bound"):
        node = SimulatedNode(name)
        cards = node.open()
        assert not isinstance(cards, Fault)
        reader = node.card_reader(cards[0], CountingClock(0.0))
        for sample in (reader.quick(), reader.rare()):
            assert not isinstance(sample, Fault)
            assert set(sample.readings) | set(sample.faults) <= set(READINGS_BY_KEY)
            assert sample.throttle_reasons <= set(THROTTLE_REASONS.values())


def test_best_source_by_card() -> None:
    """GPM on Hopper, counters on Ada and Blackwell GeForce, windows elsewhere."""
    for name, source in (
        ("h100-sxm-x8-ddp", LinkSource.GPM),
        ("rtx4090-x4-vm", LinkSource.COUNTER),
        ("a100-pcie-x8-ddp", LinkSource.WINDOW),
    ):
        cards = SimulatedNode(name).open()
        assert not isinstance(cards, Fault)
        assert cards[0].capabilities.pcie_source is source


def test_ranks_are_listed_with_their_launcher_and_loaders() -> None:
    """The process table holds the ranks of torchrun, the launcher above them and the loader processes below."""
    table = _table(SimulatedNode("rtx5090-x8-input"))
    ranks = [process for process in table.processes if "--local-rank" in " ".join(process.cmdline)]
    assert len(ranks) == 8
    launcher = next(process for process in table.processes if process.pid == ranks[0].ppid)
    assert "--nproc_per_node=8" in launcher.cmdline
    loaders = [process for process in table.processes if process.comm == "pt_data_worker"]
    assert len(loaders) == 32
    assert all(loader.cpu_seconds > 1 for loader in loaders)
    assert ranks[0].environ["WORLD_SIZE"] == "8"
    assert next(iter(table.containers)) in ranks[0].cgroup


def test_container_with_cards_and_no_process_is_seen() -> None:
    """A container that was given a card appears without any GPU process."""
    table = _table(SimulatedNode("rtx5090-x8-mixed-jobs"))
    empty = next(container for container in table.containers.values() if container.name == "empty")
    assert empty.gpu_minors == frozenset({7})


def test_tree_shows_switches_or_nothing() -> None:
    """Cards below one switch share an uplink; in a virtual machine the tree is flat and virtual."""
    node = SimulatedNode("rtx4090-x8-two-tenants-one-uplink")
    cards = node.open()
    assert not isinstance(cards, Fault)
    topology = node.topology(cards)
    assert [len(uplink.uuids) for uplink in topology.uplinks] == [4, 4]
    assert len({hop.address for path in topology.paths for hop in path.hops}) == 10
    flat = SimulatedNode("rtx4090-x4-vm")
    cards = flat.open()
    assert not isinstance(cards, Fault)
    topology = flat.topology(cards)
    assert topology.flat
    assert topology.uplinks == ()
    assert all(hop.virtual for path in topology.paths for hop in path.hops)
    assert flat.facts().standing == "vm"


def test_same_seed_same_run_other_seed_other_run() -> None:
    """A run is the same for the same seed, and another for another."""
    runs = []
    for seed in (1, 1, 2):
        node = SimulatedNode("rtx5090-x8-ddp-overlapped", seed)
        ticks = list(simulated_time.ticks(node, node, SamplingSettings(), 8))
        runs.append([tick.card_ticks[2].pcie.rx_bytes.tolist() for tick in ticks])
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_run_may_begin_at_any_time_of_the_machine() -> None:
    """Second 0 of the scenario is where the first reader's clock stands."""
    counts = []
    for start_s in (0.0, 1e6):
        node = SimulatedNode("rtx5090-x8-ddp-bound")
        ticks = list(simulated_time.ticks(node, node, SamplingSettings(), 5, start_s=start_s))
        counts.append(sum(float(tick.card_ticks[0].pcie.rx_bytes.sum()) for tick in ticks))
    assert counts[0] == pytest.approx(counts[1], rel=1e-3)


def test_driver_goes_and_comes_back() -> None:
    """While the driver is away the node cannot be opened; afterwards it can."""
    base = find_scenario("rtx5090-x4-driver-restart")
    node = SimulatedNode(base)
    ups = [tick.nvml_up for tick in simulated_time.ticks(node, node, SamplingSettings(), 80)]
    assert ups[20]
    assert not ups[40]
    assert ups[-1]


def test_lost_card_stays_known() -> None:
    """A lost card is opened with its fault and its Xid arrives."""
    node = SimulatedNode("rtx5090-x4-card-lost")
    ticks = list(simulated_time.ticks(node, node, SamplingSettings(), 60))
    events = [event for tick in ticks for event in tick.events]
    assert any(event.kind == "xid" and event.code == 79 for event in events)
    assert not ticks[-1].card_ticks[2].up
    assert ticks[-1].card_ticks[1].up


def test_job_that_starts_and_ends_in_the_run() -> None:
    """Processes, contexts and memory of a job exist between its start and its end only."""
    plan = Training(work.BERT_LARGE, "ddp", micro_batch=8, sequence=384)
    node = NodePlan(slots("rtx4090", 2))
    scenario = Scenario("s", "", node, (JobPlan("job", plan, (0, 1), start_s=20.0, end_s=50.0, load_seconds=5.0),))
    listed = {}
    simulated = SimulatedNode(scenario)
    for tick in simulated_time.ticks(simulated, simulated, replace(SamplingSettings(), process_interval_s=1.0), 70):
        processes = tick.card_ticks[0].processes
        listed[round(tick.mono_s)] = len(processes or ())
    assert listed[15] == 0
    assert listed[30] == 1
    assert listed[65] == 0
    assert [truth.name for truth in simulated.truth(60.0, 70.0)] == []


def test_faults_of_one_card_leave_the_others_alone() -> None:
    """One hung card of four costs the others no tick."""
    base = find_scenario("rtx5090-x4-card-lost")
    scenario = replace(base, faults=(FaultPlan(2, "hung", 10.0, 1e9),), xids=())
    node = SimulatedNode(scenario)
    last = list(simulated_time.ticks(node, node, SamplingSettings(), 20))[-1]
    assert [card.up for card in last.card_ticks] == [True, True, False, True]
