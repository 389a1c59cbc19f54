"""A card as it is known from probing: identity, capabilities, links. Changes only at (re)initialisation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpumon.model.fault import Fault


class LinkSource(str, Enum):
    """Where the bytes of a link come from, best first (docs/hardware.md tells how far each can be trusted)."""

    GPM = "gpm"  # Hopper+, some Blackwell: rate between two samples more than 100 ms apart
    COUNTER = "counter"  # fields 197/198 polled faster than they wrap: full coverage
    WINDOW = "window"  # nvmlDeviceGetPcieThroughput: 20 ms, one direction a call, blocks
    FIELD = "field"  # cumulative 64-bit or KiB counter (NVLink fields 138/139)
    LOG = "log"  # a column of somebody else's log: a mean over its own, unknown window
    NONE = "none"


class PowerKind(str, Enum):
    """What a power sample averages over."""

    RING = "ring"  # GetSamples(TOTAL_POWER): about 50 Hz while busy
    INSTANT = "instant"  # field 186
    AVERAGE = "average"  # GetPowerUsage or field 185: 1 s on Ampere (not GA100) and newer
    UNKNOWN = "unknown"  # a log does not say
    NONE = "none"


@dataclass(frozen=True, slots=True)
class CardIdentity:
    """Who a card is. The UUID is its name; the index is for people and may change at reboot."""

    uuid: str  # "GPU-..." as NVML prints it
    index: int
    name: str  # product name, valid text always
    pci_address: str  # sysfs form "0000:41:00.0"; "" when unknown
    architecture: str  # "ada", "hopper", ...; "" when unknown
    minor: int  # N of /dev/nvidiaN; -1 when unknown
    numa_node: int  # -1 when unknown


@dataclass(frozen=True, slots=True)
class MigSlice:
    """One MIG instance of a board. Memory is read per slice, everything else once per board."""

    mig_uuid: str
    profile: str  # "3g.40gb"
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a card was found able to do. `features` are the values of `gpumon_gpu_capability{feature}`."""

    # of: pcie_counter, pcie_window, gpm, nvlink, energy, process_util, power_instant, ecc, mig
    features: frozenset[str]
    pcie_source: LinkSource
    nvlink_source: LinkSource
    power_kind: PowerKind
    counter_bits: int  # width of the PCIe byte counters: 32 or 64; 0 without them
    missing: tuple[tuple[str, Fault], ...] = ()  # (feature, why) for doctor


@dataclass(frozen=True, slots=True)
class NvLinkFacts:
    """The NVLink of one card. All zero on cards without."""

    links: int  # physical links that answer
    active: int
    version: str  # "4.0"; "" when unknown
    bytes_per_second_per_direction: float  # usable, all active links together; NaN when unknown
    peers: tuple[str, ...]  # uuid of a peer card, "switch", or "unknown"; one per active link


@dataclass(frozen=True, slots=True)
class Card:
    """A probed card."""

    identity: CardIdentity
    capabilities: Capabilities
    nvlink: NvLinkFacts
    mig_enabled: bool = False
    mig_slices: tuple[MigSlice, ...] = ()
    fault: Fault | None = None  # set when the card is known but cannot be used (lost, reset required)
