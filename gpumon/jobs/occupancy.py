"""Who is on which card: the driver's process lists, joined to processes by identity.

A list that cannot be had now (a lost card, a failed call) stands as it was for those of its processes that still
live. A pid that procfs does not show is hidden, once two readings of procfs after the listing agree; a pid that was
attributed before and has vanished from procfs while the driver still lists it keeps its job (a dead process whose
memory is not freed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpumon.jobs.devices import Device, by_minor
from gpumon.jobs.facts import Facts, Key
from gpumon.model.fault import Fault, same_value
from gpumon.model.samples import CardTick, GpuProcess, Tick

HIDDEN_AFTER_TABLES = 2
# A few megabytes on every card of a machine with a screen: no job, and no reason to call a card shared.
_DISPLAY_SERVERS = frozenset("Xorg X Xwayland gnome-shell kwin_x11 kwin_wayland plasmashell weston mutter sway".split())


class Use(NamedTuple):
    """One process on one card or slice. A tuple, because one is made for every process in every refresh."""

    device: Device
    memory_bytes: float  # NaN when the driver does not tell
    sm_ratio: float  # NaN when unknown


@dataclass(frozen=True, slots=True)
class _Listed:
    """A card's process list, taken apart."""

    source: tuple[GpuProcess, ...]
    total_bytes: float  # of the card
    uses: tuple[tuple[int, Use, bool], ...]  # (pid, use, draws only), each pid and slice once


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The node's cards as occupied at one tick."""

    uses: Mapping[Key, tuple[Use, ...]] = field(default_factory=dict)
    hidden: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # uuid -> pids nobody may look at
    unsettled: bool = False  # a listed process has not been read or judged yet
    # Carried to the next tick:
    lists: Mapping[str, _Listed] = field(default_factory=dict)  # uuid -> last list that could be had
    unseen: Mapping[int, tuple[int, float]] = field(default_factory=dict)  # pid -> (tables without it, of the last)


def of_tick(before: Occupancy, tick: Tick, facts: Mapping[int, Facts], remembered: Mapping[int, Key]) -> Occupancy:
    """Join the driver's lists to processes.

    Args:
        facts: by pid, of the processes that procfs shows and that were read.
        remembered: pid -> key of processes that have a job.
    """
    shown = {process.pid for process in tick.processes.processes}
    lists: dict[str, _Listed] = {}
    uses: dict[Key, list[Use]] = {}
    hidden: dict[str, tuple[int, ...]] = {}
    unseen: dict[int, tuple[int, float]] = {}
    unsettled = False
    for card_tick in tick.card_ticks:
        current = card_tick.processes is not None and card_tick.up
        listed = _listed(before.lists.get(card_tick.uuid), card_tick, current=current)
        if listed is None:
            continue
        lists[card_tick.uuid] = listed
        nobody: list[int] = []
        for pid, use, draws in listed.uses:
            known = facts.get(pid)
            if known is not None and draws and _shows_the_screen(known):
                continue
            if known is not None:
                uses.setdefault(known.key, []).append(use)
            elif pid in shown:
                unsettled = True
            elif not current:
                continue  # its card is silent and procfs no longer shows it: it ended
            elif pid in remembered:
                uses.setdefault(remembered[pid], []).append(use)
            else:
                count, _ = unseen[pid] = _unseen(before, tick, card_tick, pid)
                if count >= HIDDEN_AFTER_TABLES:
                    nobody.append(pid)
                else:
                    unsettled = True
        if nobody:
            hidden[card_tick.uuid] = tuple(nobody)
    return Occupancy(
        uses={key: tuple(found) for key, found in uses.items()},
        hidden=hidden,
        unsettled=unsettled,
        lists=lists,
        unseen=unseen,
    )


def of_open_files(tick: Tick, facts: Mapping[int, Facts]) -> Occupancy:
    """Take a process to be on the busy ones of the cards it holds open, where the driver's pids are not ours.

    CUDA opens every card it can see, so a card counts only while it works or the driver lists somebody on it.
    """
    busy = {card.uuid for card in tick.card_ticks if card.processes or is_busy(card)}
    named = by_minor(tick.cards)
    uses: dict[Key, tuple[Use, ...]] = {}
    unsettled = False
    for process in tick.processes.processes:
        if isinstance(process.gpu_minors, Fault) or not process.gpu_minors:
            continue
        known = facts.get(process.pid)
        if known is None:
            unsettled = True
            continue
        held = [named[minor] for minor in sorted(process.gpu_minors) if minor in named]
        uses[known.key] = tuple(
            Use(Device(card.identity.uuid), math.nan, math.nan) for card in held if card.identity.uuid in busy
        )
    return Occupancy(uses={key: found for key, found in uses.items() if found}, unsettled=unsettled)


def is_busy(card_tick: CardTick) -> bool:
    """Return True when a kernel ran on the card within the tick."""
    return bool(card_tick.up and card_tick.utilization.value.size and float(card_tick.utilization.value.max()) > 0.0)


def _listed(before: _Listed | None, card_tick: CardTick, *, current: bool) -> _Listed | None:
    """Return the card's list, the old one where it cannot be had now or has not been read again."""
    source = card_tick.processes
    if not current or source is None:
        return before
    if not source:
        return None
    total_bytes = card_tick.reading("memory_total_bytes")
    if before is not None and source is before.source and same_value(total_bytes, before.total_bytes):
        return before
    found: dict[tuple[int, str], tuple[int, Use, bool]] = {}
    for process in source:
        key = process.pid, process.mig_uuid
        draws = process.kind == "graphics"
        if process.pid > 0 and (key not in found or (found[key][2] and not draws)):
            found[key] = process.pid, _use(card_tick.uuid, total_bytes, process), draws
    return _Listed(source, total_bytes, tuple(found.values()))


def _shows_the_screen(process: Facts) -> bool:
    return process.source.comm in _DISPLAY_SERVERS and not process.place.chain


def _use(uuid: str, total: float, process: GpuProcess) -> Use:
    memory = process.used_memory_bytes
    if memory > total or memory < 0:
        memory = math.nan  # more than the card has: the driver's list was read with a wrong stride
    return Use(Device(uuid, process.mig_uuid), memory, min(1.0, process.sm_ratio))


def _unseen(before: Occupancy, tick: Tick, card_tick: CardTick, pid: int) -> tuple[int, float]:
    """Return how many procfs readings after the listing did not show the pid, and when the last one was."""
    count, last_s = before.unseen.get(pid, (0, math.nan))
    read_s = tick.processes.read_s
    fresh = not math.isnan(read_s) and read_s != last_s
    if fresh and not read_s < card_tick.processes_s:
        return count + 1, read_s
    return count, last_s
