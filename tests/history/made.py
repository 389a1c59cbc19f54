"""Runs and rates by literal values, for tests of the history and of what is worked out from it."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpumon.model.past import Run, SetRate
from gpumon.model.verdict import TimeSplit

WALL_S = 1_790_000_000.0


def uuids(count: int) -> tuple[str, ...]:
    """Return the first cards of the node."""
    return tuple(f"GPU-{number:02d}" for number in range(count))


def split(**shares: float) -> TimeSplit:
    """Return a time split; states not named are 0."""
    states = dict.fromkeys(("compute", "communication", "overlap", "memory", "host_wait", "peer_wait", "idle"), 0.0)
    return TimeSplit(**{**states, "uncertainty": 0.06, **shares})


def run(count: int = 2, number: int = 0, **changes: Any) -> Run:
    """Return a finished run of one workload on the node's first cards."""
    made = Run(
        gpu_job=f"container:{count:02d}{number:010d}",
        workload="3da528993e13b11f",
        tenant="acme",
        uuids=uuids(count),
        gpus=tuple(range(count)),
        card="NVIDIA GeForce RTX 4090",
        topology=f"sockets {count}",
        strategy="ddp" if count > 1 else "single",
        begin_wall_s=WALL_S + 1000.0 * number,
        end_wall_s=WALL_S + 1000.0 * number + 600.0,
        watched_s=600.0,
        ended=True,
        step_s=0.5,
        step_spread=0.004,
        micro_batch=8,
        accumulation=1,
        split=split(compute=0.9, communication=0.1),
        job_class="compute",
    )
    return dataclasses.replace(made, **changes)


def rate(count: int, bytes_per_second: float, link: str = "pcie") -> SetRate:
    """Return what the node's first cards have carried."""
    return SetRate(uuids(count), tuple(range(count)), link, bytes_per_second, WALL_S)
