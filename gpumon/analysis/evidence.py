"""What was seen of one job over its window: figures only, no judgement. Causes and the time split read this."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gpumon.analysis import blur, directions, overlap, windows
from gpumon.analysis.activity import LevelRange, Levels, gpm_ranges, power_ranges
from gpumon.analysis.capacity import Capacity
from gpumon.analysis.humps import Humps, median, two_levels
from gpumon.analysis.links import Seen, look
from gpumon.analysis.overlap import Overlap
from gpumon.analysis.throttling import HOLDING
from gpumon.analysis.windows import RX, TX, CardWindows
from gpumon.model.card import Card, PowerKind
from gpumon.model.samples import Floats

# NCCL over PCIe levels off between these shares of the ceiling: 28 of 63 GB/s on 8x RTX 5090, 35 on 4, 6.2 of 15.75
# on 2x RTX 3090 Ti, 24.4 of 31.5 with patched peer access, 41 of 63 tuned (published all-reduce runs). A single copy
# reaches 0.9.
PLATEAU_SHARE = (0.30, 0.92)
# The slowest that collectives were seen to fill a link: 0.94 GB/s between sockets on gen4 x16. What flows more slowly
# in every slot is a stream of small messages, and the link is free between them.
SLOWEST_SHARE = 0.03
QUIET_SHARE = 0.002  # of the ceiling: below this a link carries only commands and doorbells
SMALL_BYTES_PER_SECOND = 10e6
# Launches and small copies of a card that works alone: 30 to 100 MB/s in, a third of that out (DCGM sample page).
LAUNCH_BYTES_PER_SECOND = 100e6
BOTH_WAYS = 0.45  # lesser over larger direction: collectives move as much each way
QUIET_LEVEL = 0.4  # the lower hump of slots must be below this share of the upper one
HELD_SHARE = 0.3  # of the window
FALL_SHARE = 0.1  # of the level at work: less is within what sensors blur
BUSY_PART = (0.15, 0.85)  # share of time the link is busy: at the ends everything agrees with it
SAME_SHARE = 0.12  # of the time
LOOKS_DOUBT = 1.5  # standard errors
FLAT = 1.15  # 90th over 50th percentile of loud slots that show one rate
WITHOUT_HOLES = 0.9  # of the window that slots cover
FILLED_SLOTS = 1.5  # loud in a row: a burst as long as a slot lies in two of them and is seen in one or both
SLOTS_A_CYCLE = 4  # from burst to burst: with fewer neither the burst nor the pause fills one
SHARED = 0.65  # of the top: the half that a neighbour leaves, and a little more
FEWEST_SAMPLES = 3  # of a ring: below, the scalars of each second stand in
LOWEST = 0.03  # of the samples with a kernel: below lie noise and the edge of a gap
NO_KERNEL = 0.015  # of a sample of utilization, which comes in whole percents


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
    present: float = math.nan  # share of the slots in which anything to speak of moves
    same_instant: float = math.nan
    observed: float = 0.0  # share of the window that was looked at, the lesser direction
    slots: int = 0
    slot_s: float = math.nan  # mean length of one

    @property
    def known(self) -> bool:
        """Return True where the link was looked at."""
        return self.slots > 0

    @property
    def rate(self) -> float:
        """Return the mean of the busier direction."""
        return float(np.fmax(self.rx, self.tx))

    @property
    def usual_busy(self) -> float:
        """Return the mean share of time in which bytes move, where it is known to a factor."""
        low, high = max(self.busy[0], 1e-4), max(self.busy[1], 1e-4)
        return (high - low) / math.log(high / low) if high > 1.01 * low else high

    @property
    def shortest(self) -> float:
        """Return the least share of time in which these bytes can have moved: at the best rate such links reach."""
        return min(1.0, self.rate / (PLATEAU_SHARE[1] * self.ceiling)) if self.ceiling > 0.0 else self.busy[0]

    @property
    def lesser(self) -> float:
        """Return the mean of the quieter direction over that of the busier, 0 to 1."""
        return min(self.rx, self.tx) / self.rate if self.rate > 0.0 else 1.0

    @property
    def exchanges(self) -> bool:
        """Return True where it moves more than a card that works alone does."""
        both_ways = self.rate >= SMALL_BYTES_PER_SECOND and self.lesser >= BOTH_WAYS
        return self.known and (self.rate >= LAUNCH_BYTES_PER_SECOND or both_ways)

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
    window: tuple[float, float]
    utilization: float  # mean, NaN when missing
    late_utilization: float  # mean of the window's second half
    gap: float  # share of time without a kernel; NaN when unknown
    memory_controller: float
    dram_active: float
    memory_humps: Humps  # of DRAM activity where GPM tells, else of the memory controller's
    sm_active: float
    tensor_active: float
    power: Humps  # watts
    power_limit: float
    power_default: float
    power_kind: PowerKind
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
    used: bool = True  # a process of the job is on it; else it was only given
    power_coverage: float = 0.0  # share of the window with power samples
    nvlink_unseen: bool = False  # it has NVLink and nothing tells what that carries
    lull: float = 0.0  # share of the window in samples of utilization (1/6 s to 1 s) without any kernel: within `gap`

    @property
    def power_mean(self) -> float:
        """Return the mean power in watts; NaN without."""
        return self.power.mean


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """A job over its window."""

    from_s: float
    to_s: float
    cards: tuple[CardEvidence, ...]
    host: dict[str, float] = field(default_factory=dict)  # means of HostRates, by name
    processes_known: bool = False
    processes: int = 0
    uplink_saturation: float = math.nan  # of the fullest shared bridge above its cards, while they exchange
    same_root: bool = False

    @property
    def working(self) -> tuple[CardEvidence, ...]:
        """Return the cards that answered and that the job uses; where it uses none, those it was given."""
        up = tuple(card for card in self.cards if card.up)
        return tuple(card for card in up if card.used) or up

    @property
    def seconds(self) -> float:
        """Return the window's length."""
        return self.to_s - self.from_s


