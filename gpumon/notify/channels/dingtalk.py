"""A DingTalk group robot. It answers 200 to what it refuses; only errcode 0 means taken.

A robot asks for a keyword in every message, for a signature, or for the sender's address; it takes 20 messages a
minute and about 20,000 bytes each (DingTalk's documentation of custom robots).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from urllib.parse import quote_plus

from gpumon.notify.channels.http import code_problem, post_json
from gpumon.notify.message import Message, cut
from gpumon.notify.target import Target

MOST_BYTES = 18_000


def send(target: Target, message: Message) -> str:
    """Post the message as text, with keyword and signature where the target has them."""
    url = target.url.read()
    if target.signature is not None:
        url += signature(target.signature.read(), round(time.time() * 1000))
    text = f"{message.title}\n\n{message.text}"
    if target.keyword not in text:
        text = f"{target.keyword}\n{text}"
    document = {"msgtype": "text", "text": {"content": cut(text, MOST_BYTES)}}
    return code_problem(post_json(url, document), "errcode")


def signature(secret: str, now_ms: int) -> str:
    """Return the parameters that sign a message: HMAC-SHA256 over time and secret, with the secret as key."""
    digest = hmac.new(secret.encode(), f"{now_ms}\n{secret}".encode(), hashlib.sha256).digest()
    return f"&timestamp={now_ms}&sign={quote_plus(base64.b64encode(digest))}"
