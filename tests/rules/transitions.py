"""Random but healthy lives of jobs, as a scraper sees them: what must never reach a customer.

False alarms come from transitions, not from hours of steady work. Each life is about 80 minutes long and holds one
transition of a known kind, with verdicts that waver, scrapes that are missed, and counters that begin anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.rules.unit import CLASSES, Unit

SCRAPE_S = 30
SCRAPES = 160
Classes: TypeAlias = list[str]


@dataclass
class Life:
    """A job's verdict at each scrape ("" before it starts and after it ends), and what happened to the scrapes."""

    classes: Classes
    missed: set[int] = field(default_factory=set)
    restarts: set[int] = field(default_factory=set)  # gpumon began anew before these scrapes
    resized: int = -1  # from this scrape on it is another job


def _minutes(dice: random.Random, low: float, high: float) -> int:
    return max(1, round(dice.uniform(low, high) * 60 / SCRAPE_S))


def _busy(dice: random.Random) -> str:
    return dice.choice(["compute", "compute", "memory"])


def _then(*parts: tuple[str, int]) -> Classes:
    classes = [job_class for job_class, count in parts for _ in range(count)]
    return (classes + [classes[-1]] * SCRAPES)[:SCRAPES]


def _start(dice: random.Random) -> Life:
    """A container, a model that is loaded, a first epoch that fills the cache of the disk, then work."""
    parts = [("", _minutes(dice, 0, 5)), ("unknown", 1), ("idle", _minutes(dice, 0, 12))]
    return Life(_then(*parts, ("host", _minutes(dice, 0.5, 8)), ("unknown", 1), (_busy(dice), 1)))


def _end(dice: random.Random) -> Life:
    """Work, a last checkpoint, and gone."""
    parts = [(_busy(dice), _minutes(dice, 10, 60)), ("host", _minutes(dice, 0, 8)), ("idle", _minutes(dice, 0, 5))]
    return Life(_then(*parts, ("", 1)))


def _resize(dice: random.Random) -> Life:
    """The same work stops and starts anew on other cards, as another job."""
    before = _minutes(dice, 10, 40)
    pause = _minutes(dice, 0.5, 4)
    load = _minutes(dice, 1, 6)
    classes = _then((_busy(dice), before), ("", pause), ("unknown", 1), ("host", load), (_busy(dice), 1))
    return Life(classes, resized=before + pause)


def _checkpoint(dice: random.Random) -> Life:
    """Checkpoints of one to eight minutes, with at least twice as much work between them."""
    work, classes = _busy(dice), []
    while len(classes) < SCRAPES:
        save = _minutes(dice, 1, 8)
        classes += [work] * (2 * save + _minutes(dice, 1, 20)) + ["host"] * save
    return Life(classes[:SCRAPES])


def _evaluation(dice: random.Random) -> Life:
    """An evaluation that gathers results over the links and reads other data, every quarter of an hour or rarer."""
    work, classes = _busy(dice), []
    while len(classes) < SCRAPES:
        classes += [work] * _minutes(dice, 15, 30)
        classes += [dice.choice(["communication", "host", "idle", work]) for _ in range(_minutes(dice, 1, 8))]
    return Life(classes[:SCRAPES])


def _lull(dice: random.Random) -> Life:
    """A server without a question for up to three quarters of an hour."""
    before, lull = _minutes(dice, 5, 20), _minutes(dice, 5, 45)
    return Life(_then((_busy(dice), before), ("idle", lull), (_busy(dice), 1)))


def _gpumon_restart(dice: random.Random) -> Life:
    """gpumon is updated: a few scrapes missed, counters from zero, a minute without a verdict."""
    life = Life(_then((_busy(dice), 1)))
    at = dice.randrange(20, SCRAPES - 20)
    life.restarts.add(at)
    life.missed |= set(range(at - dice.randrange(1, 4), at))
    life.classes[at : at + 2] = ["unknown"] * 2
    return life


