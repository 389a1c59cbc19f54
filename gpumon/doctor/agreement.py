"""Whether sources that should say the same do: link bytes by counter, window and GPM; power by field, ring and energy.

Nothing here makes load. On an idle card the answer is "not enough traffic" or "power did not move": run the doctor
while a job runs to settle units and averaging.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpumon.doctor.measure import ClockMaker, first_of_each_model
from gpumon.hardware.reader import CardReader, CounterSample, GpmSample, NodeReader, Rings, SlowSample, WindowSample
from gpumon.model.card import Card
from gpumon.model.clock import Clock

Floats = npt.NDArray[np.float64]

_DIRECTIONS = ("rx", "tx")
_BYTE_ROUNDS = 40
# Below this a window of 20 ms holds so few bytes that its 1 KB steps and polling itself decide the ratio.
_LEAST_BYTES_PER_SECOND = 50e6
_LEAST_ROUNDS = 5

_POWER_SECONDS = 4.0
_POWER_PERIOD_S = 0.01
_SLOW_EVERY = 10  # every how many power polls the rings are drained and the averaged reading is taken
# Means over these spans of the ring are compared with a reading; the best fit says what it averages over.
_AVERAGING_SPANS_S = (0.0, 0.1, 0.25, 0.5, 1.0)
_LEAST_POWER_RANGE = 0.10  # of the mean: less movement cannot tell one span from another


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two sources over the same time: median of left / right, and over how many rounds."""

    gpu: int
    left: str
    right: str
    ratio: float  # NaN when there was too little to compare
    rounds: int
    meaning: str


@dataclass(frozen=True, slots=True)
class CounterFacts:
    """What was seen of a card's byte counters."""

    gpu: int
    bits_stated: int
    wraps_seen: int
    largest_seen: int


@dataclass(frozen=True, slots=True)
class PowerFacts:
    """How a card's power readings behave."""

    gpu: int
    instant_update_s: float  # shortest usual time between two different values of field 186
    ring_spacing_s: float
    averages_over_s: float  # of the scalar reading, by best fit with the ring; NaN when it could not be told
    means_watts: tuple[tuple[str, float], ...]  # by source, over the same seconds
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Agreement:
    """All comparisons of one node."""

    ratios: tuple[Ratio, ...] = ()
    counters: tuple[CounterFacts, ...] = ()
    power: tuple[PowerFacts, ...] = ()


def compare_sources(node: NodeReader, cards: Sequence[Card], clock: ClockMaker) -> Agreement:
    """Compare the sources of the first card of each model: about six seconds a model."""
    ratios: list[Ratio] = []
    counters: list[CounterFacts] = []
    power: list[PowerFacts] = []
    for card in first_of_each_model(cards):
        ticking = clock(card)
        reader = node.card_reader(card, ticking)
        compared, seen = compare_bytes(reader, ticking)
        ratios += compared
        counters += seen
        power.append(compare_power(reader, ticking))
    return Agreement(tuple(ratios), tuple(counters), tuple(power))


