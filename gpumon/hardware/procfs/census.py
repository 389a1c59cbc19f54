"""All processes of the host, as little as is needed: who is whose child, and which container was given cards.

Each refresh lists /proc once and reads only processes it has not met. A pid met again is the same process while its
folder keeps its inode, which the kernel gives out anew for every process; a rotating part is checked all the same,
because a folder's inode may also change without cause and need not change with every cause.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpumon.hardware.procfs import files, stat
from gpumon.model.fault import Fault

NEW_PER_REFRESH = 512  # a burst of short processes is met over several refreshes
CHECKED_PER_REFRESH = 64
MOUNTS_PER_REFRESH = 32  # newest groups first; a mount table may be 300 KB long
MOST_GROUPS = 4096


@dataclass(frozen=True, slots=True)
class Known:
    """One process of the host."""

    inode: int
    start_ticks: int
    ppid: int
    cgroup: str  # text of its cgroup file, "" when unreadable


class Census:
    """What is known of all processes; one per reader, used by one thread."""

    def __init__(self, root: str, has_cards: Callable[[int], bool]) -> None:
        """Args: has_cards: reads a process's mounts and tells whether it was given cards."""
        self._root = root
        self._has_cards = has_cards
        self._known: dict[int, Known] = {}
        self._children: dict[int, list[int]] = {}
        self._given: dict[str, bool] = {}  # cgroup text -> whether its processes were given cards
        self._next_check = 0

    @property
    def known(self) -> dict[int, Known]:
        """Processes by pid, as of the last refresh."""
        return self._known

    def refresh(self) -> None:
        """List the processes again."""
        listed = self._list()
        kept = {pid: self._known[pid] for pid, inode in listed.items() if self._is_same(pid, inode)}
        new = [pid for pid in listed if pid not in kept]
        for pid in new[:NEW_PER_REFRESH] + self._due(list(kept)):
            known = self._read(pid, listed[pid])
            if known is not None:
                kept[pid] = known
            else:
                kept.pop(pid, None)
        self._known = kept
        self._children = {}
        for pid, known in kept.items():
            self._children.setdefault(known.ppid, []).append(pid)

    def holders(self) -> tuple[int, ...]:
        """Return the oldest process of each control group whose processes were given cards."""
        oldest: dict[str, int] = {}
        for pid, known in self._known.items():
            if known.cgroup:
                before = oldest.get(known.cgroup)
                if before is None or self._known[before].start_ticks > known.start_ticks:
                    oldest[known.cgroup] = pid
        self._given = {group: given for group, given in self._given.items() if group in oldest}
        budget = MOUNTS_PER_REFRESH
        for group, pid in sorted(oldest.items(), key=lambda item: -self._known[item[1]].start_ticks):
            if group not in self._given and budget > 0 and len(self._given) < MOST_GROUPS:
                budget -= 1
                self._given[group] = self._has_cards(pid)
        return tuple(pid for group, pid in oldest.items() if self._given.get(group))

    def ancestors(self, pids: Iterable[int]) -> tuple[int, ...]:
        """Return the parents of all these processes, each once, up to the first process."""
        found: dict[int, None] = {}
        for pid in pids:
            known = self._known.get(pid)
            while known is not None and known.ppid > 0 and known.ppid not in found:
                parent = self._known.get(known.ppid)
                if parent is None or parent.start_ticks > known.start_ticks:
                    break  # the parent ended and its pid was given to another process
                found[known.ppid] = None
                known = parent
        return tuple(found)

    def descendants(self, pid: int, most: int) -> tuple[int, ...]:
        """Return at most `most` processes below one, nearest first."""
        found: list[int] = []
        queue = list(self._children.get(pid, ()))
        while queue and len(found) < most:
            child = queue.pop(0)
            if child != pid and child not in found:
                found.append(child)
                queue.extend(self._children.get(child, ()))
        return tuple(found)

    def _list(self) -> dict[int, int]:
        try:
            with os.scandir(self._root) as entries:
                return {int(entry.name): entry.inode() for entry in entries if entry.name.isdigit()}
        except OSError:
            return {}

    def _is_same(self, pid: int, inode: int) -> bool:
        known = self._known.get(pid)
        return known is not None and known.inode == inode

    def _due(self, pids: list[int]) -> list[int]:
        start = self._next_check % len(pids) if pids else 0
        self._next_check = start + CHECKED_PER_REFRESH
        return pids[start : start + CHECKED_PER_REFRESH]

    def _read(self, pid: int, inode: int) -> Known | None:
        raw = files.record(f"{self._root}/{pid}/stat")
        fields = None if isinstance(raw, Fault) else stat.parse(raw)
        if fields is None:
            return None
        group = files.text(f"{self._root}/{pid}/cgroup", 16384)
        return Known(inode, fields.start_ticks, fields.ppid, "" if isinstance(group, Fault) else group)
