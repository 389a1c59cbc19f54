"""The schedule of the host's readings: load once a second, processes every few seconds. Touches no driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpumon.hardware.reader import HostReader
from gpumon.model.clock import Clock
from gpumon.model.process import HostSample, ProcessTable
from gpumon.model.settings import SamplingSettings
from gpumon.sampling.card_log import Source
from gpumon.sampling.deadline import next_deadline

_HOST_PERIOD_S = 1.0
# Ahead of the tick's end, so that each tick holds exactly one fresh sample.
_HOST_PHASE_S = 0.8


class HostPoller:
    """Reads the host in its own thread: a hung network file system must not hold the cards up.

    `table` and `sample` are replaced, never edited; the tick takes the newest.
    """

    def __init__(
        self,
        host: HostReader,
        clock: Clock,
        settings: SamplingSettings,
        start_s: float,
        gpu_pids: Callable[[], frozenset[int]],
    ) -> None:
        self.table = ProcessTable()
        self.sample = HostSample()
        self.uuids_by_address: Mapping[str, str] = {}  # of the known cards, for their AER counters
        self.process_interval_s = settings.process_interval_s
        self.host_source = Source()
        self.table_source = Source()
        self._host = host
        self._clock = clock
        self._gpu_pids = gpu_pids
        self._host_due_s = start_s + _HOST_PHASE_S - _HOST_PERIOD_S
        self._table_due_s = start_s
        self.due_s = self._host_due_s

    def run(self) -> None:
        """Make the read that is due and set its next deadline."""
        now_s = self._clock.mono_s()
        try:
            if self._host_due_s <= self._table_due_s:
                self._host_due_s, late = next_deadline(self._host_due_s, _HOST_PERIOD_S, now_s)
                self.sample = self._host.host(self.uuids_by_address)
                source = self.host_source
            else:
                self._table_due_s, late = next_deadline(self._table_due_s, self.process_interval_s, now_s)
                self.table = self._host.processes(self._gpu_pids(), now_s)
                source = self.table_source
        finally:
            self.due_s = min(self._host_due_s, self._table_due_s)
        ended_s = self._clock.mono_s()
        source.samples += 1
        source.missed += late
        source.duration_s = ended_s - now_s
        source.last_s = ended_s
