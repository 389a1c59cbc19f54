"""docs/runbook.md and docs/runbook.zh.md: a heading for every alert and every finding, where the links lead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpumon.model.findings import CATALOGUE, FindingKind
from gpumon.notify.alerts import APPLICATION_XIDS, HARDWARE_XIDS, RECORDED_XIDS
from gpumon.notify.texts import AlertText
from tools.alerting.job_rules import job_rules
from tools.alerting.node_rules import node_rules
from tools.alerting.rule import Rule
from tools.alerting.yaml_files import texts


@dataclass(frozen=True, slots=True)
class _Phrases:
    """The runbook's own words in one language."""

    head: str
    customers: str
    operators: str
    findings: str
    means: str
    do: str
    check: str
    told: str  # {audience}, {severity}, {when}
    see_finding: str
    explains: str
    audiences: dict[str, str]
    severities: dict[str, str]
    joined: str  # between a label and its text


_EN = _Phrases(
    head="""\
# Runbook

Every alert and every finding of gpumon: what it means, what to do, how to see that it helped. The alerts' `runbook_url`
points here, relative to this folder. Written by `python -m tools.alerting`; [Chinese](runbook.zh.md).

An alert ends only after its condition has been gone for about ten minutes, so that a few missed scrapes or a verdict
that wavers neither end nor repeat it. While gpumon on a node does not answer, its other alerts are held back and no
"resolved" is sent for them.

Errors of the driver (Xid) are ranked by who can do something about them. Errors of a program: {application}. Errors of
the card, its memory or its links: {hardware}. Repairs that the card records: {recorded}. Every other code is told as
unknown. The split follows common practice in public reports: 13 and 31 are faults and illegal accesses of kernels, 43
and 45 their consequences, 109 a time-out of the program's context; 48, 94 and 95 are memory errors, 74 NVLink, 79 a
card off the bus, 119 and 120 its controller.
""",
    customers="## Alerts for customers",
    operators="## Alerts for the operator",
    findings="## Findings",
    means="**What it means.**",
    do="**What to do.**",
    check="**How to see that it helped.**",
    told="*{audience}, {severity}.{when}*",
    see_finding="One alert for each finding below that is for {who}; the link of the alert leads to its heading.",
    explains=" Reason for class `{}`: its alert replaces that of the class.",
    audiences={"customer": "For the customer", "operator": "For the operator"},
    severities={"info": "information", "warning": "warning", "critical": "critical"},
    joined=" ",
)
_ZH = _Phrases(
    head="""\
# 处理手册

gpumon 的每个告警和每个发现：含义、怎么办、怎样确认有效。告警里的 `runbook_url` 指向这里（相对本目录）。
由 `python -m tools.alerting` 生成；[英文版](runbook.md)。

告警要在条件消失约十分钟后才结束，所以偶尔漏采或判断摇摆既不会结束它，也不会重复它。节点上的 gpumon 没有响应时，
它的其他告警先不发送，也不会发“已恢复”。

驱动错误（Xid）按谁能处理来分。程序的错误：{application}。显卡、显存或链路的错误：{hardware}。显卡记录的修复：{recorded}。
其余代码都按“含义不明”上报。这种划分遵循公开报告中的通行做法：13 和 31 是内核出错和非法访问，43 和 45 是其后果，
109 是程序上下文超时；48、94、95 是显存错误，74 是 NVLink，79 是显卡从总线上掉了，119 和 120 是显卡的控制器。
""",
    customers="## 发给客户的告警",
    operators="## 发给管理员的告警",
    findings="## 发现",
    means="**含义。**",
    do="**怎么办。**",
    check="**怎样确认有效。**",
    told="*{audience}，{severity}。{when}*",
    see_finding="下面每个发给{who}的发现各有一个告警；告警里的链接指向它的标题。",
    explains="它是类别 `{}` 的原因：它的告警会代替该类别的告警。",
    audiences={"customer": "发给客户", "operator": "发给管理员"},
    severities={"info": "提示", "warning": "警告", "critical": "严重"},
    joined="",
)
_WHO = {"GpumonJobMisconfigured": ("the customer", "客户"), "GpumonNodeFinding": ("the operator", "管理员")}
# {label} of a text, as a person would say it where there is no value.
_GENERIC = {"gpu_job": "J", "gpu": "N", "instance": "NODE", "uplink": "L", "xid": "N", "channel": "C"}


def runbook(language: str) -> str:
    """Return the runbook in "en" or "zh"."""
    number = 0 if language == "en" else 1
    words = (_EN, _ZH)[number]
    lines = [words.head.format(**_xids())]
    for title, rules in ((words.customers, job_rules()), (words.operators, node_rules())):
        lines += [title, ""]
        for name in dict.fromkeys(rule.alert for rule in rules):
            lines += _alert(words, number, name, [rule for rule in rules if rule.alert == name])
    lines += [words.findings, ""]
    for row in CATALOGUE:
        lines += _finding(words, number, row)
    return "\n".join(lines).rstrip() + "\n"


def _xids() -> dict[str, str]:
    def listed(codes: tuple[int, ...]) -> str:
        return ", ".join(map(str, codes))

    return {
        "application": listed(APPLICATION_XIDS),
        "hardware": listed(HARDWARE_XIDS),
        "recorded": listed(RECORDED_XIDS),
    }


def _alert(words: _Phrases, number: int, name: str, rules: list[Rule]) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    if name in _WHO:
        yield words.see_finding.format(who=_WHO[name][number])
        yield ""
        return
    for rule in rules:
        text = texts(rule)[number]
        yield f"**{_generic(text.summary)}**"
        yield ""
        yield from _told(words, rule.audience, rule.severity, "")
        yield from _body(words, text)


def _finding(words: _Phrases, number: int, row: FindingKind) -> Iterator[str]:
    title, advice, check = (row.title, row.advice, row.check) if number == 0 else row.chinese
    yield f"### {row.finding}"
    yield ""
    yield f"**{title}**"
    yield ""
    yield from _told(words, row.audience, row.severity, words.explains.format(row.explains) if row.explains else "")
    yield from _body(words, AlertText(title, "", advice, check))


def _told(words: _Phrases, audience: str, severity: str, when: str) -> Iterator[str]:
    yield words.told.format(audience=words.audiences[audience], severity=words.severities[severity], when=when)
    yield ""


def _body(words: _Phrases, text: AlertText) -> Iterator[str]:
    for label, sentence in ((words.means, text.why), (words.do, text.advice), (words.check, text.check)):
        if sentence:
            yield f"{label}{words.joined}{sentence}"
            yield ""


def _generic(summary: str) -> str:
    for label, word in _GENERIC.items():
        summary = summary.replace(f"{{{label}}}", word)
    return summary
