"""docs/causes.md and docs/causes.zh.md, from the table of causes, the catalogue of findings, and the detectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpumon.analysis.findings import JOB_DETECTORS, NODE_DETECTORS
from gpumon.analysis.findings.signals import SIGNALS, Signal
from gpumon.model.causes import CAUSES, CauseKind
from gpumon.model.findings import CATALOGUE, FindingKind
from tools.reference.table import table


class _Words(NamedTuple):
    """The page's own words in one language; `at` picks a pair's."""

    at: int
    head: str
    causes: str
    causes_head: tuple[str, ...]
    findings: str
    findings_head: tuple[str, ...]
    audiences: dict[str, str]
    severities: dict[str, str]
    signals: str
    signals_head: tuple[str, ...]


_ENGLISH = _Words(
    0,
    """\
# Causes and findings

Written by `make docs` from `gpumon/model/causes.py`, `gpumon/model/findings.py` and the detectors in
`gpumon/analysis/findings`; a test compares. 中文: `causes.zh.md`.
""",
    """\
A job has one class at a time, and most classes a detail: what its cards mostly do. The verdict names the evidence and
what would prove it wrong. How each is recognised stands in `gpumon/analysis/causes`, one file for each.
""",
    ("class", "what it is", "looks like", "confused with", "what to change", "how to check"),
    """\
A finding is something that can be changed, beside the class. It is told after two to four looks, ten seconds apart,
have found it, and goes when three have not. What is asked for (the command line) and what is seen are kept apart:
evidence that rests on the command line alone says "asked for". A range of speed-ups comes from the job's own time
split.
""",
    ("finding", "severity", "for", "what is so", "what to change", "how to check", "signals it needs"),
    {"customer": "customer", "operator": "operator"},
    {"info": "info", "warning": "warning", "critical": "critical"},
    """\
Without a signal the findings that need it do not exist: there is no guess in their place.
""",
    ("signal", "what it is", "who may read it"),
)
_CHINESE = _Words(
    1,
    """\
# 原因与发现

由 `make docs` 根据 `gpumon/model/causes.py`、`gpumon/model/findings.py` 和 `gpumon/analysis/findings` 中的检测器生成，
有测试核对。English: `causes.md`。
""",
    """\
任务在任一时刻只有一个类别，多数类别带一个细分：它的显卡主要在做什么。结论会给出证据，以及什么情况能推翻它。
每种原因如何识别，写在 `gpumon/analysis/causes`，一个文件一种。
""",
    ("类别", "是什么", "看起来像", "容易混淆的", "改什么", "怎么核对"),
    """\
“发现”是类别之外可以改的东西。相隔十秒的观察连续两到四次看到才会报告，连续三次没看到就撤回。“要求的”（命令行）和“看到的”分开：
只凭命令行的证据会写明 asked for。预期加速的范围来自这个任务自己的时间分解。
""",
    ("发现", "级别", "给谁", "情况", "改什么", "怎么核对", "需要的信号"),
    {"customer": "客户", "operator": "管理员"},
    {"info": "提示", "warning": "警告", "critical": "严重"},
    """\
缺少某个信号时，需要它的发现就不存在，不会用猜测代替。
""",
    ("信号", "是什么", "谁可以读"),
)
# Findings of gpumon itself (its history) rest on none.
_NEEDS: dict[str, tuple[Signal, ...]] = {
    **{detector.finding: detector.needs for detector in JOB_DETECTORS},
    **{detector.finding: detector.needs for detector in NODE_DETECTORS},
}


def causes_page() -> str:
    """Return the page in English."""
    return _page(_ENGLISH)


def causes_page_zh() -> str:
    """Return the page in Chinese."""
    return _page(_CHINESE)


def _page(words: _Words) -> str:
    titles = ("Causes", "Findings", "Signals") if words is _ENGLISH else ("原因", "发现", "信号")
    return "\n".join(
        (
            words.head,
            f"## {titles[0]}\n\n{words.causes}\n{table(words.causes_head, _causes(words))}\n",
            f"## {titles[1]}\n\n{words.findings}\n{table(words.findings_head, _findings(words))}\n",
            f"## {titles[2]}\n\n{words.signals}\n{table(words.signals_head, _signals(words))}\n",
        )
    )


def _causes(words: _Words) -> Iterator[tuple[str, ...]]:
    for row in CAUSES:
        yield f"`{row.key}`", *_cause_texts(row, words)


def _cause_texts(row: CauseKind, words: _Words) -> tuple[str, ...]:
    return row.chinese if words.at else (row.title, row.looks, row.confused, row.advice, row.check)


def _findings(words: _Words) -> Iterator[tuple[str, ...]]:
    for row in CATALOGUE:
        needs = ", ".join(signal.name for signal in _NEEDS.get(row.finding, ()))
        texts = _finding_texts(row, words)
        yield f"`{row.finding}`", words.severities[row.severity], words.audiences[row.audience], *texts, needs


def _finding_texts(row: FindingKind, words: _Words) -> tuple[str, str, str]:
    return row.chinese if words.at else (row.title, row.advice, row.check)


def _signals(words: _Words) -> Iterator[tuple[str, ...]]:
    for signal in SIGNALS:
        yield signal.name, signal.what[words.at], signal.privilege[words.at]
