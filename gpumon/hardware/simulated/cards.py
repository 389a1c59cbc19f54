"""The simulated cards: links, memory, speed, power levels, and what their driver interface can tell.

Published defaults (vendor data sheets, TechPowerUp, stas00/ml-engineering) for links, memory, TDP and dense 16-bit
tensor rates. Power levels come from recorded telemetry where there is some: an H100 SXM draws 74 W without a context,
117 W with one, about 150 W while it spins inside NCCL and 550 to 689 W in training (grantwilkins/training_profile);
the other cards are scaled from it and from single published readings. They are the simulator's own: nothing that
judges a job may read them.
"""

from __future__ import annotations

from dataclasses import dataclass

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
_GEFORCE_ADA = Abilities(32, False, True, 1.0, 0.025, 0.02, True, "disabled", False, 0.167)
_GEFORCE_BLACKWELL = Abilities(32, False, True, 1.0, 0.025, 0.02, True, "unsupported", False, 0.167)
_GEFORCE_AMPERE = Abilities(0, False, True, 1.0, 0.1, 0.02, True, "unsupported", False, 0.167)
_GEFORCE_TURING = Abilities(0, False, True, 0.0, 0.1, 0.02, True, "unsupported", False, 0.167)
_PRO_ADA = Abilities(32, False, True, 1.0, 0.025, 0.02, False, "enabled", False, 0.167)
_PRO_AMPERE = Abilities(0, False, True, 1.0, 0.1, 0.02, False, "enabled", False, 0.167)
_PRO_BLACKWELL = Abilities(32, True, True, 1.0, 0.025, 0.02, False, "disabled", False, 0.167)
# A100 and H100 look at a quarter of the time only (arXiv 2312.02741): 25 ms of every 100 ms.
_GA100 = Abilities(0, False, True, 0.0, 0.025, 0.1, False, "enabled", True, 0.5)
_HOPPER = Abilities(32, True, True, 1.0, 0.025, 0.1, False, "enabled", True, 0.5)

CARDS: dict[str, CardSpec] = {
    "rtx2080ti": CardSpec(
        "NVIDIA GeForce RTX 2080 Ti",
        "turing",
        3,
        16,
        11 * GIB,
        616 * GB,
        250,
        100,
        300,
        57e12,
        0.80,
        False,
        PowerLevels(12, 18, 56, 80, 96, 190, 255),
        2100e6,
        7000e6,
        91,
        94,
        _GEFORCE_TURING,
    ),
    "rtx3090": CardSpec(
        "NVIDIA GeForce RTX 3090",
        "ampere",
        4,
        16,
        24 * GIB,
        936 * GB,
        350,
        100,
        385,
        71e12,
        0.92,
        False,
        PowerLevels(18, 28, 105, 132, 150, 300, 372),
        2100e6,
        9751e6,
        93,
        98,
        _GEFORCE_AMPERE,
    ),
    "rtx4090": CardSpec(
        "NVIDIA GeForce RTX 4090",
        "ada",
        4,
        16,
        24 * GIB,
        1008 * GB,
        450,
        150,
        600,
        165e12,
        0.92,
        False,
        PowerLevels(14, 24, 62, 92, 112, 265, 428),
        3105e6,
        10501e6,
        90,
        95,
        _GEFORCE_ADA,
    ),
    "rtx5090": CardSpec(
        "NVIDIA GeForce RTX 5090",
        "blackwell",
        5,
        16,
        32 * GIB,
        1792 * GB,
        575,
        400,
        600,
        210e12,
        0.93,
        False,
        PowerLevels(18, 32, 82, 122, 152, 390, 570),
        3090e6,
        14001e6,
        90,
        95,
        _GEFORCE_BLACKWELL,
    ),
    "a6000": CardSpec(
        "NVIDIA RTX A6000",
        "ampere",
        4,
        16,
        48 * GIB,
        768 * GB,
        300,
        100,
        300,
        155e12,
        0.61,
        True,
        PowerLevels(16, 24, 78, 100, 112, 250, 312),
        2100e6,
        8001e6,
        93,
        98,
        _PRO_AMPERE,
    ),
    "a40": CardSpec(
        "NVIDIA A40",
        "ampere",
        4,
        16,
        48 * GIB,
        696 * GB,
        300,
        100,
        300,
        150e12,
        0.60,
        True,
        PowerLevels(22, 34, 80, 100, 112, 245, 305),
        1740e6,
        7251e6,
        88,
        93,
        _PRO_AMPERE,
        NvLinkSpec(4, "3.0", 56.25 * GB, switched=False),
    ),
    "l40s": CardSpec(
        "NVIDIA L40S",
        "ada",
        4,
        16,
        48 * GIB,
        864 * GB,
        350,
        100,
        350,
        362e12,
        0.65,
        True,
        PowerLevels(24, 36, 78, 102, 116, 240, 345),
        2520e6,
        9001e6,
        88,
        92,
        _PRO_ADA,
    ),
    "rtxpro6000": CardSpec(
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "blackwell",
        5,
        16,
        96 * GIB,
        1792 * GB,
        600,
        150,
        600,
        500e12,
        0.75,
        True,
        PowerLevels(16, 28, 84, 125, 156, 404, 596),
        3090e6,
        14001e6,
        90,
        95,
        _PRO_BLACKWELL,
    ),
    "a100pcie": CardSpec(
        "NVIDIA A100 80GB PCIe",
        "ampere",
        4,
        16,
        80 * GIB,
        1935 * GB,
        300,
        150,
        300,
        312e12,
        0.81,
        True,
        PowerLevels(42, 52, 62, 84, 98, 235, 305),
        1410e6,
        1512e6,
        85,
        92,
        _GA100,
    ),
    "a100sxm": CardSpec(
        "NVIDIA A100-SXM4-80GB",
        "ampere",
        4,
        16,
        80 * GIB,
        2039 * GB,
        400,
        100,
        400,
        312e12,
        0.87,
        True,
        PowerLevels(50, 62, 72, 98, 120, 290, 405),
        1410e6,
        1593e6,
        85,
        92,
        _GA100,
        NvLinkSpec(12, "3.0", 300 * GB, switched=True),
    ),
    "h100pcie": CardSpec(
        "NVIDIA H100 PCIe",
        "hopper",
        5,
        16,
        80 * GIB,
        2039 * GB,
        350,
        200,
        350,
        756e12,
        0.78,
        True,
        PowerLevels(46, 62, 72, 94, 112, 240, 352),
        1755e6,
        1593e6,
        87,
        92,
        _HOPPER,
    ),
    "h100sxm": CardSpec(
        "NVIDIA H100 80GB HBM3",
        "hopper",
        5,
        16,
        80 * GIB,
        3350 * GB,
        700,
        200,
        700,
        989e12,
        0.80,
        True,
        PowerLevels(74, 117, 122, 152, 190, 400, 692),
        1980e6,
        2619e6,
        87,
        92,
        _HOPPER,
        NvLinkSpec(18, "4.0", 450 * GB, switched=True),
    ),
    "h200sxm": CardSpec(
        "NVIDIA H200",
        "hopper",
        5,
        16,
        141 * GIB,
        4800 * GB,
        700,
        200,
        700,
        989e12,
        0.80,
        True,
        PowerLevels(76, 118, 124, 154, 192, 420, 692),
        1980e6,
        3201e6,
        87,
        92,
        _HOPPER,
        NvLinkSpec(18, "4.0", 450 * GB, switched=True),
    ),
}
