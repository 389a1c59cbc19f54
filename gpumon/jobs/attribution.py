"""Who runs: one tick's processes and cards as jobs. Pure and incremental.

Texts are read once for a process and of at most READ_PER_TICK processes a tick, so that a node that starts 500 of
them at once costs several small pieces and not one long one. A tick that has much to read only reads, and the next one
judges; a process waits unattributed for those ticks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from gpumon.jobs import assembly, assigning, held, logged, naming, occupancy, roster
from gpumon.jobs import facts as process_facts
from gpumon.jobs.assigning import Seen
from gpumon.jobs.facts import Facts, Key
from gpumon.jobs.memory import Memory
from gpumon.jobs.occupancy import Occupancy
from gpumon.model.job import Job, JobKind
from gpumon.model.samples import CardTick, Tick
from gpumon.model.settings import Settings

READ_PER_TICK = 48
# A tick that reads more than this leaves the judging to the next one.
READ_BESIDE_JUDGING = 16
# A card that works while the driver lists nobody on it: shorter, and it is a process that the list has not caught.
BUSY_ALONE_S = 10.0
# A CUDA context takes 300 to 500 MiB of card memory (426 MiB each in a published listing); an unused card 1 to 124 MiB.
CONTEXT_BYTES = 256 * 2**20


def attribute(memory: Memory, tick: Tick, settings: Settings) -> tuple[Memory, tuple[Job, ...]]:
    """Return who runs: the jobs of this tick, oldest first.

    A job is there from the tick in which its processes were read until the one in which its last GPU process is gone.
    """
    inputs = _inputs(tick, settings)
    busy_alone = _busy_alone(memory, tick)
    if memory.settled and _same(inputs, memory.inputs) and busy_alone.keys() == memory.busy_alone.keys():
        return memory, memory.jobs
    budget = 0 if memory.deferred else READ_PER_TICK
    facts, shown, unread, count = _read(memory, tick, budget)
    if count > READ_BESIDE_JUDGING:
        return _deferred(memory, facts, shown), memory.jobs
    if tick.processes.foreign_pids:
        occupied = occupancy.of_open_files(tick, shown)
    else:
        remembered = {key[0]: key for key in memory.launch_of}
        occupied = occupancy.of_tick(memory.occupancy, tick, shown, remembered)
    seen = Seen(tick, settings, facts, shown, unread, tuple(occupied.uses))
    assigned = assigning.assign(memory, seen)
    kept_facts = _kept(memory, facts, shown, assigned.launch_of)
    members = roster.updated(memory.roster, kept_facts, shown, assigned.launch_of, assigned.by_root)
    launches, jobs = assembly.assemble(assigned, members, seen, occupied)
    jobs = held.with_given(jobs, seen, memory.jobs)
    alone = frozenset(uuid for uuid, since_s in busy_alone.items() if tick.mono_s - since_s >= BUSY_ALONE_S)
    rows = logged.with_rows(tick)
    worked = logged.worked(memory.worked, rows, alone, tick.mono_s)
    nobodys = _nobodys(seen, assigned.launch_of, occupied, jobs, frozenset(worked or rows) if rows else alone)
    jobs = (*jobs, *_unattributed(memory, tick, *nobodys))
    waits = any(tick.mono_s - since_s < BUSY_ALONE_S for since_s in busy_alone.values())
    after = Memory(
        facts=kept_facts,
        shown=shown,
        roster=members,
        launches=launches,
        last_gpu_s=assigned.last_gpu_s,
        launch_of=assigned.launch_of,
        waiting=assigned.waiting,
        births=assigned.births,
        occupancy=occupied,
        busy_alone=busy_alone,
        worked=worked,
        jobs=jobs,
        inputs=inputs,
        settled=not (unread or occupied.unsettled or assigned.waiting or assigned.awaited or waits or worked or rows),
    )
    return after, jobs


def _inputs(tick: Tick, settings: Settings) -> tuple[object, ...]:
    """Return the objects that decide the outcome; they stay the same objects while nothing was read."""
    lists = [card.processes for card in tick.card_ticks]
    up = [card.up for card in tick.card_ticks]
    # Where processes are known by open files, a card counts while it works, which changes from tick to tick.
    busy = [occupancy.is_busy(card) for card in tick.card_ticks] if tick.processes.foreign_pids else []
    return (tick.processes, tick.cards, settings, *lists, *up, *busy)


def _same(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


def _busy_alone(memory: Memory, tick: Tick) -> dict[str, float]:
    """Return the cards that work although the driver lists nobody on them, and since when."""
    return {
        card.uuid: memory.busy_alone.get(card.uuid, tick.mono_s)
        for card in tick.card_ticks
        if not card.processes and (occupancy.is_busy(card) or _holds_context(card) or logged.draws(card))
    }


def _holds_context(card: CardTick) -> bool:
    """Return True where no list can be had (another tool's log) and the memory in use says that somebody is there."""
    return card.processes is None and card.up and card.reading("memory_used_bytes") >= CONTEXT_BYTES


def _deferred(memory: Memory, facts: Mapping[Key, Facts], shown: Mapping[int, Facts]) -> Memory:
    """Return the memory of a tick that was spent on reading: what was read is judged with the next one."""
    return replace(memory, facts=facts, shown=shown, settled=False, deferred=True)


def _read(
    memory: Memory, tick: Tick, budget: int
) -> tuple[Mapping[Key, Facts], Mapping[int, Facts], frozenset[int], int]:
    """Return facts by key (remembered ones too), those of shown processes by pid, pids left for later, the count read.

    The mappings of the tick before come back when every process is as it was.
    """
    shown: dict[int, Facts] = {}
    unread: list[int] = []
    left, changed = budget, False
    before, configs = memory.facts, tick.processes.configs
    for process in tick.processes.processes:
        key = process.pid, process.start_ticks
        known = before.get(key)
        config = configs.get(key)
        if known is None or not process_facts.is_current(known, process, config):
            changed = True
            if left > 0:
                left -= 1
                known = process_facts.read(process, config, known)
            else:
                unread.append(process.pid)
        if known is not None:
            shown[process.pid] = known
    if not changed and shown.keys() == memory.shown.keys():
        return before, memory.shown, frozenset(), 0
    facts = {key: before[key] for key in memory.launch_of if key in before}
    facts.update((one.key, one) for one in shown.values())
    return facts, shown, frozenset(unread), budget - left


def _kept(
    memory: Memory, facts: Mapping[Key, Facts], shown: Mapping[int, Facts], launch_of: Mapping[Key, str]
) -> Mapping[Key, Facts]:
    """Return the facts that still matter: of processes shown, and of those that have a job."""
    if facts is memory.facts and len(facts) == len(shown):
        return facts
    return {key: one for key, one in facts.items() if key in launch_of or one is shown.get(key[0])}


def _nobodys(
    seen: Seen,
    launch_of: Mapping[Key, str],
    occupied: Occupancy,
    jobs: tuple[Job, ...],
    alone: frozenset[str],
) -> tuple[dict[str, float], list[Key]]:
    """Return the cards that work for somebody nobody can name, with the memory of theirs, and known pids among them."""
    cards: dict[str, float] = dict.fromkeys(occupied.hidden, math.nan)
    keys = [
        key
        for key in occupied.uses
        if key not in launch_of and key in seen.facts and seen.facts[key].kind is JobKind.UNATTRIBUTED
    ]
    for key in keys:
        for use in occupied.uses[key]:
            cards[use.device.uuid] = cards.get(use.device.uuid, 0.0) + use.memory_bytes
    used = {card.uuid for job in jobs for card in job.cards if card.used}
    cards |= dict.fromkeys(alone - used, math.nan)
    if seen.tick.processes.foreign_pids:
        cards |= {card.uuid: math.nan for card in seen.tick.card_ticks if card.processes and card.uuid not in used}
    return cards, keys


def _unattributed(memory: Memory, tick: Tick, cards: Mapping[str, float], keys: list[Key]) -> tuple[Job, ...]:
    if not cards:
        return ()
    before = next((job for job in memory.jobs if job.gpu_job == naming.UNATTRIBUTED), None)
    return (assembly.unattributed(cards, keys, before.first_seen_s if before is not None else tick.mono_s),)
