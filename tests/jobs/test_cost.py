"""What attribution costs on a full node, and that it is pure."""

from __future__ import annotations

import time
from dataclasses import replace

from benchmarks.attribution import full_node
from gpumon import jobs
from gpumon.model.job import Job
from gpumon.model.samples import Tick

from .node import Node


def cost_s(node: Node, tick: Tick) -> float:
    """The CPU time of one attribution: the least of three, because others use this machine too."""
    times = []
    for _ in range(3):
        begun_s = time.thread_time()
        after = jobs.attribute(node.memory, tick, node.settings)
        times.append(time.thread_time() - begun_s)
    node.memory = after[0]
    return min(times)


def test_500_gpu_processes_are_attributed_in_small_pieces() -> None:
    """Meeting 1,100 processes takes no piece of 5 ms on a machine of its own, and a refresh far below 20 ms."""
    node = full_node()
    pieces = []
    while not pieces or not node.memory.settled:
        pieces.append(cost_s(node, node.read()))
        assert len(pieces) < 100
    # Twice the budget: this machine may be busy, and its cores are not the ones the budget was made for.
    assert sorted(pieces)[-2] < 0.010
    assert len(node.memory.jobs) == 100
    refreshes = []
    for _ in range(5):
        node.processes = {pid: replace(one, cpu_seconds=one.cpu_seconds + 1) for pid, one in node.processes.items()}
        refreshes.append(cost_s(node, node.read()))
    assert min(refreshes) < 0.010


def test_a_tick_without_news_costs_nothing() -> None:
    """While nothing was read anew the jobs of the tick before come back as they are."""
    node = full_node()
    node.settled()
    node.tick(60)
    tick = node.read()
    node.memory, first = jobs.attribute(node.memory, tick, node.settings)
    memory, second = jobs.attribute(node.memory, replace(tick, seq=tick.seq + 1, mono_s=tick.mono_s + 1), node.settings)
    assert second is first
    assert memory is node.memory


def test_attribution_is_pure() -> None:
    """The same memory and tick give the same jobs, however often they are asked, and the memory is not changed."""
    node = full_node()
    results: list[tuple[Job, ...]] = []
    for _ in range(30):
        tick = node.read()
        before = node.memory
        node.memory, found = jobs.attribute(before, tick, node.settings)
        again = jobs.attribute(before, tick, node.settings)
        assert repr(again[1]) == repr(found)
        results.append(found)
    replayed = full_node()
    assert [repr(replayed.tick()) for _ in range(30)] == [repr(found) for found in results]
