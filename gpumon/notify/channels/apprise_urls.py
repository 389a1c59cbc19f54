"""Everything Apprise speaks (mail, Slack, Telegram, ...), but the robots whose answers it does not read.

Apprise takes status 200 for sent. DingTalk, Feishu and WeCom answer 200 to what they refuse (seen with Apprise's
plugins of 1.9 to 2.3), so they have kinds of their own here.
"""

from __future__ import annotations

import importlib

from gpumon.model.errors import GpumonError
from gpumon.notify.message import Message
from gpumon.notify.target import Target

# Apprise's plugin -> the kind to use instead. A robot's https address reaches the same plugin as its own scheme.
_OWN_KINDS = {"dingtalk": "dingtalk", "feishu": "feishu", "lark": "feishu", "wecombot": "wecom"}


def send(target: Target, message: Message) -> str:
    """Hand the message to Apprise. Raises GpumonError where the extra is missing or the address is another kind's."""
    try:
        apprise = importlib.import_module("apprise")  # an extra: 19 MiB and 0.12 s that only its users pay
    except ImportError:
        raise GpumonError('kind = "apprise" needs the extra: pip install "gpumon-exporter[notify]"') from None
    plugin = apprise.Apprise.instantiate(target.url.read())
    if plugin is None:
        raise GpumonError("Apprise does not understand the address")
    name = type(plugin).__module__.rpartition(".")[2]
    if name in _OWN_KINDS:
        raise GpumonError(
            f'kind = "apprise" cannot tell whether {name} took a message; '
            f'use kind = "{_OWN_KINDS[name]}" with the robot\'s https address'
        )
    sent = plugin.notify(title=message.title, body=message.text)
    return "" if sent else "Apprise could not send it"
