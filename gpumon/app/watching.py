"""Ticks of this node for a while, for the commands that watch by themselves: report, record, top."""

from __future__ import annotations

from collections.abc import Iterator

from gpumon.app import sources
from gpumon.config import Config
from gpumon.model.samples import Tick
from gpumon.sampling import Sampler


def watch(config: Config, scenario: str | None, duration_s: float | None) -> Iterator[Tick]:
    """Yield ticks in real time until the duration is over; None: without end. The driver is closed at the end.

    Raises: GpumonError for a scenario that does not exist.
    """
    watched = sources.simulated(scenario) if scenario else sources.real(config)
    sampler = Sampler(watched.node, watched.host, config.settings.sampling)
    sampler.start()
    first_s: float | None = None
    try:
        while (tick := sampler.next_tick()) is not None:
            first_s = tick.mono_s if first_s is None else first_s
            yield tick
            if duration_s is not None and tick.mono_s - first_s >= duration_s:
                return
    finally:
        sampler.stop()
