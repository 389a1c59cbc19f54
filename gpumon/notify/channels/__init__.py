"""One file a service: how a message is written for it, and what in its answer means that it took it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpumon.notify.channels import apprise_urls, dingtalk, feishu, webhook, wecom
from gpumon.notify.message import Message
from gpumon.notify.target import Target

# Sends one message; returns "" when the service says that it took it, else why not, in words without any secret.
Send = Callable[[Target, Message], str]

CHANNELS: Mapping[str, Send] = {
    "webhook": webhook.send,
    "dingtalk": dingtalk.send,
    "feishu": feishu.send,
    "wecom": wecom.send,
    "apprise": apprise_urls.send,
}
