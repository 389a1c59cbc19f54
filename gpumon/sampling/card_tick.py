"""Closing one card's second: what its log holds becomes a CardTick, and what is too old is left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from gpumon.hardware.reader import GpmSample, Rings
from gpumon.model.card import Card, LinkSource, PowerKind
from gpumon.model.fault import Fault
from gpumon.model.samples import CardTick, Floats, LinkSlots, Series
from gpumon.sampling.card_log import CardLog, LinkRow

# A card that has not answered for this long is shown as not up: two missed seconds and half a second of lateness.
UP_FOR_S = 2.5
# A call that has not come back for this long counts as hung. Reads take milliseconds, a queue of windows 0.3 s.
HUNG_AFTER_S = 2.5
# Seldom-read values stand until two reads in a row failed to renew them.
_RARE_STANDS_S = 32.0
_EMPTY_SERIES = Series()
_Item = TypeVar("_Item")


def close_card(card: Card, log: CardLog, until_s: float, now_s: float) -> CardTick:
    """Return the card's tick that ends at until_s, and empty the log up to there.

    Args:
        until_s: end of the tick; later samples stay for the next.
        now_s: the present, by which ages are judged; at least until_s.
    """
    rows = _take(log.pcie, until_s)
    nvlink_rows = _take(log.nvlink, until_s)
    rings = _take_all(log.rings)
    gpm = _take_all(log.gpm)
    fault = _state(log, now_s)
    if fault is not None:
        return CardTick(uuid=card.identity.uuid, up=False, fault=fault, last_sample_s=log.last_good_s)
    capabilities = card.capabilities
    pcie = _slots(rows, capabilities.pcie_source)
    quick = log.quick if log.quick is not None and now_s - log.quick[1] <= UP_FOR_S else None
    rare = log.rare if log.rare is not None and now_s - log.rare[1] <= _RARE_STANDS_S else None
    readings: dict[str, float] = {}
    faults: dict[str, Fault] = {}
    for held in (rare, quick):
        if held is not None:
            readings.update(held[0].readings)
            faults.update(held[0].faults)
    readings.update(_gpm_means(gpm))
    processes, processes_s = log.processes
    quick_s = quick[1] if quick is not None else math.nan
    return CardTick(
        uuid=card.identity.uuid,
        up=True,
        fault=None,
        last_sample_s=log.last_good_s,
        pcie=pcie,
        nvlink=_slots(nvlink_rows, capabilities.nvlink_source),
        power=_power(capabilities.power_kind, rings, pcie, quick_s, readings),
        power_kind=capabilities.power_kind,
        utilization=_ring("utilization", rings, quick_s, readings.get("utilization_ratio", math.nan)),
        memory_controller=_ring("memory_controller", rings, quick_s, readings.get("memory_controller_ratio", math.nan)),
        sm_clock=_ring("sm_clock", rings, quick_s, readings.get("sm_clock_hertz", math.nan)),
        readings=readings,
        faults=faults,
        throttle_reasons=quick[0].throttle_reasons if quick is not None else frozenset(),
        processes=processes,
        processes_s=processes_s,
        mig_memory_used_bytes=quick[0].mig_memory_used_bytes if quick is not None else {},
    )


def _state(log: CardLog, now_s: float) -> Fault | None:
    """Return why the card is not up, None when it is."""
    if log.fault is not None:
        return log.fault
    if now_s - log.calling_since_s > HUNG_AFTER_S:
        return Fault.TIMEOUT
    if math.isnan(log.last_good_s):
        return Fault.NO_DATA
    return Fault.STALE if now_s - log.last_good_s > UP_FOR_S else None


def _take(rows: list[LinkRow], until_s: float) -> list[LinkRow]:
    """Remove and return the rows that end by until_s. The card's thread may append meanwhile: only the front is cut."""
    taken = rows[:]
    while taken and taken[-1][1] > until_s:
        taken.pop()
    del rows[: len(taken)]
    return taken


def _take_all(items: list[_Item]) -> list[_Item]:
    taken = items[:]
    del items[: len(taken)]
    return taken


def _slots(rows: Sequence[LinkRow], source: LinkSource) -> LinkSlots:
    if not rows:
        return LinkSlots(source=source)
    t0_s, t1_s, rx, tx, power = np.array(rows).T.copy()
    return LinkSlots(t0_s, t1_s, rx, tx, power, source)


def _power(
    kind: PowerKind, rings: Sequence[Rings], pcie: LinkSlots, quick_s: float, readings: Mapping[str, float]
) -> Series:
    """Return the second's power samples of the kind the card was probed for."""
    if kind is PowerKind.INSTANT:
        seen = np.isfinite(pcie.power_watts)
        if seen.any():
            return Series(pcie.t1_s[seen], pcie.power_watts[seen])
    return _ring("power", rings, quick_s, readings.get("power_watts", math.nan))


def _ring(name: str, rings: Sequence[Rings], quick_s: float, quick_value: float) -> Series:
    """Return what the ring held; the scalar of the second where there is no ring (MIG, old drivers)."""
    parts: list[Series] = [part for part in (getattr(drain, name) for drain in rings) if part.t_s.size]
    if len(parts) == 1:
        return parts[0]
    if parts:
        return Series(_joined([part.t_s for part in parts]), _joined([part.value for part in parts]))
    if math.isnan(quick_s) or math.isnan(quick_value):
        return _EMPTY_SERIES
    return Series(np.array([quick_s]), np.array([quick_value]))


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate(parts)


def _gpm_means(samples: Sequence[GpmSample]) -> dict[str, float]:
    """Return the means of GPM's ratios over the second, each sample weighted by the time it covers."""
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    for sample in samples:
        length_s = sample.t1_s - sample.t0_s
        for key, value in sample.readings.items():
            if not math.isnan(value):
                sums[key] = sums.get(key, 0.0) + value * length_s
                weights[key] = weights.get(key, 0.0) + length_s
    return {key: total / weights[key] for key, total in sums.items() if weights[key] > 0.0}
