"""Reported kinds PROC 55, 60, 61 and VAL 2: process lists of doubtful layout, size and age."""

from __future__ import annotations

import math
import struct

import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.nvidia.arrays import PROCESS_FILLER, Filled
from gpumon.hardware.nvidia.card import NvmlCardReader
from gpumon.hardware.nvidia.processes import Entry, parse
from gpumon.model.fault import Fault
from tests.nvml.cases import cards, case, tick
from tests.nvml.reading import HandClock, quick, readers
from tests.standin.library import Standin

pytestmark = pytest.mark.tools

_PID_MAX = 1 << 22
_GIBIBYTE = 1 << 30


def _filled(stride: int, entries: list[tuple[int, int]], version: int = 3, room: int = 64) -> Filled:
    rows = b"".join(struct.pack("=I4xQ", *entry).ljust(stride, b"\0") for entry in entries)
    return Filled(len(entries), rows.ljust(room * 32, bytes((PROCESS_FILLER,))), version)


@pytest.mark.parametrize("stride", [16, 24, 32])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 64])
def test_the_entry_size_is_found(stride: int, count: int) -> None:
    """Whichever of its three sizes the driver filled in, the same pids and memory are read."""
    entries = [(1000 + 7 * number, (number + 1) << 28) for number in range(count)]
    parsed = parse(_filled(stride, entries), 64 * _GIBIBYTE, _PID_MAX)
    assert parsed == ([Entry(pid, float(memory)) for pid, memory in entries], 0)


def test_memory_that_is_not_told_is_missing() -> None:
    """A process whose memory the driver does not know is listed without one."""
    parsed = parse(_filled(24, [(12, (1 << 64) - 1)]), _GIBIBYTE, _PID_MAX)
    assert parsed is not None
    assert [entry.pid for entry in parsed[0]] == [12]
    assert math.isnan(parsed[0][0].memory_bytes)


def test_a_scrambled_list_is_rejected_as_a_whole(standin: Standin, node: NvmlNode) -> None:
    """Report 55: with most entries impossible the list is no list, and that is counted."""
    content = case("proc-abi-garbage")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    (reader,) = readers(node)
    assert reader.processes() is Fault.REJECTED
    assert node.rejected() == {"process_list": 1}
    assert quick(reader).readings["memory_total_bytes"] == 11811160064


def test_a_single_impossible_entry_is_dropped(standin: Standin, node: NvmlNode) -> None:
    """Report 55, the kind: one bad entry of four goes, the others stay."""
    standin.apply("card 0 minor 0", "set 0 GetComputeRunningProcesses 7/1000;8/2000;4294967295/1;9/na")
    (reader,) = readers(node)
    assert _pids(reader) == {7, 8, 9}
    assert node.rejected() == {"process": 1}


@pytest.mark.parametrize("stride", [24, 32, 16])
def test_every_layout_is_read_through_the_driver(standin: Standin, node: NvmlNode, stride: int) -> None:
    """Report 55, the kind: the same list from a driver of each entry size, on all three lists, merged by pid."""
    standin.apply(f"node process_stride {stride}", "card 0 memory_total_bytes 34359738368")
    standin.apply("process 0 100 compute 1000000 0 1e9 0", "process 0 100 graphics 2000000 0 1e9 0")
    standin.apply("process 0 101 mps 3000000 0 1e9 0", "process 0 102 compute 4000000 0 1e9 0")
    (reader,) = readers(node)
    processes = reader.processes()
    assert not isinstance(processes, Fault)
    assert {(process.pid, process.kind, process.used_memory_bytes) for process in processes} == {
        (100, "compute", 2000000.0),
        (101, "mps", 3000000.0),
        (102, "compute", 4000000.0),
    }


def test_a_list_longer_than_the_buffer(standin: Standin, node: NvmlNode) -> None:
    """Two hundred processes are all listed, and the next time in one call."""
    standin.apply("card 0 memory_total_bytes 34359738368")
    standin.apply(*(f"process 0 {pid} compute 1000 0 1e9 0" for pid in range(1, 201)))
    (reader,) = readers(node)
    assert _pids(reader) == set(range(1, 201))
    before = standin.calls("GetComputeRunningProcesses")
    assert _pids(reader) == set(range(1, 201))
    assert standin.calls("GetComputeRunningProcesses") == before + 1


