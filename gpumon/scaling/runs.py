"""A run as it is being watched: medians and means that become one row of the history."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from gpumon.analysis.time_split import Split
from gpumon.model.past import HeldFinding, Run, Shares
from gpumon.model.verdict import TIME_STATES, JobClass, TimeSplit, Verdict

# Values kept of a figure; when it is full every second one goes, so that a week is spread over them as an hour is.
KEPT = 64
HELD_SHARE = 0.5  # of a run: a finding that stood for so much of it is one of the run's
LEAST_BUSY = 0.5  # of a window: a server that idles most of the time shows too little of its work
NINE_OF_TEN = 1.64  # standard deviations: nine points of ten lie within
STANDING_STILL = (JobClass.IDLE, JobClass.HUNG)
WHOLE_WITHIN = 0.02  # of a whole multiple: what periods of one kind differ by in a steady run
_ENERGY_S = 20.0  # the shortest time over which energy makes a mean power


@dataclass(frozen=True, slots=True)
class Sampled:
    """Values of one figure, evenly spread over its time."""

    values: tuple[float, ...] = ()
    every: int = 1  # one in so many is kept
    seen: int = 0

    def add(self, value: float) -> Sampled:
        """Return the figure with one more value; NaN adds nothing."""
        if math.isnan(value):
            return self
        kept, every = self.values, self.every
        if self.seen % every == 0:
            kept = (*kept, value)
        if len(kept) >= KEPT:
            kept, every = kept[::2], every * 2
        return Sampled(kept, every, self.seen + 1)

    @property
    def median(self) -> float:
        """The middle value; NaN without one."""
        return quantile(self.values, 0.5)

    @property
    def spread(self) -> float:
        """Half the distance of the quartiles over the median; NaN without values."""
        middle = self.median
        if not middle > 0.0:
            return math.nan
        return (quantile(self.values, 0.75) - quantile(self.values, 0.25)) / 2.0 / middle


def folded(steps: Sampled) -> Sampled:
    """Return a run's periods, those that are a whole multiple or part of the middle one brought to its length.

    Seen from outside a period is the optimizer's step in one window and one of its micro-batches in the next. Which of
    the two the middle one is cannot be known from one run.
    """
    if not steps.values:
        return steps
    middle = sorted(steps.values)[len(steps.values) // 2]
    return replace(steps, values=tuple(_brought_to(middle, value) for value in steps.values))


def _brought_to(middle: float, value: float) -> float:
    times = max(value / middle, middle / value)
    whole = round(times)
    if abs(times / whole - 1.0) > WHOLE_WITHIN:
        return value
    return value / whole if value > middle else value * whole


def quantile(values: tuple[float, ...], q: float) -> float:
    """Return the q-quantile, linear between neighbours; NaN for no values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True)
class Watched:
    """One run and the sums behind its figures."""

    run: Run
    steps: Sampled = field(default_factory=Sampled)
    throughput: Sampled = field(default_factory=Sampled)
    split_seconds: Mapping[str, float] = field(default_factory=dict)  # by state
    split_s: float = 0.0
    uncertainty_s: float = 0.0  # integral of the split's uncertainty
    share_seconds: tuple[float, ...] = ()  # integrals of the fields of Shares
    shares_s: float = 0.0
    class_s: Mapping[str, float] = field(default_factory=dict)
    held_s: Mapping[str, float] = field(default_factory=dict)  # by finding
    gains: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # the newest promised, by finding
    energy_from: float = math.nan  # joules when the run began
    energy_to: float = math.nan
    energy_s: float = 0.0


