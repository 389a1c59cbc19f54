"""Reported kind MIG: the board's quantities once, the slices' memory and processes per slice."""

from __future__ import annotations

import math

import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.nvidia.plausible import Bounds, Sieve
from gpumon.hardware.nvml import Meter
from gpumon.model.card import MigSlice
from gpumon.model.fault import Fault
from tests.nvml.cases import cards, case, tick
from tests.nvml.reading import quick, readers
from tests.standin.library import Standin

pytestmark = pytest.mark.tools


def test_board_quantities_come_once_and_slice_memory_per_slice(standin: Standin, node: NvmlNode) -> None:
    """Report 41: power is the board's, utilization is absent, memory is told for the board and for each slice."""
    content = case("mig-board-vs-slice")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    board, plain = readers(node)
    slices = content["gpus"][0]["mig"]
    assert board.card.mig_enabled
    assert board.card.mig_slices == tuple(
        MigSlice(part["uuid"], part["name"], part["gi"], part["ci"]) for part in slices
    )
    sample = quick(board)
    assert sample.readings["power_watts"] + quick(plain).readings["power_watts"] == 400.0
    assert sample.faults["utilization_ratio"] is Fault.NOT_SUPPORTED
    assert sample.readings["temperature_gpu_celsius"] == 60
    gibibyte = 1 << 30
    used = [sample.mig_memory_used_bytes[part["uuid"]] / gibibyte for part in slices]
    assert used == [1, 9, 20]
    assert sample.readings["memory_used_bytes"] == 30 * gibibyte
    assert not plain.card.mig_enabled
    assert not quick(plain).mig_memory_used_bytes


def test_processes_carry_their_slice(standin: Standin, node: NvmlNode) -> None:
    """Report 41, the kind: one process on two slices is listed on each with its memory there."""
    content = case("mig-board-vs-slice")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    standin.apply("set 0.0 GetComputeRunningProcesses 70/1000", "set 0.2 GetComputeRunningProcesses 70/3000;71/500")
    standin.apply("set 0 GetComputeRunningProcesses !4")
    board = readers(node)[0]
    processes = board.processes()
    assert not isinstance(processes, Fault)
    first, _, third = (part.mig_uuid for part in board.card.mig_slices)
    assert {(process.pid, process.mig_uuid, process.used_memory_bytes) for process in processes} == {
        (70, first, 1000.0),
        (70, third, 3000.0),
        (71, third, 500.0),
    }


@pytest.mark.parametrize(("percent", "ratio"), [(129.4, math.nan), (100.7, 1.0), (97.7, 0.977), (-1.0, math.nan)])
def test_activity_above_one(percent: float, ratio: float) -> None:
    """Report 43: activity is at most 1; what is over by more than rounding is thrown away and counted."""
    meter = Meter()
    sieve = Sieve(meter, Bounds(math.nan, math.nan, math.nan))
    assert sieve.ratio(percent / 100, "gpm") == pytest.approx(ratio, nan_ok=True)
    assert meter.rejected == ({"gpm": 1} if math.isnan(ratio) else {})
