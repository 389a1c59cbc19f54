"""Each check on a node where it passes and on one where it must speak."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpumon.doctor.checks import run_checks, worst
from gpumon.doctor.examination import DeviceFile, Examination
from gpumon.doctor.result import Level, Result
from gpumon.model.card import LinkSource
from gpumon.model.fault import Fault
from gpumon.model.topology import LinkHop, P2p, PciGpu, Topology

from .conftest import SWITCH, make_card, make_examination, make_facts, make_path, make_topology


def _found(examination: Examination, check: str) -> list[Result]:
    return [result for result in run_checks(examination) if result.check == check]


def _only(examination: Examination, check: str) -> Result:
    (result,) = _found(examination, check)
    return result


def test_healthy_node_passes_everything() -> None:
    """On a healthy host with GeForce cards nothing fails and nothing needs a look."""
    results = run_checks(make_examination())
    assert [result for result in results if result.level is not Level.PASS] == []
    assert worst(results) is Level.PASS


def test_every_finding_has_a_remedy() -> None:
    """What is not fine says what to do; what is fine does not."""
    ill = make_examination(
        facts=make_facts(standing="container", virtualization="docker", host_pids=False),
        cards=(make_card(0, source=LinkSource.NONE), make_card(1, fault=Fault.LOST)),
        topology=make_topology(acs_enabled=True, iommu="translated"),
        distributions={"nvidia-ml-py": "11.525.84", "pynvml": "11.5.0"},
        shm_bytes=67e6,
        config_problems=("a", "b"),
    )
    for result in run_checks(ill):
        assert bool(result.remedy) == (result.level is not Level.PASS), result


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        (Fault.DRIVER_NOT_LOADED, "modprobe"),
        (Fault.VERSION_MISMATCH, "Reboot"),
        (Fault.NO_PERMISSION, "/dev/nvidia"),
        (Fault.UNKNOWN, "container"),
        (Fault.TIMEOUT, "dmesg"),
    ],
)
def test_driver_that_does_not_answer(fault: Fault, word: str) -> None:
    """Each reason for silence has its own remedy, and card checks stay quiet."""
    examination = make_examination(cards=(), fault=fault, topology=Topology())
    result = _only(examination, "driver")
    assert result.level is Level.FAIL
    assert word in result.remedy
    assert _found(examination, "cards") == []


def test_old_driver_has_no_byte_counters() -> None:
    """A driver before branch 555 is worth a word."""
    examination = make_examination(facts=make_facts(driver_version="535.183.01"))
    assert _only(examination, "driver").level is Level.WARN


@pytest.mark.parametrize(("version", "level"), [("11.5.0", Level.FAIL), ("8.0.4", Level.FAIL), ("13.0.1", Level.PASS)])
def test_pynvml_that_overwrites_the_bindings(version: str, level: Level) -> None:
    """Old pynvml distributions bring their own module; new ones do not."""
    examination = make_examination(distributions={"nvidia-ml-py": "13.580.82", "pynvml": version})
    assert _only(examination, "pynvml").level is level


@pytest.mark.parametrize(("version", "level"), [("12.560.30", Level.PASS), ("12.535.77", Level.FAIL)])
def test_bindings_must_know_the_byte_counters(version: str, level: Level) -> None:
    """nvidia-ml-py below 12.560 is too old."""
    assert _only(make_examination(distributions={"nvidia-ml-py": version}), "bindings").level is level


def test_closed_device_file_is_named() -> None:
    """A device this user may not open is named."""
    files = (DeviceFile("/dev/nvidia0", True), DeviceFile("/dev/nvidia1", False))
    assert "/dev/nvidia1" in _only(make_examination(device_files=files), "permissions").sentence


def test_cards_of_guests_are_no_fault() -> None:
    """Cards on vfio-pci pass; nouveau fails; an unbound card is worth a look."""
    gpus = (PciGpu("0000:21:00.0", "vfio-pci", 16, 16), PciGpu("0000:31:00.0", "nouveau", 16, 16))
    gpus += (PciGpu("0000:41:00.0", "none", 16, 16),)
    levels = [result.level for result in _found(make_examination(topology=make_topology(pci_gpus=gpus)), "pci cards")]
    assert levels == [Level.PASS, Level.FAIL, Level.WARN]


@pytest.mark.parametrize(
    ("name", "unsupported", "platform"),
    [
        ("GRID T4-16Q", "", "linux"),
        ("NVIDIA A100-4-20C", "", "linux"),
        ("NVIDIA GeForce RTX 4090", "wsl", "linux"),
        ("NVIDIA GeForce RTX 4090", "jetson", "linux"),
        ("NVIDIA GeForce RTX 4090", "", "win32"),
    ],
)
def test_unsupported_platforms_say_so(name: str, unsupported: str, platform: str) -> None:
    """vGPU guests, WSL, Jetson and other systems get one sentence."""
    card = make_card(0)
    card = replace(card, identity=replace(card.identity, name=name))
    examination = make_examination(cards=(card,), unsupported=unsupported, platform=platform)
    result = _only(examination, "platform")
    assert result.level is Level.FAIL
    assert "does not support" in result.sentence


def test_product_names_with_numbers_are_no_vgpu() -> None:
    """Names such as "A100-SXM4-80GB" are whole cards."""
    card = make_card(0)
    card = replace(card, identity=replace(card.identity, name="NVIDIA A100-SXM4-80GB"))
    assert _only(make_examination(cards=(card,)), "platform").level is Level.PASS


def test_container_without_host_pids() -> None:
    """A container that cannot see the host's pids cannot name other jobs."""
    facts = make_facts(standing="container", virtualization="docker", host_pids=False)
    assert _only(make_examination(facts=facts), "standing").level is Level.WARN