def compare_bytes(reader: CardReader, clock: Clock) -> tuple[list[Ratio], list[CounterFacts]]:
    """Take windows between counter reads, and one GPM span around all of them.

    Returns: (ratios, facts of the counters); both empty for a card with a single source.
    """
    card = reader.card
    bits = card.capabilities.counter_bits
    if not bits:
        return [], []
    modulus = 1 << bits
    totals = dict.fromkeys(_DIRECTIONS, 0)
    pairs: dict[str, list[float]] = {direction: [] for direction in _DIRECTIONS}
    wraps, largest = 0, 0
    reader.gpm()  # the start of the span; its own answer is about an earlier one
    previous = started = _counters(reader)
    for number in range(_BYTE_ROUNDS):
        direction = _DIRECTIONS[number % 2]
        window = reader.window(direction)
        now = _counters(reader)
        if isinstance(window, WindowSample) and previous and now:
            seconds = now.mono_s - previous.mono_s
            rate = _difference(previous, now, direction, modulus) / seconds if seconds > 0 else 0.0
            if min(rate, window.bytes_per_second) >= _LEAST_BYTES_PER_SECOND:
                pairs[direction].append(rate / window.bytes_per_second)
        if previous and now:
            for name in _DIRECTIONS:
                before, after = _raw(previous, name), _raw(now, name)
                totals[name] += (after - before) % modulus
                wraps += after < before
                largest = max(largest, after)
        previous = now or previous
        if not isinstance(window, WindowSample):
            clock.wait_until(clock.mono_s() + 0.02)
    ratios = [_ratio(card, f"counter {name}", f"window {name}", pairs[name]) for name in _DIRECTIONS]
    gpm = reader.gpm()
    if isinstance(gpm, GpmSample) and started and previous:
        ratios += _gpm_ratios(card, gpm, totals, previous.mono_s - started.mono_s)
    return ratios, [CounterFacts(card.identity.index, bits, wraps, largest)]


def compare_power(reader: CardReader, clock: Clock) -> PowerFacts:
    """Poll field 186, the scalar reading, the ring and the energy counter for a few seconds."""
    instant: list[tuple[float, float]] = []
    scalar: list[tuple[float, float]] = []
    energy: list[tuple[float, float]] = []
    ring: list[tuple[float, float]] = []
    reader.rings()  # what was in the ring before is of another time
    start_s = clock.mono_s()
    for number in range(int(_POWER_SECONDS / _POWER_PERIOD_S)):
        sample = reader.counters()
        if isinstance(sample, CounterSample):
            instant.append((sample.mono_s, sample.power_watts))
        if number % _SLOW_EVERY == 0:
            slow = reader.quick()
            if isinstance(slow, SlowSample):
                now_s = clock.mono_s()
                scalar.append((now_s, slow.readings.get("power_watts", math.nan)))
                energy.append((now_s, slow.readings.get("energy_joules", math.nan)))
            drained = reader.rings()
            if isinstance(drained, Rings):
                ring += zip(drained.power.t_s.tolist(), drained.power.value.tolist(), strict=True)
        if not clock.wait_until(start_s + (number + 1) * _POWER_PERIOD_S):
            break
    return _power_facts(reader.card, _series(instant), _series(scalar), _series(ring), _series(energy))


def averaging_span(reading: Floats, ring: Floats) -> float:
    """Return over how many seconds a reading averages, by best fit with the ring's samples before it.

    Args:
        reading, ring: shape (n, 2), columns time and watts.
    Returns: one of 0, 0.1, 0.25, 0.5, 1.0; NaN where power moved too little to tell.
    """
    if len(ring) < 10 or len(reading) < 10 or np.ptp(ring[:, 1]) < _LEAST_POWER_RANGE * ring[:, 1].mean():
        return math.nan
    errors = []
    for span_s in _AVERAGING_SPANS_S:
        expected = np.array([_mean_before(ring, t_s, span_s) for t_s in reading[:, 0]])
        known = ~np.isnan(expected)
        if known.sum() < 10:
            return math.nan
        errors.append(float(np.sqrt(np.mean((reading[known, 1] - expected[known]) ** 2))))
    best = int(np.argmin(errors))
    return _AVERAGING_SPANS_S[best]


def _power_facts(card: Card, instant: Floats, scalar: Floats, ring: Floats, energy: Floats) -> PowerFacts:
    span_s = averaging_span(scalar, ring)
    means = [
        (name, float(series[:, 1].mean()))
        for name, series in (("field 186", instant), ("reading", scalar), ("ring", ring))
        if len(series)
    ]
    if len(energy) > 1 and energy[-1, 0] > energy[0, 0]:
        means.append(("energy", float((energy[-1, 1] - energy[0, 1]) / (energy[-1, 0] - energy[0, 0]))))
    return PowerFacts(
        gpu=card.identity.index,
        instant_update_s=_update_period(instant),
        ring_spacing_s=float(np.median(np.diff(ring[:, 0]))) if len(ring) > 1 else math.nan,
        averages_over_s=span_s,
        means_watts=tuple(means),
        remark="power moved too little to tell what is averaged; run this while a job runs"
        if math.isnan(span_s)
        else "",
    )