def _prometheus_restart(dice: random.Random) -> Life:
    """Prometheus sees nothing for a while; the job goes on."""
    life = Life(_then((_busy(dice), 1)))
    at = dice.randrange(20, SCRAPES - 40)
    life.missed |= set(range(at, at + dice.randrange(4, 24)))
    return life


def _missed_scrapes(dice: random.Random) -> Life:
    """A network that loses one scrape in seven."""
    life = Life(_then((_busy(dice), 1)))
    life.missed |= {n for n in range(SCRAPES) if dice.random() < 1 / 7}
    return life


KINDS: Mapping[str, Callable[[random.Random], Life]] = {
    "start": _start,
    "end": _end,
    "resize": _resize,
    "checkpoint": _checkpoint,
    "evaluation": _evaluation,
    "lull": _lull,
    "gpumon restart": _gpumon_restart,
    "prometheus restart": _prometheus_restart,
    "missed scrapes": _missed_scrapes,
}


def add_life(unit: Unit, seed: int) -> None:
    """Add the series of one job that lives through one transition, on a node of its own."""
    dice = random.Random(seed)
    kind = list(KINDS)[seed % len(KINDS)]
    life = KINDS[kind](dice)
    for n, job_class in enumerate(life.classes):
        if job_class and dice.random() < 0.05:  # a verdict that wavers
            life.classes[n] = dice.choice(CLASSES)
    node = {"instance": f"{kind} {seed}"}
    if life.resized < 0:
        _add_job(unit, dice, life, {**node, "gpu_job": "container:a", "tenant": "acme"}, range(SCRAPES))
    else:
        before, after = range(life.resized), range(life.resized, SCRAPES)
        _add_job(unit, dice, life, {**node, "gpu_job": "container:a", "tenant": "acme"}, before)
        _add_job(unit, dice, life, {**node, "gpu_job": "container:b", "tenant": "acme"}, after)


def _add_job(unit: Unit, dice: random.Random, life: Life, labels: Mapping[str, str], span: range) -> None:
    counters: dict[str, list[float | None]] = {name: [] for name in CLASSES}
    states: dict[str, list[float | None]] = {name: [] for name in CLASSES}
    running: list[float | None] = []
    totals, ended = dict.fromkeys(CLASSES, 0.0), 0
    for n in range(SCRAPES):
        job_class = life.classes[n] if n in span else ""
        if n in life.restarts:
            totals = dict.fromkeys(CLASSES, 0.0)
        if job_class:
            totals[job_class] += SCRAPE_S
            ended = 0
        else:
            ended += 1
        counted = any(totals.values()) and ended <= 300 / SCRAPE_S and n not in life.missed
        for name in CLASSES:
            counters[name].append(totals[name] if counted else None)
            states[name].append(float(name == job_class) if job_class and n not in life.missed else None)
        running.append(1.0 if job_class and n not in life.missed else None)
    for name in CLASSES:
        unit.sample("gpumon_job_bottleneck_seconds_total", counters[name], {**labels, "class": name})
        unit.sample("gpumon_job_bottleneck", states[name], {**labels, "class": name})

    def flickers(share: float, rest: float | None) -> list[float | None]:
        return [None if one is None else (1.0 if dice.random() < share else rest) for one in running]

    unit.sample("gpumon_job_gpus", [None if one is None else 4.0 for one in running], labels)
    unit.sample("gpumon_job_gpus_lost", [None if one is None else 0.0 for one in running], labels)
    unit.sample("gpumon_job_add_gpu_slowdown", flickers(0.1, 0.0), labels)
    unit.sample("gpumon_job_straggler", flickers(0.2, 0.0), {**labels, "gpu": "0", "uuid": "GPU-0"})
    finding = {"finding": "no_accumulation", "severity": "warning", "audience": "customer"}
    unit.sample("gpumon_job_finding", flickers(0.2, None), {**labels, **finding})
