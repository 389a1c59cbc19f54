"""A builder of sysfs and procfs trees: devices nested under bridges, links as the kernel makes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpumon.model.card import Capabilities, Card, CardIdentity, LinkSource, NvLinkFacts, PowerKind
from gpumon.model.topology import NodeFacts

SPEEDS = {0: "Unknown", 1: "2.5 GT/s PCIe", 2: "5.0 GT/s PCIe", 3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe"}
SPEEDS |= {5: "32.0 GT/s PCIe", 6: "64.0 GT/s PCIe"}
NVIDIA, PLX, INTEL, AMD, QEMU = 0x10DE, 0x10B5, 0x8086, 0x1022, 0x1B36


class Tree:
    """Builds <root>/sys and <root>/proc file by file."""

    def __init__(self, root: Path) -> None:
        self.sys = root / "sys"
        self.proc = root / "proc"
        self.root = root
        (self.sys / "bus/pci/devices").mkdir(parents=True)
        self.proc.mkdir()

    def device(
        self,
        path: str,
        *,
        vendor: int,
        pci_class: int,
        link: tuple[int, int] | None = None,
        maximum: tuple[int, int] | None = None,
        driver: str = "",
        numa_node: int = -1,
        iommu_group: str = "",
        config: bytes = b"\0" * 64,
    ) -> str:
        """Add a device at "pci0000:40/0000:40:01.1/..."; link and maximum are (generation, width)."""
        folder = self.sys / "devices" / path
        folder.mkdir(parents=True, exist_ok=True)
        address = folder.name
        self.write(folder / "vendor", f"0x{vendor:04x}")
        self.write(folder / "class", f"0x{pci_class:06x}")
        self.write(folder / "numa_node", str(numa_node))
        (folder / "config").write_bytes(config)
        for prefix, state in (("current", link), ("max", maximum or link)):
            if state is not None:
                self.write(folder / f"{prefix}_link_speed", SPEEDS[state[0]])
                self.write(folder / f"{prefix}_link_width", str(state[1]))
        if driver:
            (folder / "driver").symlink_to(f"/sys/bus/pci/drivers/{driver}")
        if iommu_group:
            group = self.sys / "kernel/iommu_groups" / iommu_group
            group.mkdir(parents=True, exist_ok=True)
            (folder / "iommu_group").symlink_to(group)
        (self.sys / "bus/pci/devices" / address).symlink_to(folder)
        return address

    def bridge(self, path: str, link: tuple[int, int], maximum: tuple[int, int] | None = None, **more: object) -> str:
        """Add a PCI bridge; a plain one is a PLX switch port."""
        options: dict[str, object] = {"vendor": PLX, **more}
        return self.device(path, pci_class=0x060400, link=link, maximum=maximum, **options)  # type: ignore[arg-type]

    def gpu(self, path: str, link: tuple[int, int], maximum: tuple[int, int] | None = None, **more: object) -> str:
        """Add an NVIDIA card and its audio function, bound to the nvidia driver unless said otherwise."""
        options: dict[str, object] = {"driver": "nvidia", **more}
        address = self.device(path, vendor=NVIDIA, pci_class=0x030000, link=link, maximum=maximum, **options)  # type: ignore[arg-type]
        self.device(path[:-1] + "1", vendor=NVIDIA, pci_class=0x040300, link=link, maximum=maximum)
        return address

    def set_link(self, address: str, generation: int, width: int) -> None:
        """Change a device's current link."""
        folder = self.sys / "bus/pci/devices" / address
        self.write(folder / "current_link_speed", SPEEDS[generation])
        self.write(folder / "current_link_width", str(width))

    def write(self, path: Path, content: str) -> None:
        """Write a small file as the kernel shows it: with a newline."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n", "utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty sysfs and procfs."""
    return Tree(tmp_path)


@pytest.fixture
def card() -> Callable[[str], Card]:
    """A maker of cards as NVML would probe them, named by their PCI address."""

    def make(address: str) -> Card:
        return Card(
            identity=CardIdentity(
                uuid=f"GPU-{address}",
                index=0,
                name="NVIDIA GeForce RTX 4090",
                pci_address=address,
                architecture="ada",
                minor=0,
                numa_node=-1,
            ),
            capabilities=Capabilities(frozenset(), LinkSource.NONE, LinkSource.NONE, PowerKind.NONE, 0),
            nvlink=NvLinkFacts(0, 0, "", float("nan"), ()),
        )

    return make


@pytest.fixture
def host() -> NodeFacts:
    """gpumon on a bare host."""
    return NodeFacts(
        hostname="node",
        virtualization="none",
        kernel="6.8.0",
        driver_version="570.86.15",
        cpu_count=64,
        simulated=False,
        standing="host",
        host_pids=True,
        boot_wall_s=1.7e9,
    )
