"""Reported kind LOST: a card or the whole driver goes away, and nothing stale is used or shown."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.nvidia.card import NvmlCardReader
from gpumon.hardware.reader import SlowSample
from gpumon.model.fault import Fault
from tests.nvml.cases import cards, case, tick
from tests.nvml.reading import HandClock, opened, quick, readers
from tests.standin.library import Standin

pytestmark = pytest.mark.tools


def test_one_lost_card_of_four(standin: Standin, node: NvmlNode) -> None:
    """Report 28: the others are read at every tick, the lost handle is never used again, nor a null one."""
    content = case("lost-one-of-four")
    standin.apply(*cards(content), *tick(content, content["ticks"][0]))
    clock = HandClock()
    all_four = readers(node, clock)
    for number, readings in enumerate(content["ticks"]):
        standin.apply(*tick(content, readings))
        for reader in all_four:
            sample = reader.quick()
            if reader is all_four[1] and number >= 3:
                assert sample in {Fault.LOST, Fault.UNKNOWN}
                assert isinstance(reader.counters(), Fault)
                assert isinstance(reader.processes(), Fault)
            else:
                assert isinstance(sample, SlowSample)
                assert sample.readings["power_watts"] == 200.0
        clock.advance(1.0)
    assert standin.calls("GetHandle", 1) <= 2 + 2  # to probe, to read, and one look for it in each pause
    assert all_four[1].card.identity.pci_address == "0000:20:00.0"


def test_a_lost_card_that_comes_back_is_read_again(standin: Standin, node: NvmlNode) -> None:
    """Report 28, the kind: the card is looked up anew by its UUID, in growing pauses, and read with a fresh handle."""
    standin.apply("card 0 minor 0", "card 1 minor 1")
    clock = HandClock()
    reader = readers(node, clock)[1]
    quick(reader)
    standin.apply("set 1 everything !15")
    assert reader.quick() is Fault.LOST
    looks = standin.calls("GetHandle", 1)
    for _ in range(120):
        assert reader.quick() is Fault.LOST
        clock.advance(1.0)
    assert standin.calls("GetHandle", 1) - looks == 4  # after 5, 15, 35 and 75 s
    standin.apply("clear 1 everything")
    clock.advance(60.0)
    assert isinstance(reader.quick(), SlowSample)


def test_a_null_handle_is_a_lost_card(standin: Standin, node: NvmlNode) -> None:
    """Report 28, the kind: a lookup that succeeds with nothing gives no handle to call with."""
    standin.apply("card 0 minor 0", "card 1 minor 1")
    opened(node)
    node.close()
    standin.apply("set 1 GetHandle null")
    again = opened(node)
    assert [(card.identity.minor, card.fault) for card in again] == [(0, None), (1, Fault.LOST)]


def test_a_stale_handle_is_found_out_and_replaced(standin: Standin, node: NvmlNode) -> None:
    """A handle that the library no longer accepts is replaced by a fresh one; a question it rejects is not."""
    standin.apply("card 0 minor 0", "set 0 GetCurrPcieLinkWidth !2")
    clock = HandClock()
    (reader,) = readers(node, clock)
    assert quick(reader).faults["link_width_lanes"] is Fault.NOT_SUPPORTED
    standin.apply("set 0 everything !2*6 =")
    assert reader.quick() is Fault.LOST
    standin.apply("clear 0 everything")
    assert reader.quick() is Fault.LOST
    clock.advance(6.0)
    assert isinstance(reader.quick(), SlowSample)


def test_a_missing_card_stays_in_the_list(standin: Standin, node: NvmlNode) -> None:
    """Report 29: of eight cards seven are there; the eighth keeps its UUID and address and has a fault."""
    standin.apply(*(f"card {index} minor {index}" for index in range(8)))
    before = opened(node)
    node.close()
    standin.apply("set 5 GetHandle !15")
    after = opened(node)
    assert len(after) == 8
    (missing,) = (card for card in after if card.fault is not None)
    assert missing.identity == before[5].identity
    assert missing.fault is Fault.LOST


def test_a_card_lost_before_the_start_is_known_by_the_kernel(standin: Standin, node: NvmlNode, tmp_path: Path) -> None:
    """Report 29, the kind: what the kernel driver lists and NVML cannot open is a card with a fault."""
    standin.apply("card 0 minor 0", "card 1 minor 1", "set 1 GetHandle !15")
    for address, uuid in (("0000:01:00.0", "GPU-00000000-0000-4000-8000-000000000000"), ("0000:02:00.0", "GPU-???")):
        folder = tmp_path / "proc/driver/nvidia/gpus" / address
        folder.mkdir(parents=True)
        text = f"Model: \t\t NVIDIA Stand-in\nGPU UUID: \t {uuid}\nDevice Minor: \t 1\n"
        (folder / "information").write_text(text, "utf-8")
    there, lost = opened(node)
    assert there.fault is None
    assert lost.fault is Fault.LOST
    assert (lost.identity.uuid, lost.identity.pci_address) == ("unknown-0000:02:00.0", "0000:02:00.0")
    assert (lost.identity.name, lost.identity.minor) == ("NVIDIA Stand-in", 1)


def test_a_card_handed_to_a_guest_is_not_lost(standin: Standin, node: NvmlNode, tmp_path: Path) -> None:
    """A card that went to vfio-pci after a release is left out of the list."""
    standin.apply("card 0 minor 0", "card 1 minor 1")
    opened(node)
    node.close()
    device = tmp_path / "sys/bus/pci/devices/0000:02:00.0"
    device.mkdir(parents=True)
    (device / "driver").symlink_to("../../../bus/pci/drivers/vfio-pci")
    standin.apply("set 1 GetHandle !15", "set 0 GetCount 1", "set -1 GetCount 1")
    assert [card.identity.index for card in opened(node)] == [0]


def test_nothing_old_is_read_while_nothing_answers(standin: Standin, node: NvmlNode) -> None:
    """Report 30: when every call answers "unknown" there is no sample at all; when they answer again there is."""
    content = case("lost-stale-cache")
    standin.apply(*cards(content))
    both = readers(node)
    for reader in both:
        quick(reader)
    standin.apply("set * everything !999")
    for _ in range(20):
        for reader in both:
            for answer in (reader.quick(), reader.rare(), reader.counters(), reader.rings(), reader.processes()):
                assert answer is Fault.UNKNOWN
    standin.apply("clear * everything")
    for reader in both:
        quick(reader)


def test_a_driver_restart_under_the_daemon(standin: Standin, node: NvmlNode) -> None:
    """Report 31: each success of initialising is shut down once, and new handles are used afterwards."""
    content = case("lost-driver-restart")
    standin.apply(*cards(content))
    alive = readers(node)
    seen = []
    script = {
        20: ("set 0 GetUtilizationRates !999 =", "set 1 GetUtilizationRates !999 ="),
        21: ("set * everything !1",),
        23: ("clear * everything", "set * Init !9"),
        26: ("clear * Init", "set 0 GetTotalEnergyConsumption 0", "set 1 GetTotalEnergyConsumption 0"),
        27: ("clear 0 GetTotalEnergyConsumption", "clear 1 GetTotalEnergyConsumption"),
    }
    for number in range(30):
        standin.apply(*script.get(number, ()))
        if not alive:
            alive = _reopened(node)
        samples = [reader.quick() for reader in alive]
        if any(sample is Fault.DRIVER_NOT_LOADED for sample in samples):
            node.close()
            alive, samples = [], []
        seen.append(len(samples))
    # From 21 on each try to come back fails, on 23 to 25 already at initialising.
    assert seen == [2] * 21 + [0] * 5 + [2] * 4
    node.close()
    assert standin.count("init") == standin.count("shutdown")


def _reopened(node: NvmlNode) -> list[NvmlCardReader]:
    answer = node.open()
    return [] if isinstance(answer, Fault) else [node.card_reader(card, HandClock()) for card in answer]


def test_events_are_subscribed_anew_after_a_restart(standin: Standin, node: NvmlNode) -> None:
    """Report 31: Xids reach us before and after the driver was reloaded, each once and with its card's UUID."""
    standin.apply("card 0 minor 0", "card 1 minor 1")
    for code in (13, 79):
        uuid = opened(node)[1].identity.uuid
        assert node.xid_events(0.0) == ()
        standin.apply(f"xid 1 {code} now")
        events = node.xid_events(0.5)
        assert not isinstance(events, Fault)
        assert [(event.uuid, event.code) for event in events] == [(uuid, code)]
        node.close()
        assert node.xid_events(0.0) is Fault.DRIVER_NOT_LOADED


