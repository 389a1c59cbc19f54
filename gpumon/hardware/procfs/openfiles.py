"""Which processes compute on which cards, where the driver's pids mean nothing here: by their open device files.

CUDA holds /dev/nvidia-uvm and each card it can see; a monitor holds cards without it. Only one's own processes can be
looked into (root: all of the container). Looked at in turn, some processes a refresh, because a training process may
have a thousand files open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpumon.hardware.procfs import files

LOOKED_AT_PER_REFRESH = 24
MOST_FILES = 4096
_DEVICE = re.compile(r"/dev/nvidia(?P<minor>[0-9]{1,4})")
_COMPUTE = "/dev/nvidia-uvm"


def held_cards(root: str, pid: int) -> frozenset[int]:
    """Return N of the /dev/nvidiaN that a computing process holds open; empty when it does not compute or hides."""
    folder = f"{root}/{pid}/fd"
    minors: set[int] = set()
    compute = False
    for name in files.names(folder)[:MOST_FILES]:
        target = files.link(f"{folder}/{name}")
        if target == _COMPUTE:
            compute = True
        elif match := _DEVICE.fullmatch(target):
            minors.add(int(match["minor"]))
    return frozenset(minors) if compute else frozenset()


class OpenCards:
    """What was found so far; one per reader."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._found: dict[tuple[int, int], frozenset[int]] = {}
        self._turn = 0

    def refresh(self, processes: Iterable[tuple[int, int]]) -> dict[int, frozenset[int]]:
        """Look at new processes, known holders, and some of the others; return the holders by pid.

        Args:
            processes: (pid, start_ticks) of everything that may be looked at, without gpumon itself.
        """
        keys = list(processes)
        holders = [key for key in keys if self._found.get(key)]
        others = [key for key in keys if not self._found.get(key)]
        start = self._turn % len(others) if others else 0
        self._turn = start + LOOKED_AT_PER_REFRESH
        new = [key for key in others if key not in self._found][:LOOKED_AT_PER_REFRESH]
        looked = dict.fromkeys((*holders, *new, *others[start : start + LOOKED_AT_PER_REFRESH]))
        found = {key: self._found[key] for key in keys if key in self._found}
        found.update({key: held_cards(self._root, key[0]) for key in looked})
        self._found = found
        return {key[0]: cards for key, cards in found.items() if cards}