def extend(
    watched: Watched, verdict: Verdict, split: Split | None, *, span_s: float, wall_s: float, energy_joules: float
) -> Watched:
    """Return the run after one more look at it.

    Args:
        split: the whole of it, whose sums are known even where its parts cannot be told apart.
        span_s: time since the last look.
        energy_joules: cumulative energy of the job; NaN where it is not known.
    """
    kind = verdict.job_class
    ticking = replace(watched, run=replace(watched.run, end_wall_s=wall_s))
    if kind in STANDING_STILL:
        return replace(ticking, energy_from=energy_joules, energy_to=energy_joules, energy_s=0.0)
    class_s = {**watched.class_s, kind.value: watched.class_s.get(kind.value, 0.0) + span_s}
    ticking = replace(
        ticking,
        steps=watched.steps.add(verdict.step_seconds),
        class_s=class_s,
        held_s={
            **watched.held_s,
            **{one.finding: watched.held_s.get(one.finding, 0.0) + span_s for one in verdict.findings},
        },
        gains={
            **watched.gains,
            **{one.finding: one.gain for one in verdict.findings if one.gain is not None},
        },
    )
    if verdict.time_split is not None:
        ticking = replace(
            ticking,
            split_seconds={
                state: watched.split_seconds.get(state, 0.0) + span_s * getattr(verdict.time_split, state)
                for state in TIME_STATES
            },
            split_s=watched.split_s + span_s,
            uncertainty_s=watched.uncertainty_s + span_s * verdict.time_split.uncertainty,
        )
    shares = None if split is None else shares_of(split)
    if shares is not None:
        before = watched.share_seconds or (0.0,) * len(fields(Shares))
        values = [getattr(shares, item.name) for item in fields(Shares)]
        ticking = replace(
            ticking,
            share_seconds=tuple(sum_s + span_s * value for sum_s, value in zip(before, values, strict=True)),
            shares_s=watched.shares_s + span_s,
        )
    if math.isnan(watched.energy_from):
        ticking = replace(ticking, energy_from=energy_joules, energy_to=energy_joules, energy_s=0.0)
    else:
        ticking = replace(ticking, energy_to=energy_joules, energy_s=watched.energy_s + span_s)
    return replace(ticking, run=_figures(ticking, span_s))


def _figures(watched: Watched, span_s: float) -> Run:
    """Return the run with its figures worked out anew."""
    split = None
    if watched.split_s > 0.0:
        means = {state: seconds / watched.split_s for state, seconds in watched.split_seconds.items()}
        split = TimeSplit(**means, uncertainty=watched.uncertainty_s / watched.split_s)
    steps = folded(watched.steps)
    step_s = steps.median
    joules = math.nan
    if watched.energy_s >= _ENERGY_S:
        joules = (watched.energy_to - watched.energy_from) / watched.energy_s * step_s
    watched_s = watched.run.watched_s + span_s
    known = {kind: s for kind, s in watched.class_s.items() if kind != JobClass.UNKNOWN.value}
    return replace(
        watched.run,
        watched_s=watched_s,
        step_s=step_s,
        step_spread=steps.spread,
        split=split,
        shares=Shares(*(sum_s / watched.shares_s for sum_s in watched.share_seconds)) if watched.shares_s else None,
        energy_joules_per_step=joules,
        job_class=max(known, key=lambda kind: known[kind]) if known else JobClass.UNKNOWN.value,
        findings=tuple(
            HeldFinding(name, watched.gains.get(name))
            for name, held_s in sorted(watched.held_s.items())
            if held_s > 0.0 and held_s >= HELD_SHARE * watched_s
        ),
    )


def shares_of(split: Split) -> Shares | None:
    """Return where a window's time goes; None where the job hardly had work in it."""
    states, weights = split.shares, split.weights
    busy = 1.0 - states["idle"]
    if float(weights @ busy) < LEAST_BUSY:
        return None
    works = (states["compute"] + states["overlap"] + states["memory"]) / busy
    own = float(weights @ works)
    others = ("host_wait", "communication", "peer_wait", "overlap", "memory")
    host, exchange, waiting, hidden, memory = (float(weights @ (states[name] / busy)) for name in others)
    width = NINE_OF_TEN * math.sqrt(float(weights @ (works - own) ** 2))
    return Shares(own, host, exchange, waiting, hidden, memory, width)


def report(watched: Watched, rate: float, unit: str) -> Watched:
    """Return the run with one more reported rate; another unit than before begins anew."""
    said = (watched.throughput if watched.run.unit == unit else Sampled()).add(rate)
    run = replace(watched.run, unit=unit, throughput=said.median, throughput_spread=said.spread)
    return replace(watched, throughput=said, run=run)
