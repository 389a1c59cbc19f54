"""A message in words: what was seen, what it costs, what to change first, how to see that it helped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpumon.model.findings import FINDINGS_BY_NAME
from gpumon.model.view import NodeView
from gpumon.notify.condition import Condition
from gpumon.notify.numbers import numbers
from gpumon.notify.texts import ENGLISH, AlertText
from gpumon.notify.texts_zh import CHINESE

ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Message:
    """What one target is told. `text` is plain, most important first, so that it can be cut at its end."""

    status: str  # firing, resolved
    title: str
    text: str
    severity: str = "info"


def compose(status: str, conditions: Sequence[Condition], view: NodeView, language: str) -> Message:
    """Return one message about alerts of one group.

    Args:
        status: firing or resolved.
        language: en or zh.
    """
    host = view.node.hostname or "?"
    texts = [words(condition, host, language) for condition in conditions]
    if status == "firing":
        parts = [_firing(condition, text, view, language) for condition, text in zip(conditions, texts, strict=True)]
    else:
        parts = [text.summary for text in texts]
    severity = min((condition.severity for condition in conditions), key=("critical", "warning", "info").index)
    return Message(status, _title(status, texts, view, language), "\n\n".join(parts), severity)


def words(condition: Condition, host: str, language: str) -> AlertText:
    """Return the words of one alert, with its names filled in."""
    table = ENGLISH if language == "en" else CHINESE
    text = table[condition.text or condition.alert]
    if condition.finding:
        row = FINDINGS_BY_NAME[condition.finding]
        title, advice, check = (row.title, row.advice, row.check) if language == "en" else row.chinese
        name = condition.gpu_job or host
        summary = f"{title} ({name})" if language == "en" else f"{title}（{name}）"
        return AlertText(summary, "", advice, check)
    names = {"instance": host, "gpu_job": condition.gpu_job, "gpu": condition.gpu, "xid": condition.xid}
    return text._replace(summary=text.summary.format_map(names | {"uplink": "", "channel": ""}))


def cut(text: str, most_bytes: int) -> str:
    """Return the text within a limit of UTF-8 bytes, cut between characters and marked where it was."""
    raw = text.encode("utf-8")
    if len(raw) <= most_bytes:
        return text
    kept = raw[: most_bytes - len(ELLIPSIS.encode("utf-8"))].decode("utf-8", "ignore")
    return kept + ELLIPSIS


def _title(status: str, texts: Sequence[AlertText], view: NodeView, language: str) -> str:
    over, simulated = ("Over: ", "[simulated] ") if language == "en" else ("已恢复：", "【模拟】")
    more = f" (+{len(texts) - 1})" if len(texts) > 1 else ""
    prefix = (simulated if view.node.simulated else "") + (over if status == "resolved" else "")
    return f"{prefix}{texts[0].summary}{more}"


def _firing(condition: Condition, text: AlertText, view: NodeView, language: str) -> str:
    do, check = ("What to do: ", "How to see that it helped: ") if language == "en" else ("怎么办：", "怎样确认有效：")
    lines: Iterable[str] = (
        text.summary,
        numbers(condition, view, language),
        do + text.advice,
        text.why,
        check + text.check,
    )
    return "\n".join(line for line in lines if line)