def nan_mean(values: Floats) -> float:
    """Return the mean of what is present; NaN when nothing is."""
    present = values[values == values]  # noqa: PLR0124 - NaN is the only value unlike itself, and this is the fast test
    return float(present.sum()) / present.size if present.size else math.nan


def link_evidence(slots: Floats, ceiling: float, attainable: float, seconds: float) -> LinkEvidence:
    """Return what a link showed, from a slot window's samples, shape (5, n)."""
    if slots.shape[1] == 0:
        return LinkEvidence(ceiling=ceiling, attainable=attainable)
    rx, tx = look(slots, RX), look(slots, TX)
    # The busier direction decides how long the link is in use.
    busier = rx if not tx.mean > rx.mean else tx
    humps = two_levels(busier.rates)
    humped = humps.two and humps.low <= QUIET_LEVEL * humps.high
    plateau = humps.high_quarter if humped else humps.top
    observed = min(1.0, *(float(seen.lengths.sum()) / max(seconds, 1e-3) for seen in (rx, tx)))
    flat_top = humps.high_tenth / humps.high_half if humps.high_half > 0.0 else math.nan
    level = plateau >= PLATEAU_SHARE[0] * ceiling or flat_top <= FLAT
    if humped and level and not _within_slots(busier, humps.cut, observed):
        busy = _busy_share(busier.mean / plateau, busier.rates.size, observed)
    else:
        busy = _busy_range(busier.mean, plateau, _typical(busier.rates, plateau), ceiling)
    return LinkEvidence(
        ceiling=ceiling,
        attainable=attainable,
        rx=rx.mean,
        tx=tx.mean,
        busy=busy,
        plateau=plateau,
        flat_top=flat_top,
        saturation=plateau / attainable,
        humped=humped,
        present=float((busier.rates >= SMALL_BYTES_PER_SECOND).sum()) / max(1, busier.rates.size),
        same_instant=directions.same_instant(slots),
        observed=observed,
        slots=slots.shape[1],
        slot_s=float(busier.lengths.mean()) if busier.lengths.size else math.nan,
    )


def _within_slots(seen: Seen, cut: float, observed: float) -> bool:
    """Return True where what moves comes and goes within single slots: their level is then a mean of a short burst and
    of the quiet beside it. Told only where the slots leave nothing out."""
    if observed < WITHOUT_HOLES:
        return False
    loud = seen.rates > cut
    bursts = int(loud[0]) + int((loud[1:] & ~loud[:-1]).sum())
    return int(loud.sum()) < FILLED_SLOTS * bursts or loud.size < SLOTS_A_CYCLE * bursts


def _typical(rates: Floats, top: float) -> float:
    """Return the rate of usual slots: the middle one where it is far below the top, which a neighbour then leaves to it
    now and then only."""
    busy = rates[rates > QUIET_LEVEL / 2 * top]
    middle = median(busy) if busy.size else top
    return middle if middle <= SHARED * top else top


def _busy_share(share: float, slots: int, observed: float) -> tuple[float, float]:
    """Return the range of the share of time in which bytes move, where slots are either busy or quiet.

    The level is known to 8 %; slots that lie apart add what chance adds to so many looks.
    """
    share = min(1.0, share)
    chance = LOOKS_DOUBT * math.sqrt(share * (1.0 - share) * (1.0 - observed) / slots)
    doubt = math.hypot(0.08 * share, chance)
    return max(0.0, share - doubt), min(1.0, share + doubt)


