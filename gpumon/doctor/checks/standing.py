"""Is this a platform gpumon supports, and what can it see from here."""

from __future__ import annotations

import re

from gpumon.doctor.examination import Examination
from gpumon.doctor.result import Result, failed, passed, warned

_UNSUPPORTED = {
    "wsl": ("gpumon does not support WSL: NVML is a subset there.", "Run it on Linux, on the host or in a VM."),
    "jetson": (
        "gpumon does not support Jetson: its GPU is no PCIe card and NVML covers little of it.",
        "Use tegrastats or jtop there.",
    ),
    "vgpu": (
        "gpumon does not support vGPU guests: the driver hides link traffic and most sensors from them.",
        "Run it on the hypervisor, or give the guest a whole card.",
    ),
}
# A vGPU's product name ends in its framebuffer profile: "GRID T4-16Q", "NVIDIA A100-4-20C", "NVIDIA L40S-48C".
_VGPU_NAME = re.compile(r"-\d+[ABCQS]$")


def platform(examination: Examination) -> tuple[Result, ...]:
    """Linux with whole cards is supported; Windows, WSL, Jetson and vGPU guests are not."""
    if examination.platform != "linux":
        return (
            failed(
                "platform",
                f"gpumon does not support {examination.platform}: it reads procfs and sysfs.",
                "Run it on Linux.",
            ),
        )
    kind = examination.unsupported
    if not kind and any(_VGPU_NAME.search(card.identity.name) for card in examination.cards):
        kind = "vgpu"
    if kind:
        return (failed("platform", *_UNSUPPORTED[kind]),)
    return (passed("platform", f"Linux {examination.facts.kernel or 'of unknown version'}."),)


def standing(examination: Examination) -> tuple[Result, ...]:
    """A host sees all; a virtual machine no neighbours; a container without host pids only itself."""
    facts = examination.facts
    if facts.simulated:
        return (warned("standing", "This is a simulated node; nothing below is about real hardware.", _LEAVE_OUT),)
    where = facts.virtualization or "unknown"
    if facts.standing == "container" and not facts.host_pids:
        return (
            warned(
                "standing",
                f"Inside a container ({where}) without the host's pids: jobs of other containers cannot be named.",
                "To watch the whole node, run gpumon on the host or start its container with --pid=host. "
                "To watch only this container's own job, nothing is needed.",
            ),
        )
    if facts.standing == "container":
        return (passed("standing", f"Inside a container ({where}) with the host's pids."),)
    if facts.standing == "vm":
        return (
            passed(
                "standing",
                f"Inside a virtual machine ({where}): cards in full; uplinks, NUMA nodes and neighbours on the host "
                "cannot be known.",
            ),
        )
    return (passed("standing", "On the host: sees everything."),)


_LEAVE_OUT = "Leave out --simulate to examine the node itself."
