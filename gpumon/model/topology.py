"""The PCI tree as sysfs shows it, the driver's word on peer access, and where gpumon itself stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkHop:
    """One PCIe link between a device and the port above it.

    Generation 1..6, width in lanes; 0 where sysfs does not say. Source: current_link_speed, current_link_width,
    max_link_speed, max_link_width of the device at the lower end.
    """

    address: str  # the lower device: the card itself, or a switch port
    upstream: str  # the bridge above it; "" at a root bus
    current_generation: int
    current_width: int
    max_generation: int  # minimum of both ends' maximum
    max_width: int
    virtual: bool = False  # QEMU, VMware, Xen, Hyper-V bridge, or unreadable speed: says nothing about the wire


@dataclass(frozen=True, slots=True)
class CardPath:
    """A card's way to the root complex, nearest hop first. Empty when the tree cannot be read."""

    uuid: str
    address: str
    hops: tuple[LinkHop, ...]
    root: str  # host bridge, "pci0000:40"; "" when unknown
    numa_node: int  # -1 when unknown
    aer_readable: bool = False


@dataclass(frozen=True, slots=True)
class Uplink:
    """A bridge link that two or more cards share on their way to the root complex."""

    address: str  # the bridge whose upstream link is shared: label `uplink`
    uuids: tuple[str, ...]  # cards below it
    hop: LinkHop


@dataclass(frozen=True, slots=True)
class P2p:
    """What the driver says about one unordered pair of cards: a claim, not a measurement."""

    uuid: str
    peer_uuid: str
    path: str  # internal, PIX, PXB, PHB, NODE, SYS, NV<n>, unknown
    p2p: str  # ok, chipset_not_supported, gpu_not_supported, topology_not_supported, disabled, not_supported, unknown


@dataclass(frozen=True, slots=True)
class PciGpu:
    """An NVIDIA display device in sysfs, whoever drives it."""

    address: str
    driver: str  # nvidia, vfio-pci, nouveau, none
    current_width: int
    max_width: int


@dataclass(frozen=True, slots=True)
class Topology:
    """How the node's cards are connected."""

    paths: tuple[CardPath, ...] = ()
    uplinks: tuple[Uplink, ...] = ()
    p2p: tuple[P2p, ...] = ()
    pci_gpus: tuple[PciGpu, ...] = ()
    flat: bool = False  # a VM or container without the host's tree: uplinks and neighbours are unknown
    acs_enabled: bool | None = None  # None: not readable
    iommu: str = ""  # "off", "passthrough", "translated", "" unknown


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The node and gpumon's standing on it. Label values of `gpumon_node_info`."""

    hostname: str
    virtualization: str  # none, kvm, vmware, docker, wsl, ...: "" unknown
    kernel: str
    driver_version: str  # "" without a driver
    cpu_count: int
    simulated: bool
    standing: str  # host, vm, container
    host_pids: bool  # False in a container whose pid namespace is not the host's
    boot_wall_s: float  # Unix time of boot, for showing start times; NaN when unknown
