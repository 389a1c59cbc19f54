"""What was seen of one job over its window: figures only, no judgement. Causes and the time split read this."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gpumon.analysis import directions, overlap, windows
from gpumon.analysis.activity import LevelRange, Levels, gpm_ranges, power_ranges
from gpumon.analysis.capacity import Capacity
from gpumon.analysis.humps import Humps, two_levels
from gpumon.analysis.overlap import Overlap
from gpumon.analysis.windows import RX, T0, T1, TX, CardWindows
from gpumon.model.card import Card, PowerKind
from gpumon.model.samples import Floats

# NCCL over PCIe levels off between these shares of the ceiling: 28 of 63 GB/s on 8x RTX 5090, 35 on 4, 6.2 of 15.75
# on 2x RTX 3090 Ti, 24.4 of 31.5 with patched peer access, 41 of 63 tuned (published all-reduce runs). A single copy
# reaches 0.9.
PLATEAU_SHARE = (0.30, 0.92)
QUIET_SHARE = 0.002  # of the ceiling: below this a link carries only commands and doorbells
SMALL_BYTES_PER_SECOND = 10e6


@dataclass(frozen=True, slots=True)
class LinkEvidence:
    """One card's link (PCIe or NVLink) over the window. Rates in bytes per second; NaN where not seen."""

    ceiling: float = math.nan
    attainable: float = math.nan
    rx: float = math.nan  # mean
    tx: float = math.nan
    busy: tuple[float, float] = (0.0, 1.0)  # range of the share of time in which bytes move
    plateau: float = math.nan  # the rate at which busy slots level off
    flat_top: float = math.nan  # 90th over 50th percentile of busy slots
    saturation: float = math.nan  # plateau over attainable
    humped: bool = False
    same_instant: float = math.nan
    observed: float = 0.0  # share of the window that was looked at, the lesser direction
    slots: int = 0

    @property
    def known(self) -> bool:
        """Return True where the link was looked at."""
        return self.slots > 0

    @property
    def rate(self) -> float:
        """Return the mean of the busier direction."""
        return float(np.fmax(self.rx, self.tx))

    @property
    def quiet(self) -> bool:
        """Return True where the link was looked at and carried next to nothing."""
        floor = SMALL_BYTES_PER_SECOND
        if not math.isnan(self.ceiling):
            floor = max(floor, QUIET_SHARE * self.ceiling)
        return self.known and self.rate < floor


@dataclass(frozen=True, slots=True)
class CardEvidence:
    """One card over the job's window."""

    uuid: str
    gpu: int
    up: bool
    utilization: float  # mean, NaN when missing
    gap: float  # share of time without a kernel; NaN when unknown
    memory_controller: float
    dram_active: float
    sm_active: float
    tensor_active: float
    power_mean: float
    power_high: float  # 90th percentile
    power_spread: float  # standard deviation
    power_limit: float
    power_default: float
    power_kind: PowerKind
    power_humps: Humps
    levels: LevelRange | None  # of power; None without power
    gpm: LevelRange | None
    sm_clock_ratio: float
    temperature: float
    throttled: dict[str, float]  # reason -> share of the window
    pcie: LinkEvidence
    nvlink: LinkEvidence | None
    overlap: Overlap
    memory_used: float
    shared: bool = False
    power_coverage: float = 0.0  # share of the window with power samples


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """A job over its window."""

    from_s: float
    to_s: float
    cards: tuple[CardEvidence, ...]
    host: dict[str, float] = field(default_factory=dict)  # means of HostRates, by name
    processes_known: bool = False
    processes: int = 0
    uplink_saturation: float = math.nan
    same_root: bool = False

    @property
    def seconds(self) -> float:
        """Return the window's length."""
        return self.to_s - self.from_s


def nan_mean(values: Floats) -> float:
    """Return the mean of what is present; NaN when nothing is."""
    present = values[~np.isnan(values)]
    return float(present.mean()) if present.size else math.nan


def link_evidence(slots: Floats, ceiling: float, attainable: float, seconds: float) -> LinkEvidence:
    """Return what a link showed, from a slot window's samples, shape (6, n)."""
    if slots.shape[1] == 0:
        return LinkEvidence(ceiling=ceiling, attainable=attainable)
    lengths = slots[T1] - slots[T0]
    means, busy_rates, observed = [], [], []
    for row in (RX, TX):
        seen = ~np.isnan(slots[row])
        span = float(lengths[seen].sum())
        observed.append(span / seconds if seconds > 0.0 else 0.0)
        if span <= 0.0:
            means.append(math.nan)
            continue
        means.append(float(slots[row][seen].sum()) / span)
        busy_rates.append(slots[row][seen] / lengths[seen])
    if not busy_rates:
        return LinkEvidence(ceiling=ceiling, attainable=attainable)
    # The busier direction decides how long the link is in use.
    rates = max(busy_rates, key=lambda r: float(r.mean()))
    mean = float(np.fmax(means[0], means[1]))
    humps = two_levels(rates)
    high = rates[rates > humps.cut] if humps.two else rates
    busy_slots = high if high.size >= 8 else rates
    p50, p75, p90 = (float(v) for v in np.quantile(busy_slots, (0.5, 0.75, 0.9)))
    top = float(np.quantile(rates, 0.97))
    humped = humps.two and humps.low <= 0.4 * humps.high
    busy = _busy_range(mean, p75 if humped else top, humped, ceiling)
    return LinkEvidence(
        ceiling=ceiling,
        attainable=attainable,
        rx=means[0],
        tx=means[1],
        busy=busy,
        plateau=p75 if humped else top,
        flat_top=p90 / p50 if p50 > 0.0 else math.nan,
        saturation=(p75 if humped else top) / attainable,
        humped=humped,
        same_instant=directions.same_instant(slots),
        observed=min(1.0, *observed),
        slots=slots.shape[1],
    )


