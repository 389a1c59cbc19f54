"""Write a scenario's physical truth and everything a driver says about its cards to a timeline file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from gpumon.hardware.simulated import sensors
from gpumon.hardware.simulated.card_reader import RESERVED_BYTES, board_gain
from gpumon.hardware.simulated.cards import ARCHITECTURE_NUMBERS
from gpumon.hardware.simulated.identity import JobProcesses, processes_of
from gpumon.hardware.simulated.probe import probed
from gpumon.hardware.simulated.scenario import Scenario
from gpumon.hardware.simulated.scenarios import find_scenario
from gpumon.hardware.simulated.timeline_file import write_timeline
from gpumon.hardware.simulated.tree import p2p_status, topology_level
from gpumon.hardware.simulated.world import World
from gpumon.model.card import Card

_BOOT_WALL_S = 1_760_000_000
# nvmlGpuP2PStatus_t
_P2P_STATUS = {"ok": 0, "chipset_not_supported": 1, "gpu_not_supported": 2}


def export_timeline(scenario: str | Scenario, seed: int, seconds: float, path: Path) -> None:
    """Simulate `seconds` of a scenario and write its timeline file (layout: timeline_file.py)."""
    chosen = scenario if isinstance(scenario, Scenario) else find_scenario(scenario)
    world = World(chosen, seed, keeps_all=True)
    world.advance(seconds)
    jobs = processes_of(world)
    lines = [*_node_lines(chosen, seed), *_pair_lines(chosen)]
    for index in range(len(chosen.node.slots)):
        lines += [*_card_lines(world, seed, index), *_process_lines(jobs, index, seconds)]
    lines += [f"fault {fault.card} {fault.kind} {fault.from_s!r} {fault.to_s!r}" for fault in chosen.faults]
    lines += [f"xid {xid.card} {xid.code} {xid.at_s!r}" for xid in chosen.xids]
    write_timeline(path, seconds, lines, [timeline.stretches(seconds) for timeline in world.timelines])


def _node_lines(scenario: Scenario, seed: int) -> Iterator[str]:
    node = scenario.node
    yield f"node driver_version {node.driver}"
    yield "node cuda_version 12080"
    yield f"node hostname {node.hostname}"
    yield f"node seed {seed}"
    yield f"node queue_windows {int(node.queue_windows)}"
    yield f"node boot_wall_s {_BOOT_WALL_S}"


def _card_lines(world: World, seed: int, index: int) -> Iterator[str]:
    node = world.scenario.node
    slot = node.slots[index]
    spec, abilities = slot.card, slot.card.abilities
    card = probed(node, seed, index)
    address = card.identity.pci_address
    values: dict[str, object] = {
        "name": spec.name,
        "uuid": card.identity.uuid,
        "bus_id": f"0000{address}".upper(),
        "architecture": ARCHITECTURE_NUMBERS[spec.architecture],
        "minor": card.identity.minor,
        "numa_node": card.identity.numa_node,
        "memory_total_bytes": int(spec.memory_bytes),
        "memory_reserved_bytes": int(RESERVED_BYTES),
        "power_limit_watts": world.cards[index].power_limit_watts,
        "power_default_limit_watts": spec.tdp_watts,
        "power_min_limit_watts": spec.minimum_limit_watts,
        "power_max_limit_watts": spec.maximum_limit_watts,
        "sm_clock_max_hertz": int(spec.sm_clock_max_hertz),
        "memory_clock_max_hertz": int(spec.memory_clock_max_hertz),
        "temperature_slowdown_celsius": spec.slowdown_celsius,
        "temperature_shutdown_celsius": spec.shutdown_celsius,
        "link_generation_max": slot.generation_max,
        "link_width_max": slot.lanes_max,
        "card_generation_max": spec.generation,
        "card_width_max": spec.lanes,
        "counter_bits": card.capabilities.counter_bits,
        "ecc": abilities.ecc,
        "bus_busy": int(abilities.bus_busy),
        "memory_temperature": int(abilities.memory_temperature),
        "window": int("pcie_window" in card.capabilities.features),
        "gpm_cumulative": 0,
        "window_s": sensors.WINDOW_S,
        "power_average_s": abilities.power_average_s,
        "power_refresh_s": abilities.power_refresh_s,
        "power_lag_s": sensors.POWER_LAG_S,
        "power_window_s": abilities.power_window_s,
        "power_gain": board_gain(seed, index),
        "power_offset_watts": 0.0,
        "power_noise_watts": sensors.POWER_NOISE_WATTS,
        "power_quantum_watts": sensors.POWER_QUANTUM_WATTS,
        "ring_busy_s": sensors.RING_BUSY_S,
        "ring_idle_s": sensors.RING_IDLE_S,
        "ring_length": sensors.RING_LENGTH,
        "energy_refresh_s": sensors.ENERGY_REFRESH_S,
        "utilization_ring_s": sensors.UTILIZATION_RING_S,
        "utilization_ring_length": sensors.UTILIZATION_RING_LENGTH,
        "utilization_period_s": abilities.utilization_period_s,
    }
    for feature in ("gpm", "power_instant", "energy", "process_util", "mig"):
        values[feature] = int(feature in card.capabilities.features)
    yield from (f"card {index} {key} {value}" for key, value in values.items())
    yield from _nvlink_lines(card, index, world)


def _nvlink_lines(card: Card, index: int, world: World) -> Iterator[str]:
    nvlink = card.nvlink
    if nvlink.links == 0:
        return
    yield f"card {index} nvlink_links {nvlink.links}"
    yield f"card {index} nvlink_version {nvlink.version}"
    yield f"card {index} nvlink_bytes_per_second {nvlink.bytes_per_second_per_direction}"
    for link, peer in enumerate(nvlink.peers):
        yield f"nvlink_peer {index} {link} {peer if peer == 'switch' else index ^ 1}"


def _process_lines(jobs: tuple[JobProcesses, ...], index: int, seconds: float) -> Iterator[str]:
    for job in jobs:
        begin, end = max(job.plan.start_s, 0.0), min(job.job.end_s, seconds + 1.0)
        for entry in job.on_card(index, begin):
            yield f"process {index} {entry.pid} compute {int(entry.memory_bytes)} {begin!r} {end!r} 1.0"


def _pair_lines(scenario: Scenario) -> Iterator[str]:
    node = scenario.node
    for a, b in combinations(range(len(node.slots)), 2):
        yield f"p2p {a} {b} {topology_level(node, a, b)} {_P2P_STATUS[p2p_status(node, a, b)]}"
