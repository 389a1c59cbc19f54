"""The causes gpumon can name, in the order they are asked. Each file says what it looks like and what it is not."""

from collections.abc import Callable

from gpumon.analysis.case import Case, Suspicion
from gpumon.analysis.causes import (
    communication_bandwidth,
    communication_bubble,
    communication_host_path,
    communication_latency,
    communication_straggler,
    communication_uplink,
    compute,
    host_checkpoint,
    host_input,
    host_launch,
    host_offload,
    hung,
    idle,
    memory,
    throttled_brake,
    throttled_power,
    throttled_thermal,
)

Judge = Callable[[Case], Suspicion | None]

CAUSES: tuple[Judge, ...] = (
    idle.judge,
    hung.judge,
    throttled_brake.judge,
    throttled_thermal.judge,
    throttled_power.judge,
    compute.judge,
    memory.judge,
    communication_straggler.judge,
    communication_host_path.judge,
    communication_uplink.judge,
    communication_bandwidth.judge,
    communication_bubble.judge,
    communication_latency.judge,
    host_checkpoint.judge,
    host_offload.judge,
    host_input.judge,
    host_launch.judge,
)

__all__ = ["CAUSES", "Judge"]
