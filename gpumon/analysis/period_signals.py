"""The samples of a job's cards that may show the period of its work, over a stretch of time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpumon.analysis import beat, windows
from gpumon.analysis.common_signal import Common, common, measured_every_s, pooled
from gpumon.analysis.windows import RX, T0, T1, TX, CardWindows, Window
from gpumon.model.card import LinkSource, PowerKind
from gpumon.model.samples import Floats

MOST_CARDS = 4  # of a synchronous job tell as much as all of them
MOST_POOLED = 4000  # samples that are pooled
FEWEST_SLOTS = 10  # of a direction
MEAN_POWER_S = 1.0  # what GetPowerUsage averages over, Ampere and newer (nvml.h)
WINDOW_S = 0.02  # that nvmlDeviceGetPcieThroughput watches
BEAT_S = 40.0  # in which a step keeps its length
FAST_POWER_S = 0.045  # refresh that shows what utilization, renewed seven times a second, beats with

Times = tuple[Floats, Floats]


def signals(cards: Sequence[CardWindows], from_s: float, to_s: float) -> dict[str, Common]:
    """Return the common signal of each kind of sample the cards have, by the names of `period_witness.WITNESS`."""
    some = cards[:: math.ceil(len(cards) / MOST_CARDS)] if cards else cards
    power = [_samples(card.power, from_s, to_s) for card in some]
    averaged = any(card.power_kind is PowerKind.AVERAGE for card in some)
    found = {
        "power": common(power, max(measured_every_s(power), MEAN_POWER_S if averaged else 0.0)),
        "link": _link(cards, some, from_s, to_s),
        "nvlink": common([_rates(card.nvlink, from_s, to_s) for card in some]),
        "utilization": common([_samples(card.utilization, from_s, to_s) for card in some]),
        "memory_controller": common([_samples(card.memory_controller, from_s, to_s) for card in some]),
    }
    return {name: signal for name, signal in found.items() if signal is not None}


def beats(cards: Sequence[CardWindows], from_s: float, to_s: float) -> tuple[float, ...]:
    """Return the beat of the cards' exchange, over PCIe and over NVLink, seconds; what shows none is left out."""
    newest_s = max(from_s, to_s - BEAT_S)
    found = (
        beat.of_slots([_slots(window, newest_s, to_s) for window in windows_of])
        for windows_of in ([card.pcie for card in cards], [card.nvlink for card in cards])
    )
    return tuple(period_s for period_s in found if not math.isnan(period_s))


def fast_power(found: dict[str, Common]) -> bool:
    """Return True where power is measured often enough to show what the rings could beat with."""
    return "power" in found and found["power"].refresh_s <= FAST_POWER_S


def _link(cards: Sequence[CardWindows], some: Sequence[CardWindows], from_s: float, to_s: float) -> Common | None:
    if not any(card.pcie_source is LinkSource.WINDOW for card in cards):
        return common([_rates(card.pcie, from_s, to_s) for card in some])
    looks = [_rates(card.pcie, from_s, to_s) for card in cards]
    every = max(1, math.ceil(sum(t.size for t, _ in looks) / MOST_POOLED))
    return pooled(looks[::every], WINDOW_S)


def _samples(window: Window, from_s: float, to_s: float) -> Times:
    found = windows.since(window, from_s)
    return found[0, : (end := int(found[0].searchsorted(to_s, side="right")))], found[1, :end]


def _slots(window: Window, from_s: float, to_s: float) -> Floats:
    slots = windows.since(window, from_s)
    return slots[:, : int(slots[T1].searchsorted(to_s, side="right"))]


def _rates(window: Window, from_s: float, to_s: float) -> Times:
    """Return the middles of the slots, and the mean of both directions' rates in units of their spread.

    A direction that was not looked at in a slot plays no part there.
    """
    slots = _slots(window, from_s, to_s)
    lengths = slots[T1] - slots[T0]
    total, seen = np.zeros(lengths.size), np.zeros(lengths.size)
    for direction in (RX, TX):
        rates = slots[direction] / lengths
        known = ~np.isnan(rates)
        if known.sum() < FEWEST_SLOTS or (spread := float(rates[known].std())) <= 0.0:
            continue
        total[known] += (rates[known] - rates[known].mean()) / spread
        seen += known
    some = seen > 0
    return (slots[T1] - lengths / 2)[some], total[some] / seen[some]
