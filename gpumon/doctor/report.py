"""The doctor's answer as text for a person or a bug report, and as a document for a program."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from gpumon.doctor.agreement import Agreement
from gpumon.doctor.examination import Examination
from gpumon.doctor.measure import CallCost, CardCosts, Overlap
from gpumon.doctor.result import Level, Result

_COLUMNS = 110
_VERDICTS = {
    "overlap": "they overlap",
    "queue": "they queue in the driver",
    "partly": "they overlap in part",
    "unknown": "not measured",
}


@dataclass(frozen=True, slots=True)
class Measurements:
    """What was measured on the node."""

    costs: tuple[CardCosts, ...] = ()
    driver_calls: tuple[CardCosts, ...] = ()  # none on a simulated node
    overlap: tuple[Overlap, ...] = ()
    agreement: Agreement = field(default_factory=Agreement)


def text(examination: Examination, results: Sequence[Result], measurements: Measurements | None) -> str:
    """Return the checks, then the tables of what was measured."""
    sections = [_head(examination), _checks(results)]
    if measurements is not None:
        sections += _tables(examination, measurements)
    sections.append(_summary(results))
    return "\n\n".join(section for section in sections if section) + "\n"


def document(
    examination: Examination, results: Sequence[Result], measurements: Measurements | None
) -> dict[str, object]:
    """Return the same for a program; missing numbers are null."""
    facts = examination.facts
    answer: dict[str, object] = {
        "schema": 1,
        "node": {
            "hostname": facts.hostname,
            "kernel": facts.kernel,
            "driver_version": facts.driver_version,
            "standing": facts.standing,
            "virtualization": facts.virtualization,
            "simulated": facts.simulated,
            "versions": dict(examination.distributions),
        },
        "checks": [
            {"check": row.check, "level": row.level.value, "sentence": row.sentence, "remedy": row.remedy or None}
            for row in results
        ],
    }
    if measurements is not None:
        answer["measured"] = _without_nan(asdict(measurements))
    return answer


def _head(examination: Examination) -> str:
    facts = examination.facts
    versions = ", ".join(f"{name} {version}" for name, version in examination.distributions.items())
    return "\n".join(
        [
            f"gpumon doctor on {facts.hostname or 'this node'}",
            f"kernel {facts.kernel or 'unknown'}, driver {facts.driver_version or 'none'}, "
            f"{facts.standing} ({facts.virtualization or 'unknown'}), {facts.cpu_count} CPUs",
            versions,
        ]
    )


def _checks(results: Sequence[Result]) -> str:
    width = max((len(row.check) for row in results), default=0)
    indent = " " * (width + 8)
    lines = []
    for row in results:
        lines += _wrapped(row.sentence, f"{row.level.value}  {row.check.ljust(width)}  ", indent)
        if row.remedy:
            lines += _wrapped(row.remedy, f"{indent}-> ", f"{indent}   ")
    return "\n".join(lines)


def _wrapped(sentence: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        sentence, _COLUMNS, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _summary(results: Sequence[Result]) -> str:
    counts = {level: sum(row.level is level for row in results) for level in Level}
    return f"{counts[Level.FAIL]} failed, {counts[Level.WARN]} to look at, {counts[Level.PASS]} fine."


def _tables(examination: Examination, measurements: Measurements) -> Iterable[str]:
    yield (
        f"Measured on this node. Opening the driver took {_time(examination.open_s)}, "
        f"reading the topology {_time(examination.topology_s)}."
    )
    for card in measurements.costs:
        rows = [["call", "median", "p95", "n", "asks the driver for"], *map(_cost_row, card.costs)]
        yield f"Cost of a reader's calls, card {card.gpu} ({card.name}):\n{_table(rows)}"
    for card in measurements.driver_calls:
        rows = [["call", "median", "p95", "n"], *(_cost_row(cost)[:-1] for cost in card.costs)]
        yield f"Cost of single driver calls, card {card.gpu} ({card.name}):\n{_table(rows)}"
    if measurements.overlap:
        rows = [["windows at once", "callers", "alone", "together", "so"]]
        rows += [
            [row.what, str(row.callers), _time(row.alone_s), _time(row.together_s), _VERDICTS[row.verdict]]
            for row in measurements.overlap
        ]
        yield f"Overlap of 20 ms windows:\n{_table(rows)}"
    yield from _agreement(measurements.agreement)


def _agreement(agreement: Agreement) -> Iterable[str]:
    if agreement.ratios:
        rows = [["card", "compared", "ratio", "n", "meaning"]]
        rows += [
            [str(row.gpu), f"{row.left} / {row.right}", _number(row.ratio, ".4f"), str(row.rounds), row.meaning]
            for row in agreement.ratios
        ]
        yield f"Link bytes, one source against another:\n{_table(rows)}"
    if agreement.counters:
        rows = [["card", "bits stated", "wraps seen", "largest value seen"]]
        rows += [
            [str(row.gpu), str(row.bits_stated), str(row.wraps_seen), f"{row.largest_seen:,}"]
            for row in agreement.counters
        ]
        yield f"Byte counters:\n{_table(rows)}"
    if agreement.power:
        rows = [["card", "field 186 changes every", "ring spacing", "reading averages over", "mean by source"]]
        rows += [
            [
                str(row.gpu),
                _time(row.instant_update_s),
                _time(row.ring_spacing_s),
                row.remark or _span(row.averages_over_s),
                ", ".join(f"{name} {watts:.1f} W" for name, watts in row.means_watts) or "-",
            ]
            for row in agreement.power
        ]
        yield f"Power:\n{_table(rows)}"


def _cost_row(cost: CallCost) -> list[str]:
    if cost.fault:
        return [cost.call, cost.fault, "-", "-", cost.driver_calls]
    return [cost.call, _time(cost.median_s), _time(cost.p95_s), str(cost.count), cost.driver_calls]


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns, the first row being the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _time(seconds: float) -> str:
    """Return a duration in the unit that fits it, "-" when missing."""
    if math.isnan(seconds):
        return "-"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def _span(seconds: float) -> str:
    return _time(seconds) if seconds else "nothing: it is the present value"


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _without_nan(value: object) -> object:
    """Return the value with NaN as None, in containers too."""
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value
