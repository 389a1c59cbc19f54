"""Taking GPM samples: means since the previous sample, which must lie more than 100 ms back (nvml.h)."""

from __future__ import annotations

from gpumon.model.card import LinkSource
from gpumon.model.fault import Fault
from gpumon.sampling.card_log import CardAccess
from gpumon.sampling.deadline import next_deadline

_NAN = float("nan")
_PERIOD_S = 0.125  # the shortest that keeps 100 ms between samples when one comes 20 ms late and the next does not
_SHORTEST_GAP_S = 0.105
_IDLE_PERIOD_S = 1.0
_FAULT_PERIOD_S = 1.0


class GpmTask:
    """The GPM schedule of one card. Use: `run` when `due_s` has come."""

    def __init__(self, access: CardAccess, start_s: float) -> None:
        self.due_s = start_s
        self._reader = access.reader
        self._clock = access.clock
        self._log = access.log
        self._budget = access.budget
        self._source = access.log.sources["gpm"]
        capabilities = access.reader.card.capabilities
        self._pcie = capabilities.pcie_source is LinkSource.GPM
        self._nvlink = capabilities.nvlink_source is LinkSource.GPM

    def wake(self, mono_s: float) -> None:
        """Sample at once: the card has work again."""
        self.due_s = min(self.due_s, mono_s + _SHORTEST_GAP_S)

    def run(self, now_s: float) -> None:
        """Take a sample, log it and set the next deadline."""
        log = self._log
        if log.fault is not None:
            self.due_s = now_s + _FAULT_PERIOD_S
            return
        sample = self._reader.gpm()
        ended_s = self._clock.mono_s()
        if isinstance(sample, Fault):
            log.failed(self._source, sample)
        else:
            log.good(self._source, now_s, ended_s)
            log.gpm.append(sample)
            t0_s, t1_s = sample.t0_s, sample.t1_s
            if self._pcie:
                log.pcie.append((t0_s, t1_s, sample.pcie_rx_bytes, sample.pcie_tx_bytes, _NAN))
            if self._nvlink:
                log.nvlink.append((t0_s, t1_s, sample.nvlink_rx_bytes, sample.nvlink_tx_bytes, _NAN))
        self._schedule(ended_s)

    def _schedule(self, ended_s: float) -> None:
        period_s = _PERIOD_S * self._budget.stretch if self._log.active else _IDLE_PERIOD_S
        due_s, late = next_deadline(self.due_s, period_s, ended_s)
        self._source.missed += late
        self.due_s = max(due_s, ended_s + _SHORTEST_GAP_S)
