"""A hook of one's own: one JSON object, taken if the status is 2xx."""

from __future__ import annotations

from gpumon.notify.channels.http import post_json
from gpumon.notify.message import Message
from gpumon.notify.target import Target


def send(target: Target, message: Message) -> str:
    """Post the message."""
    document = {
        "version": 1,
        "owner": target.owner,
        "status": message.status,
        "severity": message.severity,
        "title": message.title,
        "text": message.text,
    }
    answer = post_json(target.url.read(), document)
    if answer.problem:
        return answer.problem
    return "" if 200 <= answer.status < 300 else f"status {answer.status}"
