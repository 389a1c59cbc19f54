"""An answer as one self-contained page: tiles that answer the five questions, two pictures, then the tables."""

from __future__ import annotations

from html import escape

from gpumon.plan.answer import Plan
from gpumon.plan.chart import memory_chart, scaling_chart
from gpumon.plan.signals import signals
from gpumon.plan.tables_view import Table, notes, tables, title
from gpumon.plan.verdict import Sentence, remedy_texts, signal_text, verdict
from gpumon.plan.wording import Language

QUESTIONS = {
    "fit": ("Does it fit?", "装得下吗？"),
    "layout": ("Which layout?", "怎么切分？"),
    "cards": ("How many cards?", "租几张卡？"),
    "worth": ("What do you get?", "值不值？"),
    "stream": ("One user alone?", "单个用户？"),
    "platform": ("NVLink machine?", "要 NVLink 机器吗？"),
}
HEADINGS = {
    "change": ("What to change", "建议"),
    "scaling": ("What you pay for, and the work you get", "付几张卡的钱，得到几张卡的算力"),
    "memory": ("What fills the fullest card", "最满的一张卡上有什么"),
    "signals": ("Signals for an NVLink platform", "需要 NVLink 平台的信号"),
    "basis": ("What this rests on", "计算依据"),
}
LEGEND = (
    "Bars: the work you get, in cards. Thin lines: the range. Dashes: the cards you pay for.",
    "柱：得到的算力（折合张数）；细线：范围；虚线：付费的卡数。",
)
# No script, no font, no picture from anywhere: the page works from a file, offline.
STYLE = """
:root{color-scheme:light}
body{margin:0;background:#f4f6f9;color:#1c2430;font:15px/1.5 system-ui,"Noto Sans CJK SC","PingFang SC",sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:24px;line-height:1.25;margin:0 0 18px}
h2{font-size:17px;margin:0 0 10px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(160px,1fr));gap:12px;margin-bottom:18px}
.tile{background:#fff;border-radius:10px;padding:14px 16px;border-top:6px solid var(--c);box-shadow:0 1px 3px #1c243022}
.tile span{display:block;color:#5a6473;font-size:13px}
.tile strong{display:block;font-size:21px;line-height:1.2;margin:3px 0 6px;color:var(--c)}
.tile p{margin:0;font-size:13px}
.good{--c:#1f8a4c}.caution{--c:#a86400}.bad{--c:#c0392b}
section{background:#fff;border-radius:10px;padding:18px 20px;margin-bottom:16px;overflow-x:auto}
section{box-shadow:0 1px 3px #1c243022}
svg{width:100%;height:auto;display:block}
ol{margin:0;padding-left:22px}li{margin-bottom:4px}
.legend{color:#5a6473;font-size:13px;margin:6px 0 0}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:5px 10px;text-align:right;border-bottom:1px solid #e7eaf0;white-space:nowrap}
th{color:#5a6473;font-weight:600}
td:first-child,th:first-child,.words{text-align:left}
tr.marked td{background:#eef4ff;font-weight:600}
"""


def page(answer: Plan, language: Language) -> str:
    """Return a whole HTML document."""
    pick = 0 if language == "en" else 1
    headline = title(answer.request)
    sections = [
        f'<div class="tiles">{"".join(_tile(group, pick) for group in _grouped(verdict(answer, language)))}</div>',
        _changes(answer, language, pick),
        _section(HEADINGS["scaling"][pick], scaling_chart(answer, language) + f'<p class="legend">{LEGEND[pick]}</p>'),
        _section(HEADINGS["memory"][pick], memory_chart(answer, language)),
    ]
    if not any(point.memory.fits for point in answer.points):
        del sections[2]
    sections += [_section(table.title, _table(table)) for table in tables(answer, language)]
    sections.append(_section(HEADINGS["signals"][pick], _signals(answer, language)))
    sections.append(_section(HEADINGS["basis"][pick], _list("ul", [escape(note) for note in notes(answer)])))
    code = "en" if language == "en" else "zh-CN"
    return (
        f'<!doctype html>\n<html lang="{code}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>gpumon plan: {escape(headline)}</title><style>{STYLE}</style></head>"
        f"<body><main><h1>{escape(headline)}</h1>\n{chr(10).join(sections)}\n</main></body></html>\n"
    )


def _grouped(sentences: tuple[Sentence, ...]) -> list[list[Sentence]]:
    """Return the sentences of each subject together, in order."""
    subjects = list(dict.fromkeys(sentence.subject for sentence in sentences))
    return [[sentence for sentence in sentences if sentence.subject == subject] for subject in subjects]


def _tile(sentences: list[Sentence], pick: int) -> str:
    first = sentences[0]
    text = " ".join(sentence.text for sentence in sentences)
    return (
        f'<div class="tile {first.level}"><span>{QUESTIONS[first.subject][pick]}</span>'
        f"<strong>{escape(first.short)}</strong><p>{escape(text)}</p></div>"
    )


def _changes(answer: Plan, language: Language, pick: int) -> str:
    texts = [escape(text) for _, text in remedy_texts(answer, language)]
    return _section(HEADINGS["change"][pick], _list("ol", texts)) if texts else ""


def _signals(answer: Plan, language: Language) -> str:
    words = {True: ("Yes", "是"), False: ("No", "否")}
    pick = 0 if language == "en" else 1
    return _list(
        "ul",
        [
            f"<strong>{words[signal.applies][pick]}</strong> {escape(signal_text(answer, signal, language))}"
            for signal in signals(answer)
        ],
    )


def _table(table: Table) -> str:
    words = [index for index, name in enumerate(table.head) if name in ("layout", "fits", "way", "for each")]

    def cells(row: tuple[str, ...], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=words' if index in words else ''}>{escape(cell)}</{tag}>" for index, cell in enumerate(row)
        )

    body = "".join(
        f"<tr{' class=marked' if index == table.marked else ''}>{cells(row, 'td')}</tr>"
        for index, row in enumerate(table.rows)
    )
    return f"<table><thead><tr>{cells(table.head, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def _list(tag: str, items: list[str]) -> str:
    return f"<{tag}>{''.join(f'<li>{item}</li>' for item in items)}</{tag}>"


def _section(heading: str, content: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>{content}</section>"
