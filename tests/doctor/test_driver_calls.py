"""Single driver calls timed through the real bindings, over the stand-in library."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumon.doctor.driver_calls import driver_call_costs
from gpumon.hardware.nvidia.node import NvmlNode
from tests.standin.library import build, loaded

SCRIPT = (
    "card 0 name NVIDIA GeForce RTX 4090",
    "card 0 uuid GPU-00000000-1111-2222-3333-444444444444",
    "card 0 bus_id 00000000:41:00.0",
    "card 0 counter_bits 32",
    "card 0 power_instant 1",
    "set 0 GetPowerUsage ~2~=",
)


@pytest.mark.tools
def test_each_call_is_timed_by_itself(tmp_path: Path) -> None:
    """A call that takes 2 ms shows at 2 ms, one the card lacks shows its reason, and the driver is given back."""
    with loaded(build(tmp_path, 595)) as standin:
        standin.apply(*SCRIPT)
        node = NvmlNode(procfs_root=tmp_path / "proc", sysfs_root=tmp_path / "sys")
        cards = node.open()
        assert not isinstance(cards, str)
        (costs,) = driver_call_costs(cards)
        node.close()
        assert standin.count("init") == standin.count("shutdown")
    by_call = {cost.call: cost for cost in costs.costs}
    assert 0.002 <= by_call["nvmlDeviceGetPowerUsage"].median_s < 0.02
    assert by_call["field value 186 (power now)"].count == 20
    assert by_call["field value 82 (memory temperature)"].fault == "not_supported"


@pytest.mark.tools
def test_without_a_driver_nothing_is_timed(tmp_path: Path) -> None:
    """A library that does not initialise gives no table."""
    with loaded(build(tmp_path, 595)) as standin:
        standin.apply("set * Init !9")
        assert driver_call_costs(()) == ()