def test_a_size_that_grows_twice(standin: Standin, node: NvmlNode) -> None:
    """Report 60: success at the third attempt is success; a size that never fits is given up and the rest is read."""
    standin.apply("card 0 minor 0", "card 1 minor 1", "process 0 5 compute 1000 0 1e9 0.5")
    standin.apply("process 1 6 compute 1000 0 1e9 0.5")
    one, other = readers(node)
    tail = ";".join(f"{pid}/@-0.1/{pid}/0" for pid in range(1, 15))
    standin.apply(f"set 0 GetProcessUtilization !7:300 !7:400 {tail}", "set 1 GetProcessUtilization !7:0")
    first, second = one.processes(), other.processes()
    assert not isinstance(first, Fault)
    assert not isinstance(second, Fault)
    assert [(process.pid, process.sm_ratio) for process in first] == [(5, 0.05)]
    assert [process.pid for process in second] == [6]
    assert math.isnan(second[0].sm_ratio)
    # One call of each was made at probing.
    assert standin.calls("GetProcessUtilization", 0) == 1 + 3
    assert standin.calls("GetProcessUtilization", 1) <= 1 + 10
    quick(other)


@pytest.mark.parametrize("unfilled", [0, 98])
def test_utilization_from_an_unfilled_buffer(standin: Standin, node: NvmlNode, unfilled: int) -> None:
    """Report 2: of what an unfilled buffer holds only the sane samples of listed processes count."""
    content = case("val-proc-util-garbage")
    clock = HandClock(content["now_us"] / 1e6)
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    if unfilled:
        sane = ";".join(
            f"{row['pid']}/{row['ts_us']}/{row['sm']}/0" for row in content["ticks"][0]["a"]["proc_util"][:2]
        )
        standin.apply(f"set 0 GetProcessUtilization #{unfilled + 2};{sane}")
    (reader,) = readers(node, clock)
    assert _ratios(reader) == {7044: 0.11, 7180: 0.09}
    assert node.rejected().get("process_utilization", 0) == (0 if unfilled else 3)


def test_old_samples_are_not_current(standin: Standin, node: NvmlNode) -> None:
    """Report 61: a sample of 10 s ago says nothing about now, and a process without news does nothing."""
    content = case("proc-util-stale")
    clock = HandClock(content["now_us"] / 1e6)
    standin.apply(*cards(content), "set 0 GetComputeRunningProcesses 1/1000;2/1000")
    (reader,) = readers(node, clock)
    seen = []
    for readings in content["ticks"]:
        standin.apply(*tick(content, readings))
        seen.append(_ratios(reader))
        clock.advance(1.0)
    assert seen == [{1: 0.0, 2: 0.30}, {1: 0.0, 2: 0.31}, {1: 0.0, 2: 0.0}]


def test_the_newest_stamp_is_asked_for(standin: Standin, node: NvmlNode) -> None:
    """Report 61, the kind: each look asks for what is newer than the last stamp returned, so nothing is read twice."""
    standin.apply("card 0 memory_total_bytes 34359738368", "rate 0 kernel 1.0", "process 0 9 compute 1000 0 1e9 1.0")
    clock = HandClock()
    (reader,) = readers(node, clock)
    # No time passes for the driver between two looks: the second finds nothing newer.
    while _ratios(reader) != {9: 1.0}:
        clock.advance(0.05)
    assert _ratios(reader) in ({9: 0.0}, {9: 1.0})


def _pids(reader: NvmlCardReader) -> set[int]:
    processes = reader.processes()
    assert not isinstance(processes, Fault)
    return {process.pid for process in processes}


def _ratios(reader: NvmlCardReader) -> dict[int, float]:
    processes = reader.processes()
    assert not isinstance(processes, Fault)
    return {process.pid: process.sm_ratio for process in processes}
