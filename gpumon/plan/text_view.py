"""An answer for the terminal: the verdict first, then what to do, then the tables it rests on."""

from __future__ import annotations

import unicodedata

from gpumon.plan.answer import Plan
from gpumon.plan.signals import signals
from gpumon.plan.tables_view import Table, notes, tables, title
from gpumon.plan.verdict import remedy_texts, signal_text, verdict
from gpumon.plan.wording import Language

MARKS = {"good": "[ok]", "caution": "[! ]", "bad": "[NO]"}
WIDTH = 110


def text(answer: Plan, language: Language) -> str:
    """Return the whole answer as plain text, at most 110 columns wide where tables allow."""
    lines = [title(answer.request), ""]
    for sentence in verdict(answer, language):
        lines += _wrapped(f"{MARKS[sentence.level]} {sentence.text}", 5)
    remedies = remedy_texts(answer, language)
    if remedies:
        lines += ["", "What to change" if language == "en" else "建议"]
        for number, (_, sentence_text) in enumerate(remedies, 1):
            lines += _wrapped(f"  {number}. {sentence_text}", 5)
    for table in tables(answer, language):
        lines += ["", table.title, *_table(table)]
    lines += ["", "Signals for an NVLink platform"]
    for signal in signals(answer):
        lines.append(f"  {'yes' if signal.applies else 'no ':<3} {signal_text(answer, signal, language)}")
    lines += ["", "What this rests on"]
    for note in notes(answer):
        lines += _wrapped(f"  - {note}", 4)
    return "\n".join(lines) + "\n"


def _table(table: Table) -> list[str]:
    rows = [table.head, *table.rows]
    widths = [max(_width(row[column]) for row in rows) for column in range(len(table.head))]
    lines = []
    for index, row in enumerate(rows):
        cells = [_left(row[0], widths[0]), *(_cell(table, row, column, widths) for column in range(1, len(row)))]
        mark = "> " if table.marked is not None and index == table.marked + 1 else "  "
        lines.append((mark + "  ".join(cells)).rstrip())
    return lines


def _cell(table: Table, row: tuple[str, ...], column: int, widths: list[int]) -> str:
    """Figures stand to the right, words to the left."""
    words = table.head[column] in ("layout", "fits", "way", "for each")
    return _left(row[column], widths[column]) if words else " " * (widths[column] - _width(row[column])) + row[column]


def _left(word: str, width: int) -> str:
    return word + " " * (width - _width(word))


def _width(word: str) -> int:
    """Return terminal columns: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in word)


def _wrapped(sentence: str, indent: int) -> list[str]:
    """Break at blanks; text without blanks (Chinese) is left to the terminal."""
    lines, line = [], ""
    for word in sentence.split(" "):
        if line and _width(line) + 1 + _width(word) > WIDTH and line.strip():
            lines.append(line)
            line = " " * indent + word
        else:
            line = f"{line} {word}" if line or word == "" else word
    return [*lines, line]