def test_lost_card_fails_and_the_others_are_judged() -> None:
    """One lost card is one failure; its neighbour's capabilities and link are still shown."""
    examination = make_examination(cards=(make_card(0, fault=Fault.LOST), make_card(1)))
    assert _only(examination, "cards").level is Level.FAIL
    assert "Card 1" in _only(examination, "link").sentence
    assert "Card 1" in _only(examination, "capabilities").sentence


def test_capabilities_of_a_mixed_node_are_told_apart() -> None:
    """Cards that can do the same share a line; a weaker one has its own, with what it lacks and why."""
    cards = (make_card(0), make_card(1), make_card(2, source=LinkSource.WINDOW))
    results = _found(make_examination(cards=cards), "capabilities")
    assert [result.level for result in results] == [Level.PASS, Level.WARN]
    assert "Cards 0, 1" in results[0].sentence
    assert "lacks gpm (card or driver have none)" in results[0].sentence


@pytest.mark.parametrize(
    ("features", "missing", "level", "word"),
    [
        (frozenset({"gpm"}), (), Level.PASS, "answer to user 1000; the driver does restrict"),
        (frozenset(), (("gpm", Fault.NO_PERMISSION),), Level.WARN, "keeps the performance monitors of cards 0, 1"),
    ],
)
def test_performance_monitors_without_root(
    features: frozenset[str], missing: tuple[tuple[str, Fault], ...], level: Level, word: str
) -> None:
    """Whether GPM answers to an ordinary user is told, where there is GPM."""
    cards = tuple(
        replace(card, capabilities=replace(card.capabilities, features=features, missing=missing))
        for card in (make_card(0), make_card(1))
    )
    result = _only(make_examination(cards=cards, profiling_restricted=True), "gpm")
    assert result.level is level
    assert word in result.sentence
    assert _found(make_examination(), "gpm") == []


def test_links_alike_share_a_line() -> None:
    """Eight good links are one line, not eight."""
    assert _only(make_examination(), "link").sentence == "Cards 0, 1: gen4 x16, 31.5 GB/s each way."


def test_downtrained_width_is_a_finding() -> None:
    """x8 where card and slot can x16 is worth a look."""
    topology = make_topology(paths=(make_path(0, width=8), make_path(1)))
    levels = [result.level for result in _found(make_examination(topology=topology), "link")]
    assert levels == [Level.WARN, Level.PASS]


def test_narrow_slot_is_a_finding() -> None:
    """A x16 card in a x8 slot is told, although both ends agree on x8."""
    topology = make_topology(paths=(make_path(0, width=8, max_width=8), make_path(1)))
    assert "its slot gives x8" in _found(make_examination(topology=topology), "link")[0].sentence


def test_idle_generation_is_no_finding() -> None:
    """A link that sleeps at generation 1 passes and says why."""
    path = make_path(0)
    path = replace(path, hops=(replace(path.hops[0], current_generation=1),))
    result = _found(make_examination(topology=make_topology(paths=(path, make_path(1)))), "link")[0]
    assert "Card 0:" in result.sentence
    assert result.level is Level.PASS
    assert "now gen1 (falls at idle" in result.sentence


def test_slot_of_an_older_generation_is_a_finding() -> None:
    """A gen5 card that the slot or BIOS holds at gen4 is told."""
    readings = {"GPU-0": {"card_generation_max": 5.0}}
    assert "gen5" in _found(make_examination(readings=readings), "link")[0].sentence


