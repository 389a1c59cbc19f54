"""What attribution costs on a full node: 500 GPU processes in 100 containers on 16 cards.

Run: python -m benchmarks.attribution

Prints the CPU time of the pure part (gpumon.jobs) for a refresh in which every process was read anew, its largest
single piece from the first tick on, and the CPU time of reading as many really running processes from procfs.
"""

from __future__ import annotations

import gc
import os
import signal
import statistics
import time
from dataclasses import replace

from gpumon import jobs
from gpumon.hardware.procfs import ProcfsHost
from tests.jobs.node import Node, card, docker

CONTAINERS, RANKS, CARDS = 100, 5, 16
ROUNDS = 30


def full_node() -> Node:
    """100 containers, each with a launcher, five ranks and a loader for each rank."""
    node = Node(cards=tuple(card(index) for index in range(CARDS)))
    for container in range(CONTAINERS):
        agent = 1000 + 100 * container
        words = "python /usr/bin/torchrun --nproc_per_node=5 train.py --per_device_train_batch_size 4"
        node.start(agent, words, cgroup=docker(container))
        for rank in range(RANKS):
            pid = agent + 10 * (rank + 1)
            variables = {"RANK": str(rank), "WORLD_SIZE": "5", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
            node.start(
                pid,
                "python -u train.py --per_device_train_batch_size 4 --num-workers 1",
                cgroup=docker(container),
                ppid=agent,
                cards=[(container + rank) % CARDS],
                environ=variables,
            )
            node.start(pid + 1, "python -u train.py", cgroup=docker(container), ppid=pid)
    return node


def pure() -> None:
    """Measure gpumon.jobs: pieces while the node is met, then refreshes."""
    pieces = []
    gc.collect()
    node = full_node()
    while True:
        tick = node.read()
        begun_s = time.process_time()
        node.memory, found = jobs.attribute(node.memory, tick, node.settings)
        pieces.append(time.process_time() - begun_s)
        if node.memory.settled:
            break
    print(f"jobs: {len(found)} in {len(pieces)} ticks, largest piece {max(pieces) * 1e3:.1f} ms")
    refreshes = []
    for _ in range(ROUNDS):
        node.processes = {pid: replace(one, cpu_seconds=one.cpu_seconds + 1) for pid, one in node.processes.items()}
        tick = node.read()
        begun_s = time.process_time()
        node.memory, found = jobs.attribute(node.memory, tick, node.settings)
        refreshes.append(time.process_time() - begun_s)
    print(f"jobs: refresh median {statistics.median(refreshes) * 1e3:.1f} ms, worst {max(refreshes) * 1e3:.1f} ms")


def real() -> None:
    """Measure the reader on 500 really running processes (in the groups they are in)."""
    children = []
    for _ in range(CONTAINERS * RANKS):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        children.append(child)
    try:
        host = ProcfsHost()
        pids = frozenset(children)
        costs = []
        for round_ in range(ROUNDS):
            begun_s = time.process_time()
            table = host.processes(pids, 3.0 * round_ + 100.0 * (round_ > 0))
            costs.append(time.process_time() - begun_s)
        print(
            f"procfs: {len(table.processes)} processes, first {costs[0] * 1e3:.1f} ms, "
            f"then median {statistics.median(costs[1:]) * 1e3:.1f} ms, worst {max(costs[1:]) * 1e3:.1f} ms"
        )
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)


if __name__ == "__main__":
    pure()
    real()