def test_an_old_reader_goes_on_with_new_handles(standin: Standin, node: NvmlNode) -> None:
    """A reader made before a re-initialisation never calls with its old handle, and reads on with a fresh one."""
    standin.apply("card 0 minor 0")
    (reader,) = readers(node)
    quick(reader)
    node.close()
    assert reader.quick() is Fault.DRIVER_NOT_LOADED
    opened(node)
    quick(reader)


def test_a_changed_order_keeps_every_card_its_own(standin: Standin, node: NvmlNode) -> None:
    """Cards are followed by UUID: when a reload changes their places, readings stay with their card."""
    standin.apply("card 0 minor 0", "card 1 minor 1", "set 0 GetTemperature 40", "set 1 GetTemperature 50")
    one, other = readers(node)
    node.close()
    standin.apply("card 0 nvml_index 1", "card 1 nvml_index 0")
    again = opened(node)
    assert [card.identity.uuid for card in again] == [other.card.identity.uuid, one.card.identity.uuid]
    assert quick(one).readings["temperature_gpu_celsius"] == 40
    assert quick(other).readings["temperature_gpu_celsius"] == 50


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (9, Fault.DRIVER_NOT_LOADED),
        (12, Fault.DRIVER_NOT_LOADED),
        (18, Fault.VERSION_MISMATCH),
        (17, Fault.NO_PERMISSION),
        (999, Fault.UNKNOWN),
        (4711, Fault.UNKNOWN),
    ],
)
def test_why_initialising_failed(standin: Standin, node: NvmlNode, code: int, fault: Fault) -> None:
    """A driver replaced under its module, one that is not there, and what NVML cannot name are told apart."""
    standin.apply(f"set * Init !{code}")
    assert node.open() is fault
    assert node.errors() == {fault.value: 1}


def test_nothing_is_loaded_before_open_and_nothing_left_after_close(
    standin: Standin, node: NvmlNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report 33: device files are open between open and close, each time, and at no other time."""
    devices = tmp_path / "dev"
    devices.mkdir()
    monkeypatch.setenv("STANDIN_DEVICES", str(devices))
    standin.apply("card 0 minor 0", "card 1 minor 1")
    assert standin.count("init") == 0
    for _ in range(3):
        opened(node)
        assert _open_below(devices) == {"nvidiactl", "nvidia0", "nvidia1"}
        node.close()
        assert not _open_below(devices)
    shutil.rmtree(devices)


def _open_below(folder: Path) -> set[str]:
    targets = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            targets.append(entry.readlink())
        except OSError:  # the descriptor of this very listing
            continue
    return {target.name for target in targets if target.parent == folder}


def test_the_mps_view_is_switched_off(standin: Standin, node: NvmlNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable under which new drivers hide their telemetry is gone before the library is initialised."""
    monkeypatch.setenv("NVML_MPS_DEVICE_ENUMERATION", "1")
    standin.apply("card 0 minor 0")
    opened(node)
    assert "NVML_MPS_DEVICE_ENUMERATION" not in os.environ
