"""The seam to the binding: whatever it raises or returns, a value or a Fault comes back."""

from __future__ import annotations

import ctypes
import time

import pynvml
import pytest

from gpumon.hardware.nvidia.card import throttle_reasons
from gpumon.hardware.nvidia.fields import number
from gpumon.hardware.nvml import Device, Driver, Meter, fault_of, readable
from gpumon.model.fault import Fault
from gpumon.model.fields import THROTTLE_REASONS
from tests.nvml.cases import case


@pytest.fixture
def device() -> Device:
    """A device whose library was never loaded."""
    return Device(ctypes.c_void_p(1), Meter())


def _raising(error: Exception) -> object:
    def function(*_: object) -> None:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (pynvml.NVMLError(0), Fault.NO_DATA),
        (pynvml.NVMLError(3), Fault.NOT_SUPPORTED),
        (pynvml.NVMLError(4), Fault.NO_PERMISSION),
        (pynvml.NVMLError(6), Fault.NOT_FOUND),
        (pynvml.NVMLError(10), Fault.TIMEOUT),
        (pynvml.NVMLError(15), Fault.LOST),
        (pynvml.NVMLError(16), Fault.RESET_REQUIRED),
        (pynvml.NVMLError(18), Fault.VERSION_MISMATCH),
        (pynvml.NVMLError(25), Fault.NOT_SUPPORTED),
        (pynvml.NVMLError(77), Fault.UNKNOWN),
        (pynvml.NVMLError(999), Fault.UNKNOWN),
        (pynvml.NVMLLibraryMismatchError("old driver"), Fault.NOT_SUPPORTED),
        (UnicodeDecodeError("utf-8", b"\xf8", 0, 1, "invalid start byte"), Fault.UNKNOWN),
    ],
    ids=repr,
)
def test_what_the_binding_raises(
    device: Device, monkeypatch: pytest.MonkeyPatch, error: Exception, fault: Fault
) -> None:
    """Each exception of the binding is a reason, the odd ones included, and the failed call is counted."""
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", _raising(error))
    assert device.power_milliwatts() is fault
    assert device.meter.calls == 1
    assert device.meter.errors == ({} if fault is Fault.NOT_FOUND else {fault.value: 1})


def test_a_function_that_this_binding_lacks(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that only newer bindings have is not supported by this one."""
    monkeypatch.delattr(pynvml, "nvmlDeviceGetNumaNodeId")
    assert device.numa_node() is Fault.NOT_SUPPORTED


def test_without_a_library_every_call_says_so(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing and asking without a driver gives a reason, at initialising and at each call."""
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_LoadNvmlLibrary", _raising(pynvml.NVMLError(12)))
    pynvml._nvmlGetFunctionPointer_cache.clear()
    driver = Driver()
    assert driver.initialise() is Fault.DRIVER_NOT_LOADED
    assert not driver.up
    assert device.power_milliwatts() is Fault.DRIVER_NOT_LOADED


def test_a_dead_handle_is_not_called(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a card was lost no call is made with its handle, and none is counted."""
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", _raising(pynvml.NVMLError(15)))
    assert device.power_milliwatts() is Fault.LOST
    assert device.energy_millijoules() is Fault.LOST
    assert device.utilization_percent() is Fault.LOST
    assert device.meter.calls == 1


def test_a_window_costs_its_cpu_time_only(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sleep inside a window call is no driver time; what a call burns is."""

    def window(_handle: object, _counter: int) -> int:
        time.sleep(0.02)
        return 5

    monkeypatch.setattr(pynvml, "nvmlDeviceGetPcieThroughput", window)
    assert device.pcie_kilobytes_per_second("rx") == 5
    assert device.meter.seconds < 0.01


@pytest.mark.parametrize(
    ("value_type", "bits", "value"),
    [
        (0, 0x4059000000000000, 100.0),
        (1, 0xEEEEEEEE_00000007, 7),
        (2, 1 << 40, 1 << 40),
        (3, 1 << 63, 1 << 63),
        (4, (1 << 64) - 5, -5),
        (5, 0xEEEEEEEE_FFFFFFFE, -2),
        (6, 0xEEEEEEEE_EEEE0009, 9),
    ],
)
def test_a_union_is_read_as_its_type_says(value_type: int, bits: int, value: float) -> None:
    """Each nvmlValueType_t takes its own bytes of the union."""
    assert number(value_type, bits) == value


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 5090"),
        (b"\xf8\rA", "??A"),
        (b"\xff\xfe", "unknown"),
        (b"", "unknown"),
        ("Karte ß".encode(), "Karte ß"),
    ],
)
def test_text_from_the_driver_is_printable(content: bytes, text: str) -> None:
    """Whatever bytes a name has, the text is valid, printable, and never empty."""
    assert readable(content) == text


@pytest.mark.parametrize("row", case("throttle-bits")["cases"], ids=lambda row: hex(row["mask"]))
def test_throttle_masks(row: dict[str, int]) -> None:
    """Every bit of a clock event mask is a reason by name, the top one "unknown"."""
    mask = row["mask"]
    named = {name for bit, name in THROTTLE_REASONS.items() if bit & mask}
    assert throttle_reasons(mask) == (named or ({"unknown"} if mask else set()))


def test_every_return_code_has_a_reason() -> None:
    """No code raises; those that a monitor must tell apart are apart."""
    faults = {code: fault_of(code) for code in (*range(1, 31), 999, 12345)}
    assert faults[2] is Fault.UNKNOWN
    assert len(set(faults.values())) == 10
