"""Inline SVG for the HTML report: shares, classes and links over time. No script and no style attribute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from gpumon.model.verdict import TIME_STATES
from gpumon.ui import words
from gpumon.ui.phrases import class_name, duration
from gpumon.ui.state_json import IntervalState

_WIDTH = 1000
_LINES_HEIGHT = 100


def shares_chart(t_s: Sequence[float], shares: Sequence[tuple[float, ...]]) -> str:
    """Return the time split stacked to 100 % over time; what could not be told stays empty.

    Args:
        t_s: seconds, ascending.
        shares: one row a point, in the order of TIME_STATES; NaN where not known.
    """
    runs = _runs([not math.isnan(row[0]) for row in shares])
    paths = []
    for column, state in enumerate(TIME_STATES):
        path = ""
        for run in runs:
            top = [(_x(t_s, i), 1 - sum(shares[i][: column + 1])) for i in run]
            bottom = [(_x(t_s, i), 1 - sum(shares[i][:column])) for i in reversed(run)]
            path += "M" + "L".join(f"{x:.1f},{100 * max(y, 0.0):.2f}" for x, y in top + bottom) + "Z"
        if path:
            paths.append(f'<path class="s-{state}" d="{path}"/>')
    return _svg("area", 100, "Where the time went, over time", paths) + _axis(t_s)


def classes_chart(intervals: Sequence[IntervalState], span_s: float) -> str:
    """Return a strip of the classes over time."""
    strips = []
    for found in intervals:
        x, width = (_WIDTH * seconds / max(span_s, 1e-9) for seconds in (found.t0, found.t1 - found.t0))
        label = f"{duration(found.t0)} to {duration(found.t1)}: {class_name(found.job_class, found.detail)}"
        strips.append(
            f'<rect class="strip c-{found.job_class}" x="{x:.1f}" y="0" width="{max(width, 1.0):.1f}" height="20">'
            f"<title>{escape(label)}</title></rect>"
        )
    said = ", ".join(dict.fromkeys(words.CLASSES[found.job_class].en for found in intervals))
    return _svg("strips", 20, f"Verdict over time: {said}", strips)


def links_chart(t_s: Sequence[float], links: Sequence[Sequence[tuple[float, float]]]) -> str:
    """Return the saturation of some cards' links over time, both directions, 0 at the bottom and 1 at the top."""
    lines = []
    for card in links:
        for column, name in enumerate(("in", "out")):
            path = ""
            for run in _runs([not math.isnan(point[column]) for point in card]):
                points = ((_x(t_s, i), _LINES_HEIGHT * (1 - min(card[i][column], 1.0))) for i in run)
                path += "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
            if path:
                lines.append(f'<path class="{name}" d="{path}"/>')
    return _svg("spark tall", _LINES_HEIGHT, "Links against what they can carry, over time", lines) + _axis(t_s)


def _runs(present: Sequence[bool]) -> list[list[int]]:
    """Return the stretches of neighbouring points that are known and longer than one."""
    runs: list[list[int]] = [[]]
    for number, known in enumerate(present):
        if known:
            runs[-1].append(number)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _x(t_s: Sequence[float], number: int) -> float:
    return _WIDTH * (t_s[number] - t_s[0]) / max(t_s[-1] - t_s[0], 1e-9)


def _axis(t_s: Sequence[float]) -> str:
    return f'<div class="axis"><span>0</span><span>{duration(t_s[-1] - t_s[0])}</span></div>'


def _svg(kind: str, height: int, label: str, parts: list[str]) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {_WIDTH} {height}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
