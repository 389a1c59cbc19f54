"""Sample rings: complete, each sample once, on the monotonic clock whatever the wall clock does."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.nvidia.card import NvmlCardReader
from gpumon.hardware.reader import Rings
from gpumon.model.fault import Fault
from tests.nvml.reading import HandClock, readers
from tests.standin.library import Standin

pytestmark = pytest.mark.tools


def _drained(reader: NvmlCardReader) -> Rings:
    rings = reader.rings()
    assert not isinstance(rings, Fault)
    return rings


def _script(standin: Standin, clock: HandClock, samples: list[tuple[float, int]], kind: int = 0) -> None:
    """Let a ring hold samples: (seconds of the hand clock's wall time, value)."""
    text = ";".join(f"{round((clock.wall + at) * 1e6)}/{value}" for at, value in samples)
    standin.apply(f"set 0 GetSamples:{kind} {text}")


@pytest.fixture
def clock() -> HandClock:
    """A clock of the test's own."""
    return HandClock()


@pytest.fixture
def reader(standin: Standin, node: NvmlNode, clock: HandClock) -> NvmlCardReader:
    """A reader whose first drain is done; its rings hold nothing."""
    standin.apply("card 0 minor 0", "set 0 GetSamples !6")
    (one,) = readers(node, clock)
    _drained(one)
    return one


def test_each_sample_comes_once(standin: Standin, reader: NvmlCardReader, clock: HandClock) -> None:
    """Overlapping contents of a ring are returned without repeats, in base units."""
    clock.advance(1.0)
    _script(standin, clock, [(-0.6, 100000), (-0.4, 200000), (-0.2, 300000)])
    first = _drained(reader).power
    clock.advance(0.4)
    _script(standin, clock, [(-0.8, 200000), (-0.6, 300000), (-0.1, 400000)])
    second = _drained(reader).power
    assert first.value.tolist() == [100.0, 200.0, 300.0]
    assert second.value.tolist() == [400.0]
    assert first.t_s == pytest.approx(clock.mono - 0.4 + np.array([-0.6, -0.4, -0.2]), abs=1e-4)
    assert second.t_s == pytest.approx([clock.mono - 0.1], abs=1e-4)


@pytest.mark.parametrize("step_s", [-3600.0, -0.3, 0.3, 3600.0])
def test_a_stepped_wall_clock_moves_no_sample(
    standin: Standin, reader: NvmlCardReader, clock: HandClock, step_s: float
) -> None:
    """When the wall clock is set, no sample is misplaced; one drain is lost and the next has its own samples."""
    clock.advance(1.0)
    _script(standin, clock, [(-0.5, 100000)])
    assert _drained(reader).power.t_s == pytest.approx([clock.mono - 0.5], abs=1e-4)
    # Half a second later the clock is set; the ring holds a sample stamped by the old time and one by the new.
    clock.advance(0.5)
    old_stamp = clock.wall - 0.2
    clock.wall += step_s
    clock.advance(0.5)
    old = f"{round(old_stamp * 1e6)}/200000"
    standin.apply(f"set 0 GetSamples:0 {old};{round((clock.wall - 0.1) * 1e6)}/300000")
    assert _drained(reader).power.value.size == 0
    clock.advance(1.0)
    standin.apply(f"set 0 GetSamples:0 {old};{round((clock.wall - 0.5) * 1e6)}/400000")
    power = _drained(reader).power
    assert power.t_s == pytest.approx([clock.mono - 0.5], abs=1e-4)
    assert power.value.tolist() == [400.0]


def test_times_rise_across_drains(standin: Standin, reader: NvmlCardReader, clock: HandClock) -> None:
    """Samples are in order within a drain and after those of the drain before, even from a ring that is not."""
    seen: list[float] = []
    for _ in range(5):
        clock.advance(1.0)
        _script(standin, clock, [(-0.1, 300000), (-0.9, 100000), (-0.5, 200000)])
        seen += _drained(reader).power.t_s.tolist()
    assert len(seen) == 15
    assert seen == sorted(seen)


def test_impossible_samples_are_counted(
    standin: Standin, node: NvmlNode, reader: NvmlCardReader, clock: HandClock
) -> None:
    """Utilization above 100 %, a stamp in the future and clocks beyond any card are left out."""
    clock.advance(1.0)
    _script(standin, clock, [(-0.4, 50), (-0.3, 101), (-0.2, 4294967295), (99.0, 60), (-0.1, 70)], kind=1)
    _script(standin, clock, [(-0.4, 2400), (-0.3, 4294967295)], kind=5)
    rings = _drained(reader)
    assert rings.utilization.value.tolist() == [0.5, 0.7]
    assert rings.sm_clock.value.tolist() == [2.4e9]
    assert node.rejected() == {"utilization": 2, "ring_stamp": 1, "clock": 1}


def test_a_card_without_rings(standin: Standin, node: NvmlNode, clock: HandClock) -> None:
    """No ring at all is not supported; one of them alone is read."""
    standin.apply("card 0 minor 0", "card 1 minor 1", "set 0 GetSamples !3", "set 1 GetSamples:1 !3")
    none, some = readers(node, clock)
    _drained(some)
    assert none.rings() is Fault.NOT_SUPPORTED
    clock.advance(1.0)
    standin.apply(f"set 1 GetSamples:0 {round((clock.wall - 0.5) * 1e6)}/5000")
    rings = _drained(some)
    assert rings.power.value.tolist() == [5.0]
    assert rings.utilization.value.size == 0
