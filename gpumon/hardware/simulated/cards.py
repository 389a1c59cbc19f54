"""The simulated cards: links, memory, speed, power levels, and what their driver interface can tell.

Published defaults (vendor data sheets, TechPowerUp, stas00/ml-engineering) for links, memory, TDP and dense 16-bit
tensor rates. Power levels come from recorded telemetry where there is some: an H100 SXM draws 74 W without a context,
117 W with one, about 150 W while it spins inside NCCL and 550 to 689 W in training (grantwilkins/training_profile);
the other cards are scaled from it and from single published readings. They are the simulator's own: nothing that
judges a job may read them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

GB = 1e9
GIB = float(1 << 30)

# nvmlDeviceArchitecture_t
ARCHITECTURE_NUMBERS = {"turing": 6, "ampere": 7, "ada": 8, "hopper": 9, "blackwell": 10}

# Transfers per second of one lane, and the share of them that carries packets (8b/10b, 128b/130b).
_LANE_TRANSFERS = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9}
_LANE_CODING = {1: 8 / 10, 2: 8 / 10, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130}


def wire_bytes_per_second(generation: int, lanes: int) -> float:
    """Return the line rate of a PCIe link in one direction, headers included."""
    return _LANE_TRANSFERS[generation] * _LANE_CODING[generation] * lanes / 8


@dataclass(frozen=True, slots=True)
class PowerLevels:
    """Electrical watts of a whole board in its characteristic states, at boost clocks and ordinary temperature."""

    floor: float  # driver loaded, no context
    context: float  # context open, clocks fallen, nothing has run for a while
    awake: float  # clocks up, between two kernels
    spin: float  # a collective's kernel polls for its peers
    copy: float  # a collective moves data at the link's full rate
    memory: float  # a kernel streams device memory at its peak
    compute: float  # dense tensor work, what it would draw without a limit


@dataclass(frozen=True, slots=True)
class NvLinkSpec:
    """NVLink of one card."""

    links: int
    version: str
    bytes_per_second: float  # usable, one direction, all links
    switched: bool  # True: NVSwitch joins all cards; False: bridges join pairs of neighbours


@dataclass(frozen=True, slots=True)
class Abilities:
    """What NVML can tell about a card under a recent driver."""

    counter_bits: int  # fields 197/198; 0 where the card lacks them
    gpm: bool
    power_instant: bool
    power_average_s: float  # what GetPowerUsage averages over; 0: instantaneous (GA100 and older)
    power_window_s: float  # what one instantaneous sample integrates over
    power_refresh_s: float  # how often a new one is made
    bus_busy: bool  # GetDynamicPstatesInfo fills the bus domain
    ecc: str  # unsupported, disabled, enabled
    memory_temperature: bool
    utilization_period_s: float  # what GetUtilizationRates averages over


@dataclass(frozen=True, slots=True)
class CardSpec:
    """One product."""

    name: str
    architecture: str
    generation: int
    lanes: int
    memory_bytes: float
    memory_bytes_per_second: float
    tdp_watts: float
    minimum_limit_watts: float
    maximum_limit_watts: float
    tensor_flops: float  # dense, 16-bit, 32-bit accumulation
    achievable_ratio: float  # what large matrix products reach of it
    peer_access: bool  # stock driver allows PCIe peer access
    watts: PowerLevels
    sm_clock_max_hertz: float
    memory_clock_max_hertz: float
    slowdown_celsius: float
    shutdown_celsius: float
    abilities: Abilities
    nvlink: NvLinkSpec | None = None


# GeForce since Ada: byte counters were seen on an RTX 5090 and an L40S; older cards are modelled without.
_GEFORCE_ADA = Abilities(
    counter_bits=32,
    gpm=False,
    power_instant=True,
    power_average_s=1.0,
    power_window_s=0.025,
    power_refresh_s=0.02,
    bus_busy=True,
    ecc="disabled",
    memory_temperature=False,
    utilization_period_s=0.167,
)
_GEFORCE_BLACKWELL = replace(_GEFORCE_ADA, ecc="unsupported")
_GEFORCE_AMPERE = replace(_GEFORCE_BLACKWELL, counter_bits=0, power_window_s=0.1)
_GEFORCE_TURING = replace(_GEFORCE_AMPERE, power_average_s=0.0)
_PRO_ADA = replace(_GEFORCE_ADA, bus_busy=False, ecc="enabled")
_PRO_AMPERE = replace(_PRO_ADA, counter_bits=0, power_window_s=0.1)
_PRO_BLACKWELL = replace(_PRO_ADA, gpm=True, ecc="disabled")
# H100 and A100 look at a quarter of the time only (arXiv 2312.02741): 25 ms of every 100 ms.
_HOPPER = replace(_PRO_ADA, gpm=True, power_refresh_s=0.1, memory_temperature=True, utilization_period_s=0.5)
_GA100 = replace(_HOPPER, counter_bits=0, gpm=False, power_average_s=0.0)

CARDS: dict[str, CardSpec] = {
    "rtx2080ti": CardSpec(
        name="NVIDIA GeForce RTX 2080 Ti",
        architecture="turing",
        generation=3,
        lanes=16,
        memory_bytes=11 * GIB,
        memory_bytes_per_second=616 * GB,
        tdp_watts=250,
        minimum_limit_watts=100,
        maximum_limit_watts=300,
        tensor_flops=57e12,
        achievable_ratio=0.80,
        peer_access=False,
        watts=PowerLevels(floor=12, context=18, awake=56, spin=80, copy=96, memory=190, compute=255),
        sm_clock_max_hertz=2100e6,
        memory_clock_max_hertz=7000e6,
        slowdown_celsius=91,
        shutdown_celsius=94,
        abilities=_GEFORCE_TURING,
    ),
    "rtx3090": CardSpec(
        name="NVIDIA GeForce RTX 3090",
        architecture="ampere",
        generation=4,
        lanes=16,
        memory_bytes=24 * GIB,
        memory_bytes_per_second=936 * GB,
        tdp_watts=350,
        minimum_limit_watts=100,
        maximum_limit_watts=385,
        tensor_flops=71e12,
        achievable_ratio=0.92,
        peer_access=False,
        watts=PowerLevels(floor=18, context=28, awake=105, spin=132, copy=150, memory=300, compute=372),
        sm_clock_max_hertz=2100e6,
        memory_clock_max_hertz=9751e6,
        slowdown_celsius=93,
        shutdown_celsius=98,
        abilities=_GEFORCE_AMPERE,
    ),
    "rtx4090": CardSpec(
        name="NVIDIA GeForce RTX 4090",
        architecture="ada",
        generation=4,
        lanes=16,
        memory_bytes=24 * GIB,
        memory_bytes_per_second=1008 * GB,
        tdp_watts=450,
        minimum_limit_watts=150,
        maximum_limit_watts=600,
        tensor_flops=165e12,
        achievable_ratio=0.92,
        peer_access=False,
        watts=PowerLevels(floor=14, context=24, awake=62, spin=92, copy=112, memory=265, compute=428),
        sm_clock_max_hertz=3105e6,
        memory_clock_max_hertz=10501e6,
        slowdown_celsius=90,
        shutdown_celsius=95,
        abilities=_GEFORCE_ADA,
    ),
    "rtx5090": CardSpec(
        name="NVIDIA GeForce RTX 5090",
        architecture="blackwell",
        generation=5,
        lanes=16,
        memory_bytes=32 * GIB,
        memory_bytes_per_second=1792 * GB,
        tdp_watts=575,
        minimum_limit_watts=400,
        maximum_limit_watts=600,
        tensor_flops=210e12,
        achievable_ratio=0.93,
        peer_access=False,
        watts=PowerLevels(floor=18, context=32, awake=82, spin=122, copy=152, memory=390, compute=570),
        sm_clock_max_hertz=3090e6,
        memory_clock_max_hertz=14001e6,
        slowdown_celsius=90,
        shutdown_celsius=95,
        abilities=_GEFORCE_BLACKWELL,
    ),
    "a6000": CardSpec(
        name="NVIDIA RTX A6000",
        architecture="ampere",
        generation=4,
        lanes=16,
        memory_bytes=48 * GIB,
        memory_bytes_per_second=768 * GB,
        tdp_watts=300,
        minimum_limit_watts=100,
        maximum_limit_watts=300,
        tensor_flops=155e12,
        achievable_ratio=0.61,
        peer_access=True,
        watts=PowerLevels(floor=16, context=24, awake=78, spin=100, copy=112, memory=250, compute=312),
        sm_clock_max_hertz=2100e6,
        memory_clock_max_hertz=8001e6,
        slowdown_celsius=93,
        shutdown_celsius=98,
        abilities=_PRO_AMPERE,
    ),
    "a40": CardSpec(
        name="NVIDIA A40",
        architecture="ampere",
        generation=4,
        lanes=16,
        memory_bytes=48 * GIB,
        memory_bytes_per_second=696 * GB,
        tdp_watts=300,
        minimum_limit_watts=100,
        maximum_limit_watts=300,
        tensor_flops=150e12,
        achievable_ratio=0.60,
        peer_access=True,
        watts=PowerLevels(floor=22, context=34, awake=80, spin=100, copy=112, memory=245, compute=305),
        sm_clock_max_hertz=1740e6,
        memory_clock_max_hertz=7251e6,
        slowdown_celsius=88,
        shutdown_celsius=93,
        abilities=_PRO_AMPERE,
        nvlink=NvLinkSpec(links=4, version="3.0", bytes_per_second=56.25 * GB, switched=False),
    ),
    "l40s": CardSpec(
        name="NVIDIA L40S",
        architecture="ada",
        generation=4,
        lanes=16,
        memory_bytes=48 * GIB,
        memory_bytes_per_second=864 * GB,
        tdp_watts=350,
        minimum_limit_watts=100,
        maximum_limit_watts=350,
        tensor_flops=362e12,
        achievable_ratio=0.65,
        peer_access=True,
        watts=PowerLevels(floor=24, context=36, awake=78, spin=102, copy=116, memory=240, compute=345),
        sm_clock_max_hertz=2520e6,
        memory_clock_max_hertz=9001e6,
        slowdown_celsius=88,
        shutdown_celsius=92,
        abilities=_PRO_ADA,
    ),
    "rtxpro6000": CardSpec(
        name="NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        architecture="blackwell",
        generation=5,
        lanes=16,
        memory_bytes=96 * GIB,
        memory_bytes_per_second=1792 * GB,
        tdp_watts=600,
        minimum_limit_watts=150,
        maximum_limit_watts=600,
        tensor_flops=500e12,
        achievable_ratio=0.75,
        peer_access=True,
        watts=PowerLevels(floor=16, context=28, awake=84, spin=125, copy=156, memory=404, compute=596),
        sm_clock_max_hertz=3090e6,
        memory_clock_max_hertz=14001e6,
        slowdown_celsius=90,
        shutdown_celsius=95,
        abilities=_PRO_BLACKWELL,
    ),
    "a100pcie": CardSpec(
        name="NVIDIA A100 80GB PCIe",
        architecture="ampere",
        generation=4,
        lanes=16,
        memory_bytes=80 * GIB,
        memory_bytes_per_second=1935 * GB,
        tdp_watts=300,
        minimum_limit_watts=150,
        maximum_limit_watts=300,
        tensor_flops=312e12,
        achievable_ratio=0.81,
        peer_access=True,
        watts=PowerLevels(floor=42, context=52, awake=62, spin=84, copy=98, memory=235, compute=305),
        sm_clock_max_hertz=1410e6,
        memory_clock_max_hertz=1512e6,
        slowdown_celsius=85,
        shutdown_celsius=92,
        abilities=_GA100,
    ),
    "a100sxm": CardSpec(
        name="NVIDIA A100-SXM4-80GB",
        architecture="ampere",
        generation=4,
        lanes=16,
        memory_bytes=80 * GIB,
        memory_bytes_per_second=2039 * GB,
        tdp_watts=400,
        minimum_limit_watts=100,
        maximum_limit_watts=400,
        tensor_flops=312e12,
        achievable_ratio=0.87,
        peer_access=True,
        watts=PowerLevels(floor=50, context=62, awake=72, spin=98, copy=120, memory=290, compute=405),
        sm_clock_max_hertz=1410e6,
        memory_clock_max_hertz=1593e6,
        slowdown_celsius=85,
        shutdown_celsius=92,
        abilities=_GA100,
        nvlink=NvLinkSpec(links=12, version="3.0", bytes_per_second=300 * GB, switched=True),
    ),
    "h100pcie": CardSpec(
        name="NVIDIA H100 PCIe",
        architecture="hopper",
        generation=5,
        lanes=16,
        memory_bytes=80 * GIB,
        memory_bytes_per_second=2039 * GB,
        tdp_watts=350,
        minimum_limit_watts=200,
        maximum_limit_watts=350,
        tensor_flops=756e12,
        achievable_ratio=0.78,
        peer_access=True,
        watts=PowerLevels(floor=46, context=62, awake=72, spin=94, copy=112, memory=240, compute=352),
        sm_clock_max_hertz=1755e6,
        memory_clock_max_hertz=1593e6,
        slowdown_celsius=87,
        shutdown_celsius=92,
        abilities=_HOPPER,
    ),
    "h100sxm": CardSpec(
        name="NVIDIA H100 80GB HBM3",
        architecture="hopper",
        generation=5,
        lanes=16,
        memory_bytes=80 * GIB,
        memory_bytes_per_second=3350 * GB,
        tdp_watts=700,
        minimum_limit_watts=200,
        maximum_limit_watts=700,
        tensor_flops=989e12,
        achievable_ratio=0.80,
        peer_access=True,
        watts=PowerLevels(floor=74, context=117, awake=122, spin=152, copy=190, memory=400, compute=692),
        sm_clock_max_hertz=1980e6,
        memory_clock_max_hertz=2619e6,
        slowdown_celsius=87,
        shutdown_celsius=92,
        abilities=_HOPPER,
        nvlink=NvLinkSpec(links=18, version="4.0", bytes_per_second=450 * GB, switched=True),
    ),
    "h200sxm": CardSpec(
        name="NVIDIA H200",
        architecture="hopper",
        generation=5,
        lanes=16,
        memory_bytes=141 * GIB,
        memory_bytes_per_second=4800 * GB,
        tdp_watts=700,
        minimum_limit_watts=200,
        maximum_limit_watts=700,
        tensor_flops=989e12,
        achievable_ratio=0.80,
        peer_access=True,
        watts=PowerLevels(floor=76, context=118, awake=124, spin=154, copy=192, memory=420, compute=692),
        sm_clock_max_hertz=1980e6,
        memory_clock_max_hertz=3201e6,
        slowdown_celsius=87,
        shutdown_celsius=92,
        abilities=_HOPPER,
        nvlink=NvLinkSpec(links=18, version="4.0", bytes_per_second=450 * GB, switched=True),
    ),
}
