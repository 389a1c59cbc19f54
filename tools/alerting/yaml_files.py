"""The two rule files as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpumon.model.findings import FINDINGS_BY_NAME
from gpumon.notify.texts import ENGLISH, AlertText
from gpumon.notify.texts_zh import CHINESE
from tools.alerting.job_rules import job_rules
from tools.alerting.node_rules import node_rules
from tools.alerting.recorded import FLEET, JOBS, Recorded
from tools.alerting.rule import Rule, templated

_NOTE = (
    "# Written by `python -m tools.alerting` from the tables in the code; a test compares. Edit those, not this file.\n"
)
_ALERTS_HEAD = (
    _NOTE
    + """\
# Valid on Prometheus 2.42 and later, 3.x, and vmalert. Needs scrape job name "gpumon" and honor_labels: true: see
# scrape.example.yml. runbook_url is relative to docs/ of this project; the templates in deploy/alertmanager put your
# own base before it.
"""
)
_RULES_HEAD = _NOTE + "# Load beside gpumon.alerts.yml. The alerts do not need these; dashboards and rankings do.\n"
_CHECK = "How to see that it helped: "
_CHECK_ZH = "怎样确认有效："


def alerts_yaml() -> str:
    """Return gpumon.alerts.yml."""
    groups = [("gpumon_jobs", job_rules()), ("gpumon_node", node_rules())]
    lines = [_ALERTS_HEAD, "groups:"]
    for name, rules in groups:
        lines += [f"  - name: {name}", "    interval: 30s", "    rules:"]
        for rule in rules:
            lines += _alert(rule)
    return "\n".join(lines) + "\n"


def rules_yaml() -> str:
    """Return gpumon.rules.yml."""
    lines = [_RULES_HEAD, "groups:"]
    for name, rules in (("gpumon_job_records", JOBS), ("gpumon_fleet_records", FLEET)):
        lines += [f"  - name: {name}", "    interval: 1m", "    rules:"]
        for rule in rules:
            lines += _record(rule)
    return "\n".join(lines) + "\n"


def anchor(rule: Rule) -> str:
    """Return the runbook's heading for a rule, as it stands in a link."""
    return (rule.finding or rule.alert).lower()


def texts(rule: Rule) -> tuple[AlertText, AlertText]:
    """Return the words of a rule in English and Chinese; those of a finding are the catalogue's."""
    key = rule.text or rule.alert
    english, chinese = ENGLISH[key], CHINESE[key]
    if not rule.finding:
        return english, chinese
    row = FINDINGS_BY_NAME[rule.finding]
    title_zh, advice_zh, check_zh = row.chinese
    of_job = rule.alert.startswith("GpumonJob")
    where, where_zh = (" (job {gpu_job})", "（任务 {gpu_job}）") if of_job else (" ({instance})", "（{instance}）")
    return (
        AlertText(f"{row.title}{where}", "", row.advice, row.check),
        AlertText(f"{title_zh}{where_zh}", "", advice_zh, check_zh),
    )


def _annotations(rule: Rule) -> Iterator[tuple[str, str]]:
    english, chinese = texts(rule)
    yield "summary", templated(english.summary)
    yield "description", f"{rule.seen} {english.why}".strip()
    yield "advice", f"{english.advice} {_CHECK}{english.check}"
    yield "runbook_url", f"runbook.md#{anchor(rule)}"
    yield "summary_zh", templated(chinese.summary)
    yield "description_zh", f"{rule.seen_zh}{chinese.why}"
    yield "advice_zh", f"{chinese.advice}{_CHECK_ZH}{chinese.check}"


def _alert(rule: Rule) -> Iterator[str]:
    yield f"      - alert: {rule.alert}"
    yield from _expression(rule.expr)
    if rule.hold:
        yield f"        for: {rule.hold}"
    if rule.keep:
        yield f"        keep_firing_for: {rule.keep}"
    yield "        labels:"
    for name, value in {"severity": rule.severity, "audience": rule.audience, **rule.labels}.items():
        yield f"          {name}: {value}"
    yield "        annotations:"
    for name, text in _annotations(rule):
        yield f"          {name}: {_quoted(text)}"


def _record(rule: Recorded) -> Iterator[str]:
    yield f"      # {rule.about}"
    yield f"      - record: {rule.record}"
    yield from _expression(rule.expr)


def _expression(expr: str) -> Iterable[str]:
    if "\n" not in expr:
        return [f"        expr: {_quoted(expr)}"]
    # The indentation is said, because some expressions begin with spaces.
    return ["        expr: |2-", *(f"          {line}" for line in expr.splitlines())]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
