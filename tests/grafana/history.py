"""Days of scrapes that never happened: pages of simulated nodes, put on a time axis, as text that promtool imports.

A minute or two of simulated time is repeated over a span. Gauges are taken as they are; a counter goes on growing at
the rate it had, so rates over any range are those of the simulation. Unix times in values move with the sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpumon import config
from gpumon.export.publish import Publisher
from gpumon.hardware.simulated.node import SimulatedNode
from gpumon.pipeline import initial_state, step
from gpumon.sampling.simulated_time import ticks

TENANTS = """
[[tenant]]
id = "acme"
[[tenant]]
id = "globex"
[[tenant]]
id = "initech"

[[rule]]
tenant = "acme"
container_label = "tenant=acme"
[[rule]]
tenant = "acme"
container_label = "tenant=a"
[[rule]]
tenant = "globex"
container_label = "tenant=b"
[[rule]]
tenant = "initech"
container_label = "tenant=c"
[[rule]]
tenant = "globex"
unix_user = "linus"
[[rule]]
tenant = "initech"
unix_user = "ada"
"""
# Simulated seconds between two pages that are kept.
PAGE_STEP_S = 5

Page = dict[str, float]  # series with its labels -> value


@dataclass(frozen=True, slots=True)
class Phase:
    """What a node does for a while: a scenario, the window of its simulated time that is repeated, and until when."""

    scenario: str
    from_s: int = 40
    to_s: int = 100
    until_s: float = 0.0  # seconds before the end


@dataclass(frozen=True, slots=True)
class Node:
    """One target of the made-up scrapes."""

    instance: str
    phases: tuple[Phase, ...]  # in order of time


@dataclass(frozen=True, slots=True)
class Span:
    """Sample times before the end: from so many seconds before, one every so many seconds."""

    since_s: float
    every_s: float


def times(end_s: float, spans: Sequence[Span]) -> list[float]:
    """Return the sample times of spans that follow each other, ascending; the last is the end."""
    found: list[float] = []
    for number, span in enumerate(spans):
        until_s = spans[number + 1].since_s if number + 1 < len(spans) else 0.0
        count = int((span.since_s - until_s) / span.every_s)
        found += [end_s - span.since_s + place * span.every_s for place in range(count)]
    return [*found, end_s]


def simulate(scenario: str, seconds: int, tenants: Path) -> list[tuple[float, Page]]:
    """Return (wall time, page) of each PAGE_STEP_S of a scenario."""
    settings = config.load(str(tenants), {}).settings
    node = SimulatedNode(scenario)
    state, publisher, pages = initial_state(), Publisher(256), []
    for number, tick in enumerate(ticks(node, node, settings.sampling, seconds), start=1):
        state = step(state, tick, settings)
        if number % PAGE_STEP_S == 0 and state.view is not None:
            text = publisher.publish(state.view, {}).pages.text.decode()
            pages.append((state.view.wall_s, dict(_series(text))))
    return pages


def lines(node: Node, pages: dict[str, list[tuple[float, Page]]], at: Sequence[float]) -> Iterator[str]:
    """Yield `series value time` of a node's scrapes at these times.

    Args:
        pages: those of each scenario from its beginning.
    """
    end_s = at[-1]
    totals: dict[str, float] = {}
    before_s = at[0]
    for phase in node.phases:
        window = [
            page for page in pages[phase.scenario] if phase.from_s <= page[0] - _start(pages, phase) <= phase.to_s
        ]
        mine = [moment for moment in at if before_s <= moment <= end_s - phase.until_s]
        yield from _of_phase(node.instance, window, mine, totals)
        if mine:
            before_s = mine[-1] + 0.001


def written(path: Path, samples: Iterable[str]) -> Path:
    """Write an OpenMetrics file."""
    with path.open("w", encoding="utf-8") as file:
        while chunk := list(itertools.islice(samples, 20000)):
            file.write("\n".join(chunk) + "\n")
        file.write("# EOF\n")
    return path


def _start(pages: dict[str, list[tuple[float, Page]]], phase: Phase) -> float:
    return pages[phase.scenario][0][0] - PAGE_STEP_S


def _of_phase(
    instance: str, window: list[tuple[float, Page]], at: Sequence[float], totals: dict[str, float]
) -> Iterator[str]:
    labelled: dict[str, str] = {}
    last_s = at[0] if at else 0.0
    for number, moment in enumerate(at):
        place = number % len(window)
        wall_s, page = window[place]
        # How fast it grows: up to the next page, or, at the window's end, since the last.
        older, newer = (page, window[place + 1][1]) if place + 1 < len(window) else (window[place - 1][1], page)
        for series, value in page.items():
            name = labelled.get(series)
            if name is None:
                name = labelled[series] = _at(instance, series)
            metric = series.partition("{")[0]
            if metric.endswith("_total"):
                grown = max(0.0, newer.get(series, value) - older.get(series, value)) / PAGE_STEP_S
                total = totals[series] = totals.get(series, value) + grown * (moment - last_s)
                shown = total
            elif metric.endswith(("timestamp_seconds", "start_time_seconds")):
                shown = value + moment - wall_s
            else:
                shown = value
            yield f"{name} {shown!r} {moment:.3f}"
        yield f'up{{instance="{instance}",job="gpumon"}} 1 {moment:.3f}'
        yield f'scrape_duration_seconds{{instance="{instance}",job="gpumon"}} 0.004 {moment:.3f}'
        last_s = moment


def _series(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            yield series, float(value)


def _at(instance: str, series: str) -> str:
    name, _, labels = series.partition("{")
    target = f'instance="{instance}",job="gpumon"'
    return f"{name}{{{target},{labels}" if labels else f"{name}{{{target}}}"
