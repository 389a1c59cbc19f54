"""A test message to every target of one owner, sent at once: past the queue, the limits and the quiet hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpumon.model.errors import GpumonError
from gpumon.notify.channels import CHANNELS, Send
from gpumon.notify.message import Message
from gpumon.notify.target import Target

_TITLES = {"en": "Test message of gpumon", "zh": "gpumon 测试消息"}
_TEXTS = {
    "en": "This is how gpumon will tell you what slows down your GPU jobs and what to change. Nothing is wrong now.",
    "zh": "gpumon 会通过这里告诉您是什么拖慢了 GPU 任务、该怎么改。现在一切正常。",
}


def try_targets(
    targets: tuple[Target, ...], owner: str, channels: Mapping[str, Send] = CHANNELS
) -> Iterator[tuple[Target, str]]:
    """Yield each target of the owner with "" if its service took the message, else with what it said."""
    for target in targets:
        if target.owner != owner:
            continue
        message = Message("test", _TITLES[target.language], _TEXTS[target.language])
        try:
            problem = channels[target.kind](target, message)
        except GpumonError as error:
            problem = str(error)
        yield target, problem
