"""The shape of a job's exchange over its window: how much, between which cards, at once or in turn, in which rhythm.

Figures only; `strategy` reads them. Traffic is that of each card's link in use: NVLink where it moves, else PCIe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpumon.analysis.evidence import CardEvidence, LinkEvidence
from gpumon.analysis.humps import median
from gpumon.analysis.windows import RX, SLOT_ROWS, T0, T1, TX
from gpumon.model.card import PowerKind
from gpumon.model.samples import Floats

QUIET_SLOT = 0.1  # of the rate at which busy slots level off: such a slot carries no collective
# A kernel that waits in a collective leaves the memory alone (4 % of time at most, NVIDIA/nccl-tests#117) and draws a
# third of the limit at most; work does more of one or the other.
READS_MEMORY = 0.08
DRAWS = 0.5
FEWEST_SLOTS = 24
# Power readings that follow phases of a tenth of a second. An average over a second shows none.
FAST_POWER = frozenset({PowerKind.RING, PowerKind.INSTANT})


@dataclass(frozen=True, slots=True)
class Shape:
    """One job's exchange. Lists are by card, in the cards' order; NaN where not seen."""

    known: bool = False  # every card's links were looked at
    quiet: bool = False  # and carried next to nothing
    rate: tuple[float, ...] = ()  # busier direction, bytes per second
    lean: tuple[float, ...] = ()  # (rx - tx) over (rx + tx): 0 symmetric, 1 only receives
    same_instant: float = math.nan  # share of busy instants in which both directions move, mean over cards
    humped: float = math.nan  # share of cards whose slots are either busy or quiet
    quiet_run_s: float = math.nan  # a stretch without traffic that comes again and again: one of the longest tenth
    slot_s: float = math.nan  # how finely that was seen
    window_s: float = math.nan  # how long one look at the link lasts
    unevenness: float = math.nan  # 90th over 50th percentile of these looks: 1 where the link shows one rate
    power_swing: float = math.nan  # between the quarters of the power samples, over the limit; NaN if averaged
    power_spread: float = math.nan  # standard deviation of the power samples over their mean; NaN if averaged
    busy: tuple[float, ...] = ()  # share of time with a kernel
    memory: tuple[float, ...] = ()  # device memory in use, bytes
    memory_share: tuple[float, ...] = ()  # of what the card has
    computes: bool = False  # every card reads its memory or draws power as work does and waiting does not

    @property
    def total(self) -> float:
        """Mean rate of a card."""
        return sum(self.rate) / len(self.rate) if self.rate else math.nan

    @property
    def even(self) -> float:
        """The least card's rate over the most's; 1 when all carry the same."""
        most = max(self.rate, default=0.0)
        return min(self.rate) / most if most > 0.0 else math.nan


def link_in_use(card: CardEvidence) -> LinkEvidence | None:
    """Return the link that carries the card's exchange: the one that moves more bytes; None where none was seen."""
    links = [link for link in (card.pcie, card.nvlink) if link is not None and link.known]
    return max(links, key=lambda link: 0.0 if math.isnan(link.rate) else link.rate, default=None)


def of(cards: Sequence[CardEvidence], slots: Mapping[str, Floats], *, totals: Sequence[float], nvlinked: bool) -> Shape:
    """Return the shape of what these cards exchanged.

    Args:
        cards: those of one job.
        totals: the memory each of them has, bytes; NaN unknown.
        nvlinked: some of them have working NVLink, so that PCIe alone does not tell what is exchanged.
        slots: the slot windows of the links in use over the same time, shape (5, n), by uuid; only the first card's
            rhythm is looked at.
    """
    links = [link_in_use(card) for card in cards]
    seen = [link for link in links if link is not None]
    known = bool(cards) and all(card.pcie.known for card in cards)
    known = known and (not nvlinked or all(card.nvlink is not None and card.nvlink.known for card in cards))
    rates = tuple(math.nan if link is None else link.rate for link in links)
    rhythm = _rhythm(seen, slots)
    spreads = [card.power.spread / card.power_mean for card in cards if _follows(card) and card.power_mean > 0.0]
    swings = [
        (card.power.high_quarter - card.power.low_quarter) / card.power_limit
        for card in cards
        if _follows(card) and card.power_limit > 0.0
    ]
    return Shape(
        known=known,
        quiet=known and all(link.quiet for link in seen),
        rate=rates,
        lean=tuple(math.nan if link is None else _lean(link) for link in links),
        same_instant=_mean([link.same_instant for link in seen]),
        humped=_mean([float(link.humped) for link in seen]),
        quiet_run_s=rhythm.quiet_run_s,
        slot_s=rhythm.slot_s,
        window_s=rhythm.window_s,
        unevenness=rhythm.unevenness,
        power_swing=_mean(swings),
        power_spread=_mean(spreads),
        busy=tuple(1.0 - card.gap for card in cards),
        memory=tuple(card.memory_used for card in cards),
        memory_share=tuple(
            card.memory_used / total if total > 0.0 else math.nan for card, total in zip(cards, totals, strict=True)
        ),
        computes=bool(cards) and all(_computes(card) for card in cards),
    )


def _follows(card: CardEvidence) -> bool:
    return card.power_kind in FAST_POWER


def _computes(card: CardEvidence) -> bool:
    return card.memory_controller >= READS_MEMORY or card.power_mean >= DRAWS * card.power_limit


def _lean(link: LinkEvidence) -> float:
    both = link.rx + link.tx
    return (link.rx - link.tx) / both if both > 0.0 else math.nan


def _mean(values: Sequence[float]) -> float:
    present = [value for value in values if not math.isnan(value)]
    return sum(present) / len(present) if present else math.nan


@dataclass(frozen=True, slots=True)
class _Rhythm:
    """What one card's slots show; the fields are those of Shape."""

    quiet_run_s: float = math.nan
    slot_s: float = math.nan
    window_s: float = math.nan
    unevenness: float = math.nan


def _rhythm(links: Sequence[LinkEvidence], slots: Mapping[str, Floats]) -> _Rhythm:
    """Return how one card's exchange comes and goes.

    From the end of one loud slot to the beginning of the next the link was quiet, or not looked at; what is usually
    not looked at between two slots is taken off, and where no slot between them was quiet there is no stretch.
    """
    window = next(iter(slots.values()), np.empty((SLOT_ROWS, 0)))
    if not links or window.shape[1] < FEWEST_SLOTS:
        return _Rhythm()
    rates = np.fmax(window[RX], window[TX]) / (window[T1] - window[T0])
    present = np.sort(rates[~np.isnan(rates)])
    middle, top = (float(present[int(q * present.size)]) if present.size else math.nan for q in (0.5, 0.9))
    seen = _Rhythm(
        slot_s=median(np.diff(window[T1])),
        window_s=median(window[T1] - window[T0]),
        unevenness=top / middle if middle > 0.0 else math.nan,
    )
    loud = np.flatnonzero(rates > QUIET_SLOT * max(link.plateau for link in links))
    if loud.size < FEWEST_SLOTS // 3:
        return seen
    unseen = median(window[T0][1:] - window[T1][:-1])
    runs = np.where(np.diff(loud) > 1, window[T0][loud[1:]] - window[T1][loud[:-1]] - max(0.0, unseen), 0.0)
    longest = np.sort(runs)[-max(1, runs.size // 10) :]
    return replace(seen, quiet_run_s=max(0.0, float(longest.mean())))
