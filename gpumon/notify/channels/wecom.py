"""A WeCom group robot. It answers 200 to what it refuses; only errcode 0 means taken.

A robot takes 20 messages a minute, and 2,048 bytes of text each (WeCom's documentation of group robots).
"""

from __future__ import annotations

from gpumon.notify.channels.http import code_problem, post_json
from gpumon.notify.message import Message, cut
from gpumon.notify.target import Target

MOST_BYTES = 2048


def send(target: Target, message: Message) -> str:
    """Post the message as text."""
    text = cut(f"{message.title}\n\n{message.text}", MOST_BYTES)
    answer = post_json(target.url.read(), {"msgtype": "text", "text": {"content": text}})
    return code_problem(answer, "errcode")