def test_link_of_a_virtual_machine_comes_from_the_driver() -> None:
    """Behind a virtual bridge the driver's own figures are judged."""
    path = replace(make_path(0), hops=(LinkHop("0000:01:00.0", "", 0, 0, 0, 0, virtual=True),))
    readings = {
        "GPU-0": {
            "link_generation": 4.0,
            "link_generation_max": 4.0,
            "link_width_lanes": 4.0,
            "link_width_max_lanes": 16.0,
        }
    }
    topology = Topology(paths=(path,), flat=True)
    examination = make_examination(
        facts=make_facts(standing="vm", virtualization="kvm"),
        cards=(make_card(0),),
        topology=topology,
        readings=readings,
    )
    assert _only(examination, "link").level is Level.WARN
    assert _only(examination, "pci tree").level is Level.PASS


def test_chipset_slot_is_a_finding() -> None:
    """A card whose way to the CPU is narrower than its own link is told."""
    chipset = LinkHop("0000:03:00.0", "0000:00:02.1", 4, 4, 4, 4)
    topology = make_topology(paths=(make_path(0), make_path(1, above=(chipset,))), uplinks=())
    result = _found(make_examination(topology=topology), "pci tree")[0]
    assert result.level is Level.WARN
    assert "Card 1 sits behind 0000:03:00.0, gen4 x4, 7.9 GB/s each way" in result.sentence


@pytest.mark.parametrize(("virtualization", "level"), [("docker", Level.WARN), ("kvm", Level.PASS)])
def test_invisible_tree_in_a_container(virtualization: str, level: Level) -> None:
    """A container without /sys can be helped; one inside a virtual machine cannot."""
    facts = make_facts(standing="container", virtualization=virtualization)
    examination = make_examination(facts=facts, topology=Topology(paths=(make_path(0),), flat=True))
    assert _only(examination, "pci tree").level is level


def test_shared_uplink_is_told_without_alarm() -> None:
    """Cards under one switch share its link: a fact, not a fault."""
    result = _only(make_examination(), "pci tree")
    assert result.level is Level.PASS
    assert result.sentence == f"Cards 0, 1 share {SWITCH.address}: gen4 x16, 31.5 GB/s each way."


@pytest.mark.parametrize(
    ("counts", "level"),
    [
        ({"correctable": 12.0, "nonfatal": 0.0, "fatal": 0.0}, Level.PASS),  # in a day
        ({"correctable": 90000.0, "nonfatal": 0.0, "fatal": 0.0}, Level.WARN),
        ({"correctable": 0.0, "nonfatal": 1.0, "fatal": 0.0}, Level.WARN),
    ],
)
def test_link_errors(counts: dict[str, float], level: Level) -> None:
    """A few corrected errors a day are normal, a stream or an uncorrected one is not."""
    assert _only(make_examination(aer={"0000:11:00.0": counts}), "link errors").level is level


@pytest.mark.parametrize(("enabled", "level"), [(True, Level.WARN), (False, Level.PASS), (None, Level.WARN)])
def test_access_control(enabled: bool | None, level: Level) -> None:
    """Redirection is a finding, and so is not knowing."""
    assert _only(make_examination(topology=make_topology(acs_enabled=enabled)), "acs").level is level


def test_translating_iommu_is_a_finding() -> None:
    """Translation is told, passthrough passes, one card alone is not asked."""
    assert _only(make_examination(topology=make_topology(iommu="translated")), "iommu").level is Level.WARN
    assert _only(make_examination(topology=make_topology(iommu="passthrough")), "iommu").level is Level.PASS
    alone = make_examination(cards=(make_card(0),), topology=make_topology(iommu="translated"))
    assert _found(alone, "iommu") == []


def test_odd_pair_of_cards_is_named() -> None:
    """Where only some pairs lack peer access, those are named."""
    p2p = (P2p("GPU-0", "GPU-1", "PIX", "ok"), P2p("GPU-0", "GPU-2", "SYS", "topology_not_supported"))
    cards = (make_card(0), make_card(1), make_card(2))
    result = _only(make_examination(cards=cards, topology=make_topology(p2p=p2p)), "p2p")
    assert result.level is Level.WARN
    assert "between 0 and 2" in result.sentence


@pytest.mark.parametrize(
    ("change", "check", "level"),
    [
        ({"shm_bytes": 67108864.0}, "shm", Level.WARN),
        ({"shm_bytes": float("nan")}, "shm", Level.WARN),
        ({"wall_s": 1000.0}, "clock", Level.FAIL),
        ({"clock_synchronised": False}, "clock", Level.WARN),
        ({"clock_synchronised": None}, "clock", Level.PASS),
        ({"clock_source": "hpet"}, "clock", Level.WARN),
        ({"hidepid": "2"}, "processes", Level.WARN),
        ({"hidepid": "2", "user_id": 0}, "processes", Level.PASS),
        ({"config_problems": ("config: x = 1 is wrong",)}, "config", Level.FAIL),
    ],
)
def test_host(change: dict[str, object], check: str, level: Level) -> None:
    """What the host gives is judged one by one."""
    assert _only(make_examination(**change), check).level is level
