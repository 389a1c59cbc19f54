"""/proc/PID/mountinfo: which cards a container was given, how big its /dev/shm is, whether its NVML is hooked.

The file is readable without privilege for every process. It tells of cards where the container toolkit binds device
files one by one (`/dev/nvidia0`, `/proc/driver/nvidia/gpus/ADDRESS`); a container whose devices were made by mknod
(CDI, --device) or that has the host's whole /dev shows nothing, and then the container runtime is asked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

LONGEST = 1 << 20  # a host with hundreds of containers has a table of this order
_OCTAL = re.compile(r"\\([0-7]{3})")
_DEVICE = re.compile(r"/dev/nvidia(?P<minor>[0-9]{1,4})")
_ADDRESS = re.compile(r"/proc/driver/nvidia/gpus/(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
_COMPUTE = "/dev/nvidia-uvm"  # bound only for containers that may compute, not for those that may only watch
# HAMi binds its library and a preload file into each container it slices a card for (k8s-vgpu: /usr/local/vgpu).
_HOOKS = {"/usr/local/vgpu/libvgpu.so": "hami", "/usr/local/vgpu": "hami"}
_SIZE = re.compile(r"(?:^|,)size=(?P<number>[0-9]+)(?P<unit>[kmg]?)(?:,|$)")
_UNITS = {"": 1.0, "k": 1024.0, "m": 1024.0**2, "g": 1024.0**3}


@dataclass(frozen=True, slots=True)
class Mounts:
    """What a process's mounts tell."""

    minors: frozenset[int] = frozenset()  # of /dev/nvidiaN it was given to compute on
    shm_size_bytes: float = math.nan
    slice_hook: str = ""
    fstypes: Mapping[str, str] | None = None  # mount point -> file system, where it was asked for


def parse(text: str, minors_by_address: Mapping[str, int], *, fstypes: bool = False) -> Mounts:
    """Read a mountinfo file.

    Args:
        minors_by_address: PCI address -> N of /dev/nvidiaN, for toolkits that bind only the card's procfs folder.
        fstypes: also return where each file system is mounted.
    """
    minors: set[int] = set()
    addresses: set[str] = set()
    compute, shm, hook = False, math.nan, ""
    kinds: dict[str, str] = {}
    for line in text.split("\n"):
        words = line.split(" ")
        if len(words) < 10:
            continue
        point = unescaped(words[4]) if "\\" in words[4] else words[4]
        if fstypes and "-" in words[6:]:
            kinds[point] = words[words.index("-", 6) + 1]
        if point.startswith("/dev/"):
            if match := _DEVICE.fullmatch(point):
                minors.add(int(match["minor"]))
            elif point == _COMPUTE:
                compute = True
            elif point == "/dev/shm":
                shm = _size(words[-1])
        elif match := _ADDRESS.fullmatch(point):
            addresses.add(match["address"].lower())
        elif point in _HOOKS:
            hook = _HOOKS[point]
    minors |= {minors_by_address[address] for address in addresses if address in minors_by_address}
    return Mounts(frozenset(minors) if compute else frozenset(), shm, hook, kinds if fstypes else None)


def unescaped(text: str) -> str:
    """Return a mount point with blanks, tabs, newlines and backslashes as they are."""
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), text)


def _size(options: str) -> float:
    match = _SIZE.search(options)
    return int(match["number"]) * _UNITS[match["unit"]] if match else math.nan
