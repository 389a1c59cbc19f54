"""Which waiting message goes out next, and what becomes of it. Pure: the caller sends, and tells how it went.

A message is tried again after 30 s, doubling to an hour, and dropped after a day: an older one would describe another
state of things. Each target has its limit per hour and a pause between two messages that keeps below what robots take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpumon.notify.message import Message
from gpumon.notify.outbox import MOST_WAITING, Waiting
from gpumon.notify.target import Target

FIRST_RETRY_S, LONGEST_RETRY_S = 30.0, 3600.0
OLDEST_S = 24 * 3600.0
PAUSE_S = 4.0  # DingTalk and WeCom take 20 messages a minute
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """The queue and what each target got within the last hour."""

    waiting: tuple[Waiting, ...] = ()
    sent_s: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # wall times by target
    dropped: tuple[str, ...] = ()  # channels of messages that were given up and not counted yet


def enqueue(delivery: Delivery, messages: Iterable[Waiting]) -> Delivery:
    """Return the queue with more messages; beyond its bound the oldest are dropped."""
    waiting = (*delivery.waiting, *messages)
    excess = max(0, len(waiting) - MOST_WAITING)
    given_up = tuple(one.channel for one in waiting[:excess])
    return replace(delivery, waiting=waiting[excess:], dropped=(*delivery.dropped, *given_up))


def withdraw(delivery: Delivery, keys: frozenset[str]) -> tuple[Delivery, frozenset[str]]:
    """Take back messages that were never tried and whose alerts are all over.

    Returns: the queue, and the targets that therefore need not hear that it is over.
    """
    taken = [
        one
        for one in delivery.waiting
        if one.attempts == 0 and one.message.status == "firing" and set(one.keys) <= keys
    ]
    kept = tuple(one for one in delivery.waiting if one not in taken)
    return replace(delivery, waiting=kept), frozenset(one.target for one in taken)


def expired(delivery: Delivery, targets: Mapping[str, Target], now_s: float) -> Delivery:
    """Drop what is too old, and what is for a target that no longer exists."""
    gone = [one for one in delivery.waiting if now_s - one.made_s >= OLDEST_S or one.target not in targets]
    kept = tuple(one for one in delivery.waiting if one not in gone)
    return replace(delivery, waiting=kept, dropped=(*delivery.dropped, *(one.channel for one in gone)))


def due(delivery: Delivery, targets: Mapping[str, Target], now_s: float) -> Waiting | None:
    """Return the next message to send, None if none may go now.

    Each target gets its messages in order, but what is critical passes by what the night holds back.
    """
    blocked: set[str] = set()
    for one in delivery.waiting:
        target = targets.get(one.target)
        if target is None or one.target in blocked or _is_held_back(target, one.message, now_s):
            continue
        if one.not_before_s <= now_s and _has_room(target, delivery.sent_s.get(one.target, ()), now_s):
            return one
        blocked.add(one.target)
    return None


def _is_held_back(target: Target, message: Message, now_s: float) -> bool:
    return target.quiet is not None and message.severity != "critical" and target.quiet.holds(now_s)


def _has_room(target: Target, sent_s: Sequence[float], now_s: float) -> bool:
    recent = [at_s for at_s in sent_s if now_s - at_s < _HOUR_S]
    return len(recent) < target.most_per_hour and all(now_s - at_s >= PAUSE_S for at_s in recent)


def started(delivery: Delivery, one: Waiting, now_s: float) -> tuple[Delivery, Waiting]:
    """Return the queue with the message's next attempt set, as if this one failed, and the message as it now waits.

    Set before sending, so that neither a crash nor a change of the queue in between makes the message go out twice.
    """
    pause_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0**one.attempts)
    again = replace(one, attempts=one.attempts + 1, not_before_s=now_s + pause_s)
    waiting = tuple(again if other is one else other for other in delivery.waiting)
    return replace(delivery, waiting=waiting), again


def succeeded(delivery: Delivery, one: Waiting, now_s: float) -> Delivery:
    """Return the queue after the message was taken."""
    sent = tuple(at_s for at_s in delivery.sent_s.get(one.target, ()) if now_s - at_s < _HOUR_S)
    waiting = tuple(other for other in delivery.waiting if other is not one)
    return replace(delivery, waiting=waiting, sent_s={**delivery.sent_s, one.target: (*sent, now_s)})
