"""Everything Apprise speaks (mail, Slack, Telegram, ...), but the robots whose answers it does not read.

Apprise takes status 200 for sent. DingTalk, Feishu and WeCom answer 200 to what they refuse (seen with Apprise's
plugins of 1.9 to 2.3), so they have kinds of their own here.
"""

from __future__ import annotations

import importlib

from gpumon.model.errors import GpumonError
from gpumon.notify.message import Message
from gpumon.notify.target import Target

_OWN_KINDS = {"dingtalk": "dingtalk", "feishu": "feishu", "lark": "feishu", "wecombot": "wecom"}


def send(target: Target, message: Message) -> str:
    """Hand the message to Apprise. Raises GpumonError where the extra is missing or the address is another kind's."""
    url = target.url.read()
    scheme = url.partition("://")[0].lower()
    if scheme in _OWN_KINDS:
        raise GpumonError(
            f'notify target {target.name}: kind = "apprise" cannot tell whether {scheme} took a message; '
            f'use kind = "{_OWN_KINDS[scheme]}" with the robot\'s own https address'
        )
    try:
        apprise = importlib.import_module("apprise")  # an extra: 12 MiB and 0.2 s that only its users pay
    except ImportError:
        raise GpumonError('kind = "apprise" needs the extra: pip install "gpumon-exporter[notify]"') from None
    hub = apprise.Apprise()
    if not hub.add(url):
        raise GpumonError(f"notify target {target.name}: Apprise does not understand its address")
    sent = hub.notify(title=message.title, body=message.text)
    return "" if sent else "Apprise could not send it"
