"""Flags by which programs built on DeepSpeed choose their ZeRO stage: DeepSpeed-Chat, Megatron-DeepSpeed and alike.

DeepSpeed itself takes a JSON file; these programs write it themselves from flags of their own.
"""

from __future__ import annotations

from gpumon.jobs.layout.command import Command, number
from gpumon.jobs.layout.parts import Said
from gpumon.model.job import Layout

_DEVICES = ("offload-optimizer", "offload-optimizer-device", "offload-param")


def read(command: Command) -> Said | None:
    """Return what the flags say, None where there is no stage among them."""
    options = command.options
    stage = number(options.get("zero-stage"))
    if not 0 <= stage <= 3:
        return None
    devices = [options[name].lower() for name in _DEVICES if name in options]
    return Said(
        Layout(
            asked=f"zero{stage}" if stage > 0 else "",
            zero_stage=stage,
            offload="offload" in options or any(device in ("cpu", "nvme") for device in devices),
        )
    )
