"""Which NUMA nodes the CPUs lie on that a process may run on.

Source: /sys/devices/system/node/node*/cpumap, hexadecimal words of 32 CPUs, the highest first.
"""

from __future__ import annotations

from gpumon.hardware.procfs import files
from gpumon.model.fault import Fault

_MOST_MASKS = 256


def mask_of(text: str) -> int:
    """Return the bits of a mask as the kernel writes it ("ff,ffffffff"); 0 when it is none."""
    try:
        return int(text.replace(",", "").strip() or "0", 16)
    except ValueError:
        return 0


class NumaNodes:
    """The node of each CPU, read once. Empty where sysfs does not say, or there is one node for everything."""

    def __init__(self, sysfs: str) -> None:
        folder = f"{sysfs}/devices/system/node"
        self._cpus: dict[int, int] = {}  # node -> mask of its CPUs
        for name in files.names(folder):
            text = files.text(f"{folder}/{name}/cpumap") if name.removeprefix("node").isdigit() else Fault.NOT_FOUND
            if not isinstance(text, Fault) and (mask := mask_of(text)):
                self._cpus[int(name.removeprefix("node"))] = mask
        self._known: dict[int, frozenset[int]] = {}

    def of(self, allowed: int) -> frozenset[int]:
        """Return the nodes of a mask of CPUs; empty when unknown."""
        found = self._known.get(allowed)
        if found is None:
            found = frozenset(node for node, cpus in self._cpus.items() if cpus & allowed)
            if len(self._known) < _MOST_MASKS:
                self._known[allowed] = found
        return found