def _gpm_ratios(card: Card, gpm: GpmSample, totals: dict[str, int], seconds: float) -> list[Ratio]:
    """Compare rates over nearly the same span: GPM's samples enclose the counters' reads."""
    span_s = gpm.t1_s - gpm.t0_s
    ratios = []
    for name, total in (("rx", gpm.pcie_rx_bytes), ("tx", gpm.pcie_tx_bytes)):
        counted = totals[name] / seconds if seconds > 0 else 0.0
        enough = span_s > 0 and min(counted, total / span_s) >= _LEAST_BYTES_PER_SECOND
        values = [counted / (total / span_s)] * _LEAST_ROUNDS if enough else []
        ratios.append(_ratio(card, f"counter {name}", f"gpm {name}", values))
    return ratios


def _ratio(card: Card, left: str, right: str, values: list[float]) -> Ratio:
    if len(values) < _LEAST_ROUNDS:
        return Ratio(card.identity.index, left, right, math.nan, len(values), "not enough traffic to compare")
    ratio = float(np.median(values))
    return Ratio(card.identity.index, left, right, ratio, len(values), _meaning(ratio, left, right))


def _meaning(ratio: float, left: str, right: str) -> str:
    """Say what a ratio means. 1.024 is one step of 1024 taken for 1000; one within 1 % is rounding and timing."""
    if abs(ratio - 1) <= 0.01:
        return "they agree"
    if abs(ratio - 1.024) <= 0.008:
        return f"{right} counts in 1024 bytes where 1000 was assumed"
    if abs(ratio - 1 / 1.024) <= 0.008:
        return f"{left} counts in 1024 bytes where 1000 was assumed"
    if ratio > 500 or ratio < 1 / 500:
        return "the units differ by 1000"
    return "they differ: packet headers, or traffic that changed between the reads"


def _counters(reader: CardReader) -> CounterSample | None:
    sample = reader.counters()
    if isinstance(sample, CounterSample) and sample.rx is not None and sample.tx is not None:
        return sample
    return None


def _raw(sample: CounterSample, direction: str) -> int:
    value = sample.rx if direction == "rx" else sample.tx
    return value or 0


def _difference(before: CounterSample, after: CounterSample, direction: str, modulus: int) -> int:
    return (_raw(after, direction) - _raw(before, direction)) % modulus


def _update_period(series: Floats) -> float:
    """Return the usual time between two different values, NaN when they hardly changed."""
    if len(series) < 2:
        return math.nan
    changed = series[1:, 0][np.diff(series[:, 1]) != 0]
    return float(np.median(np.diff(changed))) if len(changed) > 3 else math.nan


def _mean_before(ring: Floats, t_s: float, span_s: float) -> float:
    """Return the ring's mean over the span that ends at t_s (its newest sample for span 0), NaN when not covered."""
    end = int(np.searchsorted(ring[:, 0], t_s, side="right"))
    start = int(np.searchsorted(ring[:, 0], t_s - span_s, side="right")) if span_s else end - 1
    if end == 0 or start < 0 or (span_s and ring[0, 0] > t_s - span_s) or start >= end:
        return math.nan
    return float(ring[start:end, 1].mean())


def _series(rows: list[tuple[float, float]]) -> Floats:
    """Return the rows without missing values, shape (n, 2)."""
    array = np.array(rows, dtype=np.float64).reshape(-1, 2)
    return array[~np.isnan(array[:, 1])]
