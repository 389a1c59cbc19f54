"""What sysfs knows of the links while gpumon runs: errors at both ends, and a bridge that falls back under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpumon.hardware.nvidia import NvmlNode
from gpumon.hardware.procfs import ProcfsHost
from tests.cases_audit.watched import Watched
from tests.procfs.tree import Tree as Procfs
from tests.standin.library import Standin
from tests.sysfs.conftest import Tree as Sysfs

pytestmark = pytest.mark.tools

ROOT, CARD = "0000:00:01.0", "0000:01:00.0"


@pytest.fixture
def pci(tmp_path: Path) -> Sysfs:
    """A card on a port of its own."""
    tree = Sysfs(tmp_path / "pci")
    tree.bridge(f"pci0000:00/{ROOT}", (4, 16))
    tree.gpu(f"pci0000:00/{ROOT}/{CARD}", (4, 16))
    return tree


@pytest.fixture
def watched(standin: Standin, pci: Sysfs, tmp_path: Path) -> Iterator[Watched]:
    """The card through the stand-in library, whose own error counters are not supported."""
    standin.apply("card 0 bus_id 00000000:01:00.0", "set * GetSamples !3")
    standin.apply(*(f"set 0 GetFieldValue:{field} !3" for field in (173, 179, 180)))
    procfs = Procfs(tmp_path / "host")
    node = NvmlNode(procfs_root=procfs.proc, sysfs_root=pci.sys)
    yield Watched(node, ProcfsHost(procfs_root=procfs.proc, sysfs_root=pci.sys))
    node.close()


def errors(pci: Sysfs, address: str, correctable: int) -> None:
    """Set how many correctable errors the kernel has counted at a device."""
    device = pci.sys / "bus/pci/devices" / address
    pci.write(device / "aer_dev_correctable", f"RxErr {correctable}\nTOTAL_ERR_COR {correctable}")


def test_errors_at_both_ends_of_the_link(pci: Sysfs, watched: Watched) -> None:
    """Where the driver has no error counters the kernel's count, the card's and those of the bridge above it."""
    errors(pci, CARD, 3)
    errors(pci, ROOT, 40)
    page = watched.tick(25)
    assert page.values("pcie_errors_total", kind="correctable") == [0.0]  # since gpumon looks
    assert page.values("pcie_errors_total", kind="fatal") == []
    assert not page.values("node_readings_missing", reading="pcie_correctable_errors")
    errors(pci, CARD, 4)
    errors(pci, ROOT, 45)
    assert watched.tick(25).values("pcie_errors_total", kind="correctable") == [6.0]


def test_without_any_counter_there_are_no_zeros(watched: Watched) -> None:
    """Where firmware keeps the errors to itself no count is claimed."""
    page = watched.tick(25)
    assert page.values("pcie_errors_total") == []
    assert page.values("node_readings_missing", reading="pcie_correctable_errors") == [1.0]


def test_the_drivers_counters_come_first(standin: Standin, pci: Sysfs, watched: Watched) -> None:
    """Where the driver counts, the kernel's files add nothing."""
    standin.apply("set 0 GetFieldValue:173 7")
    errors(pci, CARD, 3)
    watched.tick(25)
    errors(pci, CARD, 300)
    standin.apply("set 0 GetFieldValue:173 9")
    assert watched.tick(25).values("pcie_errors_total", kind="correctable") == [2.0]


def test_a_bridge_that_falls_back_is_seen(pci: Sysfs, tmp_path: Path, standin: Standin) -> None:
    """The links above the cards' own are read again without a driver call; the cards' own, which rest, are not."""
    standin.apply("card 0 bus_id 00000000:02:00.0")
    pci.bridge("pci0000:00/0000:00:02.0", (4, 16))
    pci.bridge("pci0000:00/0000:00:02.0/0000:11:00.0", (4, 16))
    pci.bridge("pci0000:00/0000:00:02.0/0000:11:00.0/0000:12:00.0", (4, 16))
    pci.gpu("pci0000:00/0000:00:02.0/0000:11:00.0/0000:12:00.0/0000:02:00.0", (4, 16))
    node = NvmlNode(procfs_root=tmp_path / "proc", sysfs_root=pci.sys)
    cards = node.open()
    before = node.topology(cards)  # type: ignore[arg-type]
    calls = standin.report()
    assert node.links(before) is before
    pci.set_link("0000:02:00.0", 1, 16)
    assert node.links(before) is before
    pci.set_link("0000:11:00.0", 3, 8)
    (own, above) = node.links(before).paths[0].hops
    assert (above.current_generation, above.current_width, own) == (3, 8, before.paths[0].hops[0])
    assert standin.report() == calls
    node.close()


def test_a_board_that_is_cut_anew_is_noticed(tmp_path: Path, standin: Standin) -> None:
    """Slices made, taken away, or a mode changed since the board was probed are a reason to probe it again."""
    standin.apply("card 0 mig 1", "card 1 minor 1", "mig 0 MIG-1 1 0 1g.10gb 0 0")
    node = NvmlNode(procfs_root=tmp_path / "proc", sysfs_root=tmp_path / "sys")
    assert not node.reconfigured()
    cards = node.open()
    assert [len(card.mig_slices) for card in cards] == [1, 0]  # type: ignore[union-attr]
    assert not node.reconfigured()
    standin.apply("mig 0 MIG-2 2 0 1g.10gb 0 0")
    assert node.reconfigured()
    node.close()
    assert len(node.open()[0].mig_slices) == 2  # type: ignore[index]
    assert not node.reconfigured()
    node.close()
