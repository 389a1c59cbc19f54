"""Alertmanager's notifications passed on to robots it does not speak to, each once. Pure: what comes in, what goes out.

Alertmanager delivers at least once: a slow answer or a second Alertmanager brings the same alerts again, and after an
outage old ones arrive (report 158). So an alert is passed on when it begins and when it ends, repeated only after the
configured time, and not begun at all when it began more than an hour ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from gpumon.notify.message import Message
from gpumon.notify.outbox import Waiting
from gpumon.notify.target import OPERATOR, Target, targets_of

STALE_S = 3600.0
MOST_REMEMBERED = 5000
_FIRING, _RESOLVED = "firing", "resolved"


class Alert(msgspec.Struct, frozen=True, rename="camel"):
    """One alert of a notification."""

    status: str
    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: datetime
    fingerprint: str


class Notification(msgspec.Struct, frozen=True, rename="camel"):
    """What Alertmanager posts: its webhook format, version 4."""

    version: str
    alerts: list[Alert]


@dataclass(frozen=True, slots=True)
class Passed:
    """Messages to queue, and what is remembered of the alerts they are about."""

    messages: tuple[Waiting, ...]
    relayed: Mapping[str, float]


def read(body: bytes) -> Notification:
    """Return the notification. Raises ValueError saying what is wrong with the body."""
    try:
        notification = msgspec.json.decode(body, type=Notification)
    except msgspec.DecodeError as error:
        raise ValueError(f"no notification of Alertmanager: {error}") from None
    if notification.version != "4":
        raise ValueError(f"version {notification.version!r:.20} is unknown; 4 is known")
    return notification


def passed_on(
    notification: Notification,
    relayed: Mapping[str, float],
    targets: tuple[Target, ...],
    *,
    now_s: float,
    repeat_s: float,
) -> Passed:
    """Return what a notification gives to pass on.

    Args:
        relayed: by fingerprint and status: wall time a firing one was passed on, or the start of one that is over.
        now_s: wall time.
    """
    memory = dict(relayed)
    fresh: list[Alert] = []
    stale: list[Alert] = []
    for alert in notification.alerts:
        if alert.status == _RESOLVED:
            fresh += [alert] if _ends(alert, memory) else []
        elif _begins(alert, memory, now_s, repeat_s):
            known = f"{alert.fingerprint}/{_FIRING}" in memory
            (fresh if known or now_s - alert.starts_at.timestamp() <= STALE_S else stale).append(alert)
            memory[f"{alert.fingerprint}/{_FIRING}"] = now_s
    messages = [*_messages(fresh, targets, now_s), *_about_stale(stale, targets, now_s)]
    newest = sorted(memory.items(), key=lambda item: item[1])[-MOST_REMEMBERED:]
    return Passed(tuple(messages), dict(newest))


def _begins(alert: Alert, memory: dict[str, float], now_s: float, repeat_s: float) -> bool:
    over_s = memory.get(f"{alert.fingerprint}/{_RESOLVED}")
    if over_s is not None and alert.starts_at.timestamp() <= over_s:
        return False  # a late copy of what is over
    told_s = memory.get(f"{alert.fingerprint}/{_FIRING}")
    return told_s is None or now_s - told_s >= repeat_s


def _ends(alert: Alert, memory: dict[str, float]) -> bool:
    if memory.pop(f"{alert.fingerprint}/{_FIRING}", None) is None:
        return False  # nobody was told that it began, or it is a copy
    memory[f"{alert.fingerprint}/{_RESOLVED}"] = alert.starts_at.timestamp()
    return True


def _messages(alerts: Sequence[Alert], targets: tuple[Target, ...], now_s: float) -> Iterable[Waiting]:
    groups: dict[tuple[str, str, str], list[Alert]] = {}
    for alert in alerts:
        owner = (alert.labels.get("audience", ""), alert.labels.get("tenant", ""))
        groups.setdefault((*owner, alert.status), []).append(alert)
    for (audience, tenant, status), group in groups.items():
        keys = tuple(alert.fingerprint for alert in group)
        for target in targets_of(targets, audience, tenant):
            yield Waiting(target.name, target.kind, _message(status, group, target.language), keys, now_s)


def _message(status: str, alerts: Sequence[Alert], language: str) -> Message:
    texts = [_parts(alert, language) for alert in alerts]
    over = ("Over: " if language == "en" else "已恢复：") if status == _RESOLVED else ""
    more = f" (+{len(alerts) - 1})" if len(alerts) > 1 else ""
    bodies = [text[0] if over else "\n".join(part for part in text if part) for text in texts]
    severities = [alert.labels.get("severity", "") for alert in alerts]
    severity = next((name for name in ("critical", "warning") if name in severities), "info")
    return Message(status, f"{over}{texts[0][0]}{more}", "\n\n".join(bodies), severity)


def _parts(alert: Alert, language: str) -> tuple[str, str, str]:
    """Return summary, description and advice, in the other language where this one is missing."""

    def text(name: str) -> str:
        first, second = (name, f"{name}_zh") if language == "en" else (f"{name}_zh", name)
        return alert.annotations.get(first) or alert.annotations.get(second, "")

    do = "What to do: " if language == "en" else "怎么办："
    advice = text("advice")
    return text("summary") or alert.labels.get("alertname", "?"), text("description"), advice and do + advice


def _about_stale(alerts: Sequence[Alert], targets: tuple[Target, ...], now_s: float) -> Iterable[Waiting]:
    if not alerts:
        return
    names = ", ".join(sorted({alert.labels.get("alertname", "?") for alert in alerts}))
    for target in targets:
        if target.owner == OPERATOR:
            english = target.language == "en"
            title = "Old alerts were not passed on" if english else "有过时的告警没有转发"
            what = f"{len(alerts)}: {names}. " if english else f"{len(alerts)} 个：{names}。"
            why = (
                "They began more than an hour ago. Look at Alertmanager's log for deliveries that failed."
                if english
                else "它们一小时前就开始了。请在 Alertmanager 的日志里查找失败的投递。"
            )
            yield Waiting(target.name, target.kind, Message(_FIRING, title, what + why, "warning"), (), now_s)
