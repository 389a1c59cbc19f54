"""Reported kinds SLOW and SCHED 121: calls that hang, calls that need not be made, and processes that fork."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.reader import SlowSample, WindowSample
from gpumon.model.fault import Fault
from tests.nvml.conftest import Libraries
from tests.nvml.reading import HandClock, quick, readers
from tests.standin.library import ControlFile, Standin

pytestmark = pytest.mark.tools


def _until(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 5.0
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.002)


def test_a_hung_call_of_one_card_leaves_the_others_alone(standin: Standin, node: NvmlNode) -> None:
    """Reports 104 and 118: while one call never returns, the other card is read; afterwards the first is again."""
    standin.apply("card 0 minor 0", "card 1 minor 1")
    stuck, free = readers(node)
    quick(stuck)
    standin.apply("set 0 GetTemperature hang =")
    answers: list[SlowSample | Fault] = []
    thread = threading.Thread(target=lambda: answers.append(stuck.quick()), daemon=True)
    before = standin.calls("GetTemperature", 0)
    thread.start()
    _until(lambda: standin.calls("GetTemperature", 0) > before)
    for _ in range(100):
        quick(free)
    assert not answers
    standin.apply("release")
    thread.join(5.0)
    assert isinstance(answers[0], SlowSample)
    quick(stuck)


def test_the_library_is_not_shut_down_under_a_call(standin: Standin, node: NvmlNode) -> None:
    """While a call hangs inside the library, closing leaves it up; opening again gives the others new handles."""
    standin.apply("card 0 minor 0", "card 1 minor 1")
    stuck, free = readers(node)
    quick(stuck)
    standin.apply("set 0 GetTemperature hang =")
    thread = threading.Thread(target=stuck.quick, daemon=True)
    before = standin.calls("GetTemperature", 0)
    thread.start()
    _until(lambda: standin.calls("GetTemperature", 0) > before)
    node.close()
    assert standin.count("shutdown") == 0
    assert not isinstance(node.open(), Fault)
    quick(free)
    standin.apply("release")
    thread.join(5.0)
    node.close()
    assert (standin.count("init"), standin.count("shutdown")) == (1, 1)


def test_a_card_that_hangs_while_it_is_probed(standin: Standin, tmp_path: Path) -> None:
    """A card that does not answer at start is given up for now; the others are probed."""
    node = NvmlNode(procfs_root=tmp_path, sysfs_root=tmp_path, probe_timeout_s=0.3)
    standin.apply(*(f"card {index} minor {index}" for index in range(3)), "set 1 GetMigMode hang =")
    cards = node.open()
    assert not isinstance(cards, Fault)
    assert [card.fault for card in cards] == [None, Fault.TIMEOUT, None]
    standin.apply("release")
    _until(lambda: standin.report()["in_flight"] == 0)
    node.close()


def test_what_does_not_change_is_read_once(standin: Standin, node: NvmlNode) -> None:
    """Report 103: over hundreds of samples handles are looked up once and static questions asked once."""
    standin.apply("card 0 gpm 1", "rate 0 power 100")
    (reader,) = readers(node)
    quick(reader)
    static = ("GetHandle", "GetMaxClockInfo", "GetMaxPcieLinkGeneration", "GetTemperatureThreshold", "GetName")
    before = {name: standin.calls(name) for name in static}
    for _ in range(200):
        quick(reader), reader.rare(), reader.counters(), reader.rings()
    assert {name: standin.calls(name) for name in static} == before


def test_counters_are_one_call(standin: Standin, node: NvmlNode) -> None:
    """The sub-second reading costs one field-value call, whatever is in it; utilization is asked when it can be new."""
    standin.apply("card 0 nvlink_links 1", "nvlink_peer 0 0 1", "card 1 nvlink_links 1", "nvlink_peer 1 0 0")
    reader = readers(node)[0]
    reader.counters()
    before = sum(
        count for what, count in standin.report().items() if what.startswith("call ") and "FieldValue " not in what
    )
    for _ in range(10):
        assert not isinstance(reader.counters(), Fault)
    after = sum(
        count for what, count in standin.report().items() if what.startswith("call ") and "FieldValue " not in what
    )
    assert after - before == 10  # the driver's utilization is a mean of 1/6 s: not asked again so soon


def test_the_quick_fields_ride_with_the_counters(standin: Standin, node: NvmlNode) -> None:
    """Where counters are read often a quick reading makes no field-value call of its own, and says the same."""
    standin.apply("card 0 minor 0", "rate 0 power 300")
    clock = HandClock()
    reader = readers(node, clock)[0]
    alone = quick(reader)
    for _ in range(20):
        clock.wait_until(clock.mono_s() + 0.05)
        reader.counters()
    before = standin.report()["call GetFieldValues 0"]
    ridden = quick(reader)
    assert standin.report()["call GetFieldValues 0"] == before
    assert ridden.readings.keys() == alone.readings.keys()
    assert ridden.readings["power_watts"] == alone.readings["power_watts"]


def test_quick_fields_that_rode_too_long_ago_are_read(standin: Standin, node: NvmlNode) -> None:
    """Counters that were not read for a while have brought nothing: the quick reading asks by itself."""
    standin.apply("card 0 minor 0", "rate 0 power 300")
    clock = HandClock()
    reader = readers(node, clock)[0]
    quick(reader)
    clock.wait_until(clock.mono_s() + 0.95)
    reader.counters()
    clock.wait_until(clock.mono_s() + 1.0)
    standin.apply("rate 0 power 200")
    assert quick(reader).readings["power_watts"] == pytest.approx(200.0, rel=0.02)


@pytest.mark.parametrize("ring", [True, False])
def test_a_window_asks_for_power_only_where_no_ring_tells_it(standin: Standin, node: NvmlNode, ring: bool) -> None:
    """With a power ring a window is one call; without one the field that tells power follows it."""
    standin.apply("card 0 minor 0", "rate 0 power 300", *(() if ring else ("set 0 GetSamples !3",)))
    reader = readers(node)[0]
    before = standin.report().get("call GetFieldValues 0", 0)
    window = reader.window("rx")
    assert isinstance(window, WindowSample)
    assert math.isnan(window.power_watts) is ring
    assert standin.report().get("call GetFieldValues 0", 0) - before == (0 if ring else 1)


def test_an_empty_list_is_asked_again_when_memory_moves(standin: Standin, node: NvmlNode) -> None:
    """Lists of graphics clients that were empty stay so for a minute, unless the card's memory moves by a context's."""
    standin.apply("card 0 minor 0", "process 0 9 compute 1000 0 1e9 1.0")
    standin.apply("set 0 GetMemoryInfo_v2 34000000000,0,1000000000")
    clock = HandClock()
    reader = readers(node, clock)[0]
    graphics = "call GetGraphicsRunningProcesses 0"
    reader.processes()
    asked = standin.report()[graphics]
    clock.wait_until(clock.mono_s() + 10.0)
    reader.processes()
    assert standin.report()[graphics] == asked
    standin.apply("set 0 GetMemoryInfo_v2 34000000000,0,2000000000")
    clock.wait_until(clock.mono_s() + 10.0)
    reader.processes()
    assert standin.report()[graphics] == asked + 1
    clock.wait_until(clock.mono_s() + 61.0)
    reader.processes()
    assert standin.report()[graphics] == asked + 2


def test_the_reader_costs_little_python(standin: Standin, node: NvmlNode) -> None:
    """Eight cards with byte counters 18 times a second, a tick's other readings included, stay below 2 % of a core.

    The CPU time measured holds the stand-in's own work too, so the bound is on the safe side.
    """
    standin.apply("card 0 bus_busy 1", "rate 0 power 300", "rate 0 kernel 1.0", "process 0 9 compute 1000 0 1e9 1.0")
    (reader,) = readers(node)
    quick(reader), reader.rare(), reader.rings(), reader.processes()
    seconds = 20
    best = min(_one_run(reader, seconds) for _ in range(3))
    assert 8 * best / seconds < 0.02


def _one_run(reader: object, seconds: int) -> float:
    started = time.process_time()
    for second in range(seconds):
        for _ in range(18):
            reader.counters()  # type: ignore[attr-defined]
        reader.quick(), reader.rings()  # type: ignore[attr-defined]
        if second % 3 == 0:
            reader.processes()  # type: ignore[attr-defined]
        if second % 10 == 0:
            reader.rare()  # type: ignore[attr-defined]
    return time.process_time() - started


_FORKER = """
import os, sys
from pathlib import Path
from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.reader import SlowSample
from gpumon.model.fault import Fault

class Clock:
    def mono_s(self): import time; return time.monotonic()
    def wall_s(self): import time; return time.time()

def reading(node):
    (card,) = node.open()
    return node.card_reader(card, Clock())

root = Path(sys.argv[1])
node = NvmlNode(procfs_root=root, sysfs_root=root)
reader = reading(node)
assert isinstance(reader.quick(), SlowSample)
child = os.fork()
if child == 0:
    ok = reader.quick() is Fault.DRIVER_NOT_LOADED
    ok = ok and isinstance(reading(node).quick(), SlowSample)
    node.close()
    os._exit(0 if ok else 1)
assert os.waitpid(child, 0)[1] == 0, "the child read wrongly"
assert isinstance(reader.quick(), SlowSample)
node.close()
"""


def test_a_forked_child_initialises_for_itself(libraries: Libraries, tmp_path: Path) -> None:
    """Report 121: in a forked child nothing counts as initialised; its own life leaves the parent's undisturbed."""
    control = ControlFile(tmp_path, libraries())
    control.apply("card 0 minor 0")
    done = subprocess.run(
        [sys.executable, "-c", _FORKER, str(tmp_path)],
        env={**os.environ, **control.environment, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