def _busy_range(mean: float, plateau: float, typical: float, ceiling: float) -> tuple[float, float]:
    """Return the range of the share of time in which bytes move where phases are shorter than slots: mean over rate.

    The rate lies between what usual slots show and the most such a link carries.
    """
    if plateau <= 0.0:
        return 0.0, 0.0
    most = PLATEAU_SHARE[1] * ceiling if not math.isnan(ceiling) else plateau * 3.0
    least = max(typical, SLOWEST_SHARE * ceiling) if not math.isnan(ceiling) else typical
    return min(1.0, mean / max(plateau, most)), min(1.0, mean / least)


def _low_as_long_as_busy(power: Humps, link: LinkEvidence) -> bool:
    """Return True where power is low for as long as the link is busy: the one is the reason for the other.

    For links seen through windows, whose slots of one direction at a time are too few to be paired with power.
    """
    busy = sum(link.busy) / 2
    return link.humped and BUSY_PART[0] <= busy <= BUSY_PART[1] and abs(1.0 - power.share_high - busy) <= SAME_SHARE


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
    kernels = ring if ring.size >= FEWEST_SAMPLES else of("utilization_ratio")
    utilization = nan_mean(kernels)
    gap = min(1.0, max(0.0, 1.0 - utilization))
    memory_ring = windows.since(past.memory_controller, from_s)[1]
    controller = memory_ring if memory_ring.size >= FEWEST_SAMPLES else of("memory_controller_ratio")
    dram = of("dram_active_ratio")
    activity = controller if math.isnan(nan_mean(dram)) else dram
    # The overlap test shifts the power against the slots and needs a second more.
    power = windows.since(past.power, from_s - 1.0)
    first = int(power[0].searchsorted(from_s, side="right"))
    watts = power[1, first:]
    ringed = watts.size >= FEWEST_SAMPLES
    if not ringed:
        watts = of("power_watts")
        watts = watts[~np.isnan(watts)]
    humps = two_levels(watts)
    beyond = blur.beyond(power[:, first:], humps) if ringed else (1.0, 1.0)
    limit = windows.latest(past, "power_limit_watts")
    sm_active = of("sm_active_ratio")
    gpm_mean = nan_mean(sm_active)
    slots = windows.since(past.pcie, from_s)
    nvlink_slots = windows.since(past.nvlink, from_s)
    test = overlap.compare(slots, power, past.power_kind)
    pcie = link_evidence(slots, capacity.ceiling, capacity.attainable, seconds)
    falls = test.valid and test.watts_quiet - test.watts_busy >= FALL_SHARE * max(humps.high_quarter, 1.0)
    falls = falls or (not test.valid and _low_as_long_as_busy(humps, pcie))
    level_range = None
    if watts.size:
        held = max((throttled.get(reason, 0.0) for reason in HOLDING), default=0.0) >= HELD_SHARE
        known_gap = 0.0 if math.isnan(gap) else gap
        place = min(watts.size - 1, int((known_gap + LOWEST) * watts.size))
        bottom = float(np.partition(watts, place)[place])
        level_range = power_ranges(levels, limit, humps, bottom, gap=known_gap, falls=falls, held=held, beyond=beyond)
    usable = card.nvlink.bytes_per_second_per_direction
    return CardEvidence(
        uuid=card.identity.uuid,
        gpu=card.identity.index,
        up=up,
        window=window,
        utilization=utilization,
        late_utilization=nan_mean(kernels[kernels.size // 2 :]),
        gap=gap,
        memory_controller=nan_mean(controller),
        dram_active=nan_mean(dram),
        memory_humps=two_levels(activity[~np.isnan(activity)]),
        sm_active=gpm_mean,
        tensor_active=nan_mean(of("tensor_active_ratio")),
        power=humps,
        power_limit=limit,
        power_default=windows.latest(past, "power_default_limit_watts"),
        power_kind=past.power_kind,
        levels=level_range,
        gpm=None if math.isnan(gpm_mean) else gpm_ranges(float(np.nanmax(sm_active))),
        sm_clock_ratio=nan_mean(of("sm_clock_hertz") / of("sm_clock_max_hertz")),
        temperature=nan_mean(of("temperature_gpu_celsius")),
        throttled=throttled,
        pcie=pcie,
        nvlink=link_evidence(nvlink_slots, usable, usable, seconds) if nvlink_slots.shape[1] else None,
        overlap=test,
        memory_used=windows.latest(past, "memory_used_bytes"),
        power_coverage=min(1.0, watts.size / max(1.0, seconds)),
        nvlink_unseen=card.nvlink.active > 0 and not nvlink_slots.shape[1],
        lull=float((kernels <= NO_KERNEL).sum()) / max(1, kernels.size),
    )