def _busy_range(mean: float, plateau: float, humped: bool, ceiling: float) -> tuple[float, float]:
    """Return the range of the share of time in which bytes move: mean over the rate at which they move.

    Where slots have two humps the rate is their upper level. Elsewhere phases are shorter than slots, and the rate
    lies between what the fullest slots show and the most such a link carries.
    """
    if plateau <= 0.0:
        return 0.0, 0.0
    if humped:
        return min(1.0, 0.92 * mean / plateau), min(1.0, 1.08 * mean / plateau)
    most = PLATEAU_SHARE[1] * ceiling if not math.isnan(ceiling) else plateau * 3.0
    return min(1.0, mean / max(plateau, most)), min(1.0, mean / plateau)


def card_evidence(
    card: Card,
    past: CardWindows,
    capacity: Capacity,
    levels: Levels,
    *,
    up: bool,
    throttled: dict[str, float],
    window: tuple[float, float],
) -> CardEvidence:
    """Return what one card showed between two times."""
    from_s, to_s = window
    seconds = to_s - from_s
    scalars = windows.since(past.scalars, from_s)

    def of(key: str) -> Floats:
        row: Floats = scalars[windows.SCALAR_ROW[key]]
        return row

    ring = windows.since(past.utilization, from_s)[1]
    utilization = nan_mean(ring) if ring.size >= 3 else nan_mean(of("utilization_ratio"))
    gap = min(1.0, max(0.0, 1.0 - utilization))
    memory_ring = windows.since(past.memory_controller, from_s)[1]
    memory = nan_mean(memory_ring) if memory_ring.size >= 3 else nan_mean(of("memory_controller_ratio"))
    power = windows.since(past.power, from_s)
    if power.shape[1] < 3:
        power = np.stack((scalars[0], of("power_watts")))
        power = power[:, ~np.isnan(power[1])]
    watts = power[1]
    limit = windows.latest(past, "power_limit_watts")
    humps = two_levels(watts)
    level_range, high, spread = None, math.nan, math.nan
    if watts.size:
        high, spread = float(np.quantile(watts, 0.9)), float(watts.std())
        upper = watts[watts > humps.cut] if humps.two else watts
        lower = watts[watts <= humps.cut] if humps.two else watts
        top = float(np.quantile(upper, 0.75)) if upper.size else high
        bottom = float(np.quantile(lower, 0.25)) if lower.size else high
        level_range = power_ranges(levels, limit, humps, low=bottom, high=top, gap=0.0 if math.isnan(gap) else gap)
    sm_active = of("sm_active_ratio")
    gpm_mean = nan_mean(sm_active)
    gpm = None if math.isnan(gpm_mean) else gpm_ranges(float(np.nanmax(sm_active)))
    slots = windows.since(past.pcie, from_s)
    nvlink_slots = windows.since(past.nvlink, from_s)
    usable = card.nvlink.bytes_per_second_per_direction
    return CardEvidence(
        uuid=card.identity.uuid,
        gpu=card.identity.index,
        up=up,
        utilization=utilization,
        gap=gap,
        memory_controller=memory,
        dram_active=nan_mean(of("dram_active_ratio")),
        sm_active=gpm_mean,
        tensor_active=nan_mean(of("tensor_active_ratio")),
        power_mean=nan_mean(watts),
        power_high=high,
        power_spread=spread,
        power_limit=limit,
        power_default=windows.latest(past, "power_default_limit_watts"),
        power_kind=past.power_kind,
        power_humps=humps,
        levels=level_range,
        gpm=gpm,
        sm_clock_ratio=nan_mean(of("sm_clock_hertz") / of("sm_clock_max_hertz")),
        temperature=nan_mean(of("temperature_gpu_celsius")),
        throttled=throttled,
        pcie=link_evidence(slots, capacity.ceiling, capacity.attainable, seconds),
        nvlink=link_evidence(nvlink_slots, usable, usable, seconds) if nvlink_slots.shape[1] else None,
        overlap=overlap.compare(slots, windows.since(past.power, from_s - 1.0), past.power_kind),
        memory_used=windows.latest(past, "memory_used_bytes"),
        power_coverage=min(1.0, watts.size / max(1.0, seconds)),
    )
