"""A Feishu (Lark) group robot. It answers 200 to what it refuses; only code 0 means taken.

A robot takes 100 messages a minute and 20 KB each (Feishu's documentation of custom bots).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

from gpumon.notify.channels.http import code_problem, post_json
from gpumon.notify.message import Message, cut
from gpumon.notify.target import Target

MOST_BYTES = 18_000


def send(target: Target, message: Message) -> str:
    """Post the message as text, signed where the target has a signature."""
    text = f"{message.title}\n\n{message.text}"
    document: dict[str, object] = {"msg_type": "text", "content": {"text": cut(text, MOST_BYTES)}}
    if target.signature is not None:
        now_s = round(time.time())
        document |= {"timestamp": str(now_s), "sign": signature(target.signature.read(), now_s)}
    return code_problem(post_json(target.url.read(), document), "code", "StatusCode")


def signature(secret: str, now_s: int) -> str:
    """Return what signs a message: HMAC-SHA256 over nothing, with time and secret as key."""
    digest = hmac.new(f"{now_s}\n{secret}".encode(), b"", hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
