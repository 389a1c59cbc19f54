"""What the doctor reads from a machine, on built trees."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gpumon.doctor.examination import DeviceFile, Examination, examine
from gpumon.model.fault import Fault
from gpumon.model.topology import Topology

from .conftest import ScriptedNode, StepClock, make_card


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content + "\n", "utf-8")


def _examine(root: Path, node: ScriptedNode | None = None) -> Examination:
    return examine(
        node or ScriptedNode(),
        lambda _card: StepClock(),
        procfs_root=root / "proc",
        sysfs_root=root / "sys",
        filesystem_root=root,
    )


@pytest.mark.parametrize(
    ("options", "hidepid"),
    [("rw", ""), ("rw,hidepid=0", ""), ("rw,gid=3,hidepid=2", "2"), ("rw,hidepid=invisible", "invisible")],
)
def test_hidepid_of_the_procfs_that_is_read(tmp_path: Path, options: str, hidepid: str) -> None:
    """The mount option of the right procfs is taken, in its old and new spelling."""
    proc = tmp_path / "proc"
    _write(
        proc / "self/mountinfo",
        "21 1 0:20 / /other rw - proc proc rw,hidepid=1\n"
        f"22 1 0:21 / {proc} rw,nosuid shared:5 - proc proc {options}\n"
        "23 1 0:22 / /sys rw - sysfs sysfs rw",
    )
    assert _examine(tmp_path).hidepid == hidepid


@pytest.mark.parametrize(("content", "restricted"), [("1", True), ("0", False), (None, None)])
def test_restriction_of_profiling(tmp_path: Path, content: str | None, restricted: bool | None) -> None:
    """The loaded module's option is read where the driver shows it."""
    if content is not None:
        _write(tmp_path / "proc/driver/nvidia/params", f"ResmanDebugLevel: 4\nRmProfilingAdminOnly: {content}")
    assert _examine(tmp_path).profiling_restricted is restricted


def test_device_files_are_the_drivers(tmp_path: Path) -> None:
    """Files of the driver are listed; the folder of MIG capabilities is none of them."""
    for name in ("nvidia0", "nvidiactl", "null"):
        _write(tmp_path / "dev" / name, "")
    (tmp_path / "dev/nvidia-caps").mkdir()
    assert _examine(tmp_path).device_files == (
        DeviceFile(str(tmp_path / "dev/nvidia0"), True),
        DeviceFile(str(tmp_path / "dev/nvidiactl"), True),
    )


def test_shared_memory_size(tmp_path: Path) -> None:
    """/dev/shm's size is its file system's; without the mount it is missing, not 0."""
    assert math.isnan(_examine(tmp_path).shm_bytes)
    (tmp_path / "dev/shm").mkdir(parents=True)
    assert _examine(tmp_path).shm_bytes > 0


def test_errors_of_both_link_ends(tmp_path: Path) -> None:
    """Error counters of card and bridge are read; an end without them is left out."""
    devices = tmp_path / "sys/bus/pci/devices"
    _write(devices / "0000:11:00.0/aer_dev_correctable", "RxErr 7\nTOTAL_ERR_COR 7")
    _write(devices / "0000:10:00.0/aer_dev_fatal", "TOTAL_ERR_FATAL 1")
    assert _examine(tmp_path).aer == {"0000:11:00.0": {"correctable": 7.0}, "0000:10:00.0": {"fatal": 1.0}}


def test_readings_of_usable_cards_only(tmp_path: Path) -> None:
    """A lost card is not asked; the others' scalars are there by key."""
    node = ScriptedNode(cards=(make_card(0, fault=Fault.LOST), make_card(1)))
    examination = _examine(tmp_path, node)
    assert set(examination.readings) == {"GPU-1"}
    assert examination.readings["GPU-1"]["card_generation_max"] == 4.0


def test_driver_that_does_not_answer(tmp_path: Path) -> None:
    """The reason is kept and everything else is read."""
    examination = _examine(tmp_path, ScriptedNode(cards=Fault.VERSION_MISMATCH, topology=Topology()))
    assert (examination.fault, examination.cards) == (Fault.VERSION_MISMATCH, ())
    assert examination.distributions["nvidia-ml-py"]
